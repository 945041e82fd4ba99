//! What is contributed.

use serde::Serialize;
use serde_json::{Value, json};

use crate::VERSION;
use crate::vocabulary::{AppenderPosition, ContributionKind, FallbackStatus, RendererKind, RuntimeStatus};

/// An opaque handle that a render runtime knows what to do with.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: String,
    id: String,
    data: Option<Value>,
}

impl Handle {
    /// The handle of this kind and id.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into(), data: None }
    }

    /// Attaches an object. A handle with data is another handle than one without.
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
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page.
    #[must_use]
    pub fn route(self, route: Route) -> Self {
        self.with(ContributionKind::Routes, route.0)
    }

    /// Adds an entry of the sidebar.
    #[must_use]
    pub fn sidebar_item(self, item: SidebarItem) -> Self {
        self.with(ContributionKind::SidebarItems, item.0)
    }

    /// Adds a place to configure something.
    #[must_use]
    pub fn configuration_surface(self, surface: Surface) -> Self {
        self.with(ContributionKind::ConfigurationSurfaces, surface.0)
    }

    /// Adds a place to connect something.
    #[must_use]
    pub fn integration_surface(self, surface: Surface) -> Self {
        self.with(ContributionKind::IntegrationSurfaces, surface.0)
    }

    /// Adds a renderer of what it claims.
    #[must_use]
    pub fn renderer(self, kind: RendererKind, renderer: Renderer) -> Self {
        let kind = match kind {
            RendererKind::Message => ContributionKind::MessageRenderers,
            RendererKind::Tool => ContributionKind::ToolRenderers,
            RendererKind::Activity => ContributionKind::ActivityRenderers,
        };
        self.with(kind, renderer.0)
    }

    /// Adds something around messages.
    #[must_use]
    pub fn appender(self, appender: Appender) -> Self {
        self.with(ContributionKind::MessageAppenders, appender.0)
    }

    /// Adds a stand-in for when the module is not ready.
    #[must_use]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(ContributionKind::FallbackSurfaces, fallback.0)
    }

    fn with(mut self, kind: ContributionKind, descriptor: Value) -> Self {
        self.0.entry(kind.collection()).or_default().push(descriptor);
        self
    }
}

/// A descriptor with the methods that all kinds share.
macro_rules! descriptor {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug)]
        pub struct $name(Value);

        impl $name {
            /// Says what to call it.
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

/// A descriptor that can also say in which statuses it is active.
macro_rules! activated {
    ($($name:ident),+) => {
        $(impl $name {
            /// Says in which statuses of its module it is active, instead of the default of its kind.
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
    /// An entry of the sidebar.
    SidebarItem
);
descriptor!(
    /// A place to configure or connect something.
    Surface
);
descriptor!(
    /// Draws what it claims.
    Renderer
);
descriptor!(
    /// Adds something around messages of a type.
    Appender
);
descriptor!(
    /// Stands in for a module that is not ready. It is matched by its status, so it has no `active_when`.
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
    /// The entry `id`, which leads nowhere yet.
    pub fn new(id: &str, label: &str) -> Self {
        Self(json!({"id": id, "label": label}))
    }

    /// Leads to a route, named by its canonical key.
    #[must_use]
    pub fn route_key(self, key: &str) -> Self {
        self.with("routeKey", key)
    }

    /// Puts it under a heading.
    #[must_use]
    pub fn section(self, section: &str) -> Self {
        self.with("section", section)
    }
}

impl Surface {
    /// The surface `id`.
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
    /// The stand-in `id` for a status.
    pub fn new(id: &str, status: FallbackStatus, handle: Handle) -> Self {
        Self(json!({"id": id, "status": status, "renderHandle": Value::from(handle)}))
    }
}
