//! Contributions after barrier A: complete, named and valid.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::vocabulary::{AppenderPosition, FallbackStatus, Key, StatusSet};

/// An opaque render handle. The kernel validates and copies it, and never resolves it.
///
/// It is serialized with its only version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenderHandle<'i> {
    pub kind: &'i str,
    pub id: &'i str,
    /// Data for the renderer: an object.
    pub data: Option<&'i Value>,
}

impl Serialize for RenderHandle<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("renderHandleVersion", crate::VERSION)?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("id", self.id)?;
        if let Some(data) = self.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}

/// When a module's contribution is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activation {
    /// The default of its kind.
    #[default]
    Default,
    /// In exactly these statuses.
    Explicit(StatusSet),
}

/// One contribution of one source.
pub(crate) struct Contribution<'i> {
    pub(crate) key: Key<'i>,
    /// The index of its source.
    pub(crate) source: usize,
    pub(crate) label: Option<&'i str>,
    pub(crate) metadata: Option<&'i Value>,
    pub(crate) activation: Activation,
    pub(crate) body: Body<'i>,
}

/// The kind-specific part of a contribution.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'i> {
    Route { path: &'i str, handle: RenderHandle<'i> },
    SidebarItem { section: Option<&'i str>, route_key: Option<&'i str> },
    Surface { purpose: &'i str, handle: RenderHandle<'i> },
    Renderer { claim: &'i str, handle: RenderHandle<'i> },
    Appender { target_message_type: &'i str, position: AppenderPosition, handle: RenderHandle<'i> },
    Fallback { status: FallbackStatus, handle: RenderHandle<'i> },
}

impl<'i> Body<'i> {
    /// The handle; sidebar items have none.
    pub(crate) const fn handle(&self) -> Option<&RenderHandle<'i>> {
        match self {
            Self::Route { handle, .. }
            | Self::Surface { handle, .. }
            | Self::Renderer { handle, .. }
            | Self::Appender { handle, .. }
            | Self::Fallback { handle, .. } => Some(handle),
            Self::SidebarItem { .. } => None,
        }
    }

    /// The claim of a renderer.
    pub(crate) const fn claim(&self) -> Option<&'i str> {
        match self {
            Self::Renderer { claim, .. } => Some(claim),
            _ => None,
        }
    }
}
