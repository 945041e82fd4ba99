//! What is contributed.

use serde::Serialize;
use serde_json::{Value, json};

use crate::VERSION;
use crate::vocabulary::{AppenderPosition, ContributionKind, FallbackStatus, RendererKind, RuntimeStatus};

/// An opaque handle for a render runtime.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: String,
    id: String,
    data: Option<Value>,
}

impl Handle {
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into(), data: None }
    }

    /// Attaches an object. Handles with different data are different handles.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl From<Handle> for Value {
    fn from(handle: Handle) -> Self {
        let mut value = json!({
            "renderHandleVersion": VERSION,
            "kind": handle.kind,
            "id": handle.id,
        });
        if let Some(data) = handle.data {
            value["data"] = data;
        }
        value
    }
}

/// The contributions of one owner.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Contributions(std::collections::BTreeMap<&'static str, Vec<Value>>);

impl Contributions {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page.
    #[must_use]
    pub fn route(self, route: Route) -> Self {
        self.with(ContributionKind::Routes, route.0)
    }

    /// Adds a sidebar entry.
    #[must_use]
    pub fn sidebar_item(self, item: SidebarItem) -> Self {
        self.with(ContributionKind::SidebarItems, item.0)
    }

    /// Adds a configuration surface.
    #[must_use]
    pub fn configuration_surface(self, surface: Surface) -> Self {
        self.with(ContributionKind::ConfigurationSurfaces, surface.0)
    }

    /// Adds an integration surface.
    #[must_use]
    pub fn integration_surface(self, surface: Surface) -> Self {
        self.with(ContributionKind::IntegrationSurfaces, surface.0)
    }

    #[must_use]
    pub fn renderer(self, kind: RendererKind, renderer: Renderer) -> Self {
        let kind = match kind {
            RendererKind::Message => ContributionKind::MessageRenderers,
            RendererKind::Tool => ContributionKind::ToolRenderers,
            RendererKind::Activity => ContributionKind::ActivityRenderers,
        };
        self.with(kind, renderer.0)
    }

    /// Adds content before or after messages.
    #[must_use]
    pub fn appender(self, appender: Appender) -> Self {
        self.with(ContributionKind::MessageAppenders, appender.0)
    }

    /// Adds a fallback for when the module is not ready.
    #[must_use]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(ContributionKind::FallbackSurfaces, fallback.0)
    }

    fn with(mut self, kind: ContributionKind, descriptor: Value) -> Self {
        self.0.entry(kind.collection()).or_default().push(descriptor);
        self
    }
}

/// A descriptor with the methods common to all kinds.
macro_rules! descriptor {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug)]
        pub struct $name(Value);

        impl $name {
            #[must_use]
            pub fn label(self, label: &str) -> Self {
                self.with("label", label)
            }

            /// Attaches an object.
            #[must_use]
            pub fn metadata(self, metadata: Value) -> Self {
                self.with("metadata", metadata)
            }

            fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
                self.0[name] = value.into();
                self
            }
        }
    };
}

/// A descriptor with activation statuses.
macro_rules! activated {
    ($($name:ident),+) => {
        $(impl $name {
            /// Sets the statuses in which it is active, instead of the default of its kind.
            #[must_use]
            pub fn active_when(self, statuses: &[RuntimeStatus]) -> Self {
                self.with("activeWhen", statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>())
            }
        })+
    };
}

descriptor!(
    /// A page with a path.
    Route
);
descriptor!(
    /// A sidebar entry.
    SidebarItem
);
descriptor!(
    /// A configuration or integration surface.
    Surface
);
descriptor!(
    /// A renderer of a claim.
    Renderer
);
descriptor!(
    /// Content before or after messages of a type.
    Appender
);
descriptor!(
    /// A fallback for a module that is not ready. It is matched by its status, so it has no `active_when`.
    Fallback
);
activated!(Route, SidebarItem, Surface, Renderer, Appender);

impl Route {
    /// The page `id` at `path`.
    pub fn new(id: &str, path: &str, handle: Handle) -> Self {
        Self(json!({"id": id, "path": path, "renderHandle": Value::from(handle)}))
    }
}

impl SidebarItem {
    /// The entry `id`, without a target.
    pub fn new(id: &str, label: &str) -> Self {
        Self(json!({"id": id, "label": label}))
    }

    /// Sets the target route by canonical key.
    #[must_use]
    pub fn route_key(self, key: &str) -> Self {
        self.with("routeKey", key)
    }

    /// Sets the section heading.
    #[must_use]
    pub fn section(self, section: &str) -> Self {
        self.with("section", section)
    }
}

impl Surface {
    pub fn new(id: &str, purpose: &str, handle: Handle) -> Self {
        Self(json!({"id": id, "purpose": purpose, "renderHandle": Value::from(handle)}))
    }
}

impl Renderer {
    /// The renderer `id` of a claim such as `tool:data-lab.query`.
    pub fn new(id: &str, claim: &str, handle: Handle) -> Self {
        Self(json!({"id": id, "claim": claim, "renderHandle": Value::from(handle)}))
    }
}

impl Appender {
    /// The appender `id` around messages of a type.
    pub fn new(id: &str, target_message_type: &str, position: AppenderPosition, handle: Handle) -> Self {
        Self(json!({
            "id": id,
            "targetMessageType": target_message_type,
            "position": position,
            "renderHandle": Value::from(handle),
        }))
    }
}

impl Fallback {
    pub fn new(id: &str, status: FallbackStatus, handle: Handle) -> Self {
        Self(json!({"id": id, "status": status, "renderHandle": Value::from(handle)}))
    }
}
