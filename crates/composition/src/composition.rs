//! The composed workspace.
//!
//! Everything borrows from the [`Input`](crate::Input), and shared data is not copied. The members and their order are
//! those of the specification.

mod entries;
mod runtime;

use serde::Serialize;

pub use entries::{
    Entry, FallbackSurface, MessageAppender, Renderer, RendererClaimBinding, RequiredRenderHandle, Route,
    SidebarItem, Surface, UsedBy,
};
pub use runtime::{ActionKind, Module, RuntimeAction, RuntimeSummary};

use crate::diagnostic::Diagnostic;
use crate::effect::Effect;
use crate::vocabulary::{ContributionKind, Key, Owner};

/// The result of composing.
#[derive(Clone, Debug, PartialEq)]
pub struct ComposeOutcome<'i> {
    /// The composition, if the input is valid.
    pub composition: Option<Composition<'i>>,
    /// The diagnostics, sorted by their stable key.
    pub diagnostics: Vec<Diagnostic<'i>>,
    /// The effects of the policy up to the first failure.
    pub policy_effects: Vec<Effect<'i>>,
}

impl ComposeOutcome<'_> {
    pub const fn is_ok(&self) -> bool {
        self.composition.is_some()
    }
}

/// Everything that a workspace shows, in display order.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition<'i> {
    /// Every owner of the input, active or not.
    pub owners: Vec<Owner<'i>>,
    /// Every module of the input, active or not.
    pub modules: Vec<Module<'i>>,
    /// Pages, by effective path.
    pub routes: Vec<Route<'i>>,
    pub sidebar_items: Vec<SidebarItem<'i>>,
    pub configuration_surfaces: Vec<Surface<'i>>,
    pub integration_surfaces: Vec<Surface<'i>>,
    /// One per claimed message type.
    pub message_renderers: Vec<Renderer<'i>>,
    /// Content before or after messages.
    pub message_appenders: Vec<MessageAppender<'i>>,
    /// One per claimed tool.
    pub tool_renderers: Vec<Renderer<'i>>,
    /// One per claimed activity.
    pub activity_renderers: Vec<Renderer<'i>>,
    /// Fallbacks for modules that are not ready.
    pub fallback_surfaces: Vec<FallbackSurface<'i>>,
    pub renderer_claims: Vec<RendererClaimBinding<'i>>,
    /// The handles that a render runtime must provide.
    pub required_render_handles: Vec<RequiredRenderHandle<'i>>,
}

impl<'i> Composition<'i> {
    /// Every entry with its position in its collection.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry<'i>)> {
        let routes = self.routes.iter().map(|route| &route.entry).enumerate();
        let sidebar_items = self.sidebar_items.iter().map(|item| &item.entry).enumerate();
        let surfaces = [&self.configuration_surfaces, &self.integration_surfaces]
            .into_iter()
            .flat_map(|surfaces| surfaces.iter().map(|surface| &surface.entry).enumerate());
        let renderers = [&self.message_renderers, &self.tool_renderers, &self.activity_renderers]
            .into_iter()
            .flat_map(|renderers| renderers.iter().map(|renderer| &renderer.entry).enumerate());
        let appenders = self.message_appenders.iter().map(|appender| &appender.entry).enumerate();
        let fallbacks = self.fallback_surfaces.iter().map(|fallback| &fallback.entry).enumerate();
        routes.chain(sidebar_items).chain(surfaces).chain(renderers).chain(appenders).chain(fallbacks)
    }

    /// The entry of a key, with its position in its collection.
    pub fn find(&self, key: Key<'_>) -> Option<(usize, &Entry<'i>)> {
        self.entries().find(|(_, entry)| entry.key == key)
    }

    /// The number of entries of a kind.
    pub const fn count(&self, kind: ContributionKind) -> usize {
        match kind {
            ContributionKind::Routes => self.routes.len(),
            ContributionKind::SidebarItems => self.sidebar_items.len(),
            ContributionKind::ConfigurationSurfaces => self.configuration_surfaces.len(),
            ContributionKind::IntegrationSurfaces => self.integration_surfaces.len(),
            ContributionKind::MessageRenderers => self.message_renderers.len(),
            ContributionKind::MessageAppenders => self.message_appenders.len(),
            ContributionKind::ToolRenderers => self.tool_renderers.len(),
            ContributionKind::ActivityRenderers => self.activity_renderers.len(),
            ContributionKind::FallbackSurfaces => self.fallback_surfaces.len(),
        }
    }
}

/// The composition on the wire, which repeats the effects and diagnostics of the result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireComposition<'o, 'i> {
    composition_schema_version: &'static str,
    policy_schema_version: &'static str,
    owners: &'o [Owner<'i>],
    modules: &'o [Module<'i>],
    routes: &'o [Route<'i>],
    sidebar_items: &'o [SidebarItem<'i>],
    configuration_surfaces: &'o [Surface<'i>],
    integration_surfaces: &'o [Surface<'i>],
    message_renderers: &'o [Renderer<'i>],
    message_appenders: &'o [MessageAppender<'i>],
    tool_renderers: &'o [Renderer<'i>],
    activity_renderers: &'o [Renderer<'i>],
    fallback_surfaces: &'o [FallbackSurface<'i>],
    renderer_claims: &'o [RendererClaimBinding<'i>],
    required_render_handles: &'o [RequiredRenderHandle<'i>],
    applied_policy: &'o [Effect<'i>],
    diagnostics: &'o [Diagnostic<'i>],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireOutcome<'o, 'i> {
    ok: bool,
    composition: Option<WireComposition<'o, 'i>>,
    diagnostics: &'o [Diagnostic<'i>],
    policy_effects: &'o [Effect<'i>],
}

impl Serialize for ComposeOutcome<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let composition = self.composition.as_ref().map(|composition| WireComposition {
            composition_schema_version: crate::VERSION,
            policy_schema_version: crate::VERSION,
            owners: &composition.owners,
            modules: &composition.modules,
            routes: &composition.routes,
            sidebar_items: &composition.sidebar_items,
            configuration_surfaces: &composition.configuration_surfaces,
            integration_surfaces: &composition.integration_surfaces,
            message_renderers: &composition.message_renderers,
            message_appenders: &composition.message_appenders,
            tool_renderers: &composition.tool_renderers,
            activity_renderers: &composition.activity_renderers,
            fallback_surfaces: &composition.fallback_surfaces,
            renderer_claims: &composition.renderer_claims,
            required_render_handles: &composition.required_render_handles,
            applied_policy: &self.policy_effects,
            diagnostics: &self.diagnostics,
        });
        WireOutcome {
            ok: self.is_ok(),
            composition,
            diagnostics: &self.diagnostics,
            policy_effects: &self.policy_effects,
        }
        .serialize(serializer)
    }
}
