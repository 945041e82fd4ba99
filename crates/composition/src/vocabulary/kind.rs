//! The nine kinds of contribution.

use super::{StatusSet, wire_names};

/// The kind of a contribution; the middle part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContributionKind {
    /// A page with a path.
    Routes,
    SidebarItems,
    ConfigurationSurfaces,
    IntegrationSurfaces,
    /// Renders one type of message.
    MessageRenderers,
    /// Adds content before or after a type of message.
    MessageAppenders,
    /// Renders the calls of one tool.
    ToolRenderers,
    /// Renders one type of activity.
    ActivityRenderers,
    /// Shown in place of a module that is not ready.
    FallbackSurfaces,
}

wire_names!(ContributionKind {
    Routes => "routes",
    SidebarItems => "sidebar-items",
    ConfigurationSurfaces => "configuration-surfaces",
    IntegrationSurfaces => "integration-surfaces",
    MessageRenderers => "message-renderers",
    MessageAppenders => "message-appenders",
    ToolRenderers => "tool-renderers",
    ActivityRenderers => "activity-renderers",
    FallbackSurfaces => "fallback-surfaces",
});

impl ContributionKind {
    /// The member of `contributions` with this kind.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::SidebarItems => "sidebarItems",
            Self::ConfigurationSurfaces => "configurationSurfaces",
            Self::IntegrationSurfaces => "integrationSurfaces",
            Self::MessageRenderers => "messageRenderers",
            Self::MessageAppenders => "messageAppenders",
            Self::ToolRenderers => "toolRenderers",
            Self::ActivityRenderers => "activityRenderers",
            Self::FallbackSurfaces => "fallbackSurfaces",
        }
    }

    /// The kind of the member `name` of `contributions`.
    pub fn of_collection(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.collection() == name)
    }

    /// Its position in the byte order of all kind names.
    pub(crate) const fn name_rank(self) -> u8 {
        match self {
            Self::ActivityRenderers => 0,
            Self::ConfigurationSurfaces => 1,
            Self::FallbackSurfaces => 2,
            Self::IntegrationSurfaces => 3,
            Self::MessageAppenders => 4,
            Self::MessageRenderers => 5,
            Self::Routes => 6,
            Self::SidebarItems => 7,
            Self::ToolRenderers => 8,
        }
    }

    /// Whether a `reorder` operation may move it.
    pub const fn is_ordered(self) -> bool {
        match self {
            Self::SidebarItems
            | Self::ConfigurationSurfaces
            | Self::IntegrationSurfaces
            | Self::MessageAppenders
            | Self::FallbackSurfaces => true,
            Self::Routes | Self::MessageRenderers | Self::ToolRenderers | Self::ActivityRenderers => false,
        }
    }

    /// The default statuses in which a module's contribution of this kind is active.
    ///
    /// Fallback surfaces are matched by their own `status` and have none.
    pub const fn default_active_when(self) -> StatusSet {
        match self {
            Self::Routes
            | Self::SidebarItems
            | Self::MessageRenderers
            | Self::MessageAppenders
            | Self::ToolRenderers
            | Self::ActivityRenderers => StatusSet::READY,
            Self::ConfigurationSurfaces => StatusSet::CONFIGURABLE,
            Self::IntegrationSurfaces => StatusSet::CONNECTABLE,
            Self::FallbackSurfaces => StatusSet::EMPTY,
        }
    }

    /// The renderer family, if it is a renderer.
    pub const fn renderer_kind(self) -> Option<RendererKind> {
        match self {
            Self::MessageRenderers => Some(RendererKind::Message),
            Self::ToolRenderers => Some(RendererKind::Tool),
            Self::ActivityRenderers => Some(RendererKind::Activity),
            Self::Routes
            | Self::SidebarItems
            | Self::ConfigurationSurfaces
            | Self::IntegrationSurfaces
            | Self::MessageAppenders
            | Self::FallbackSurfaces => None,
        }
    }
}

/// What a renderer renders; the family before the `:` of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RendererKind {
    Message,
    /// Tool calls.
    Tool,
    Activity,
}

wire_names!(RendererKind { Message => "message", Tool => "tool", Activity => "activity" });
