//! The composed entries of each collection.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::RuntimeSummary;
use crate::contribution::RenderHandle;
use crate::vocabulary::{AppenderPosition, FallbackStatus, Key, NonReadyStatus, Owner, RendererKind};

/// The members common to all entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'i> {
    /// The canonical key, with kind and local id.
    pub key: Key<'i>,
    pub owner: Owner<'i>,
    pub label: Option<&'i str>,
    /// Metadata from the author: an object.
    pub metadata: Option<&'i Value>,
    /// The module's runtime; `None` for built-ins.
    pub runtime: Option<Arc<RuntimeSummary<'i>>>,
    /// The operations that affected it, sorted.
    pub policy_ids: Vec<&'i str>,
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Route<'i> {
    pub entry: Entry<'i>,
    pub declared_path: &'i str,
    /// The path after aliases.
    pub effective_path: &'i str,
    pub render_handle: RenderHandle<'i>,
}

/// A sidebar entry. It always has a label.
#[derive(Clone, Debug, PartialEq)]
pub struct SidebarItem<'i> {
    pub entry: Entry<'i>,
    pub section: Option<&'i str>,
    /// The target route, which is part of the composition.
    pub route_key: Option<&'i str>,
}

/// A configuration or an integration surface.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface<'i> {
    pub entry: Entry<'i>,
    pub purpose: &'i str,
    pub render_handle: RenderHandle<'i>,
}

/// The renderer of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Renderer<'i> {
    pub entry: Entry<'i>,
    pub claim: &'i str,
    pub render_handle: RenderHandle<'i>,
}

/// Content before or after messages of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageAppender<'i> {
    pub entry: Entry<'i>,
    pub target_message_type: &'i str,
    pub position: AppenderPosition,
    pub render_handle: RenderHandle<'i>,
}

/// A fallback for a module that is not ready.
#[derive(Clone, Debug, PartialEq)]
pub struct FallbackSurface<'i> {
    pub entry: Entry<'i>,
    pub status: FallbackStatus,
    /// The current status that it matches.
    pub matched_status: NonReadyStatus,
    pub render_handle: RenderHandle<'i>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RendererClaimBinding<'i> {
    pub claim: &'i str,
    pub renderer_kind: RendererKind,
    pub renderer_key: Key<'i>,
    pub owner: Owner<'i>,
    pub render_handle: RenderHandle<'i>,
    /// The operation that decided it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<&'i str>,
}

/// A handle that a render runtime must provide.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredRenderHandle<'i> {
    /// The owner that uses it.
    pub owner: Owner<'i>,
    /// The handle, as written by its first user.
    pub handle: RenderHandle<'i>,
    /// The entries that use it, sorted.
    pub used_by: UsedBy<'i>,
}

/// The entries that use a handle. Usually one, which needs no list.
#[derive(Clone, Debug, PartialEq)]
pub enum UsedBy<'i> {
    One(Key<'i>),
    Many(Vec<Key<'i>>),
}

impl<'i> FromIterator<Key<'i>> for UsedBy<'i> {
    fn from_iter<I: IntoIterator<Item = Key<'i>>>(keys: I) -> Self {
        let mut keys = keys.into_iter();
        match (keys.next(), keys.next()) {
            (Some(one), None) => Self::One(one),
            (first, second) => Self::Many(first.into_iter().chain(second).chain(keys).collect()),
        }
    }
}

impl<'i> std::ops::Deref for UsedBy<'i> {
    type Target = [Key<'i>];

    fn deref(&self) -> &[Key<'i>] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Many(keys) => keys,
        }
    }
}

impl Serialize for UsedBy<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Writes an entry as one flat object: first the common members, then those of its kind.
///
/// Handwritten, because `#[serde(flatten)]` would buffer every entry.
macro_rules! serialize_flat {
    ($type:ident { $($name:literal: $field:ident),+ $(,)? }) => {
        impl Serialize for $type<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.entry.serialize_into(&mut map)?;
                $(map.serialize_entry($name, &self.$field)?;)+
                map.end()
            }
        }
    };
}

serialize_flat!(Route {
    "declaredPath": declared_path,
    "effectivePath": effective_path,
    "renderHandle": render_handle,
});
serialize_flat!(Surface { "purpose": purpose, "renderHandle": render_handle });
serialize_flat!(Renderer { "claim": claim, "renderHandle": render_handle });
serialize_flat!(MessageAppender {
    "targetMessageType": target_message_type,
    "position": position,
    "renderHandle": render_handle,
});
serialize_flat!(FallbackSurface {
    "status": status,
    "matchedStatus": matched_status,
    "renderHandle": render_handle,
});

impl Serialize for SidebarItem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entry.serialize_into(&mut map)?;
        serialize_present(&mut map, "section", self.section.as_ref())?;
        serialize_present(&mut map, "routeKey", self.route_key.as_ref())?;
        map.end()
    }
}

impl Entry<'_> {
    fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("kind", &self.key.kind())?;
        map.serialize_entry("owner", &self.owner)?;
        map.serialize_entry("localId", self.key.local_id())?;
        serialize_present(map, "label", self.label.as_ref())?;
        serialize_present(map, "metadata", self.metadata.as_ref())?;
        serialize_present(map, "runtime", self.runtime.as_deref())?;
        map.serialize_entry("policyIds", &self.policy_ids)
    }
}

/// A missing member is left out, never `null`.
fn serialize_present<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}
