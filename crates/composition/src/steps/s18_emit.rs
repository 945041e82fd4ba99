//! Step 18: emit the composition, every list in its order.

use std::sync::Arc;

use super::s01_shape::VERSION;
use super::s02_sources::Source;
use super::s07_gate::Gate;
use super::s16_reorder::{self, Moves};
use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::composition::{
    Composition, Entry, FallbackSurface, MessageAppender, Module, Renderer, RendererClaimBinding,
    RequiredRenderHandle, Route, SidebarItem, Surface,
};
use crate::contribution::Body;
use crate::vocabulary::{ContributionKind, Owner, OwnerKind};

/// Adds the remaining contributions to their collections.
pub(crate) fn emit<'i>(
    mut assembly: Assembly<'_, 'i>,
    moves: &Moves,
    required_render_handles: Vec<RequiredRenderHandle<'i>>,
) -> Composition<'i> {
    let mut by_kind = survivors_by_kind(&assembly);
    let mut take = |kind: ContributionKind| std::mem::take(&mut by_kind[kind as usize]);

    let routes = by_path(&assembly, take(ContributionKind::Routes));
    let message_renderers = by_claim(&assembly, take(ContributionKind::MessageRenderers));
    let tool_renderers = by_claim(&assembly, take(ContributionKind::ToolRenderers));
    let activity_renderers = by_claim(&assembly, take(ContributionKind::ActivityRenderers));
    let mut ordered = |kind| s16_reorder::order(&assembly, kind, take(kind), moves);
    let sidebar_items = ordered(ContributionKind::SidebarItems);
    let configuration_surfaces = ordered(ContributionKind::ConfigurationSurfaces);
    let integration_surfaces = ordered(ContributionKind::IntegrationSurfaces);
    let message_appenders = ordered(ContributionKind::MessageAppenders);
    let fallback_surfaces = ordered(ContributionKind::FallbackSurfaces);

    let renderer_claims =
        bindings(&assembly, [&activity_renderers, &message_renderers, &tool_renderers].into_iter().flatten());
    Composition {
        owners: owners(&assembly),
        modules: modules(&assembly),
        routes: emit_routes(&mut assembly, &routes),
        sidebar_items: emit_sidebar_items(&mut assembly, &sidebar_items),
        configuration_surfaces: emit_surfaces(&mut assembly, &configuration_surfaces),
        integration_surfaces: emit_surfaces(&mut assembly, &integration_surfaces),
        message_renderers: emit_renderers(&mut assembly, &message_renderers),
        message_appenders: emit_appenders(&mut assembly, &message_appenders),
        tool_renderers: emit_renderers(&mut assembly, &tool_renderers),
        activity_renderers: emit_renderers(&mut assembly, &activity_renderers),
        fallback_surfaces: emit_fallbacks(&mut assembly, &fallback_surfaces),
        renderer_claims,
        required_render_handles,
    }
}

/// The remaining contributions of each kind, in key order.
fn survivors_by_kind(assembly: &Assembly<'_, '_>) -> [Vec<Rank>; ContributionKind::ALL.len()] {
    let mut by_kind: [Vec<Rank>; ContributionKind::ALL.len()] = Default::default();
    for rank in assembly.shown() {
        by_kind[assembly.catalogue.kind(rank) as usize].push(rank);
    }
    by_kind
}

/// Routes by effective path. After barrier C a path has one route, so keys never decide.
fn by_path(assembly: &Assembly<'_, '_>, mut ranks: Vec<Rank>) -> Vec<Rank> {
    ranks.sort_by_cached_key(|rank| match assembly.catalogue.get(*rank).body {
        Body::Route { path, .. } => assembly.effective_path(*rank, path),
        _ => "",
    });
    ranks
}

/// Renderers by claim. After barrier C a claim has one renderer, so keys never decide.
fn by_claim(assembly: &Assembly<'_, '_>, mut ranks: Vec<Rank>) -> Vec<Rank> {
    ranks.sort_by_cached_key(|rank| assembly.catalogue.get(*rank).body.claim());
    ranks
}

/// Every owner once, by owner key.
fn owners<'i>(assembly: &Assembly<'_, 'i>) -> Vec<Owner<'i>> {
    let mut owners: Vec<Owner<'i>> = assembly.catalogue.sources.iter().map(Source::owner).collect();
    owners.sort_unstable_by_key(|owner| (owner.owner_kind, owner.owner_id));
    owners.dedup();
    owners
}

/// Every module, by instance id.
fn modules<'i>(assembly: &Assembly<'_, 'i>) -> Vec<Module<'i>> {
    let sources = assembly.catalogue.sources.iter().filter(|source| source.kind == OwnerKind::Module);
    let mut modules: Vec<Module<'i>> = sources
        .filter_map(|source| {
            let owner = source.owner();
            Some(Module {
                owner,
                instance_id: owner.owner_id,
                package_id: owner.package_id?,
                package_version: owner.package_version,
                module_api_version: VERSION,
                runtime: Arc::clone(source.runtime.as_ref()?),
            })
        })
        .collect();
    modules.sort_unstable_by_key(|module| module.instance_id);
    modules
}

fn bindings<'r, 'i>(
    assembly: &Assembly<'_, 'i>,
    renderers: impl Iterator<Item = &'r Rank>,
) -> Vec<RendererClaimBinding<'i>> {
    // Families are in byte order, and renderers of a family are already in claim order.
    renderers
        .filter_map(|rank| match assembly.catalogue.get(*rank).body {
            Body::Renderer { claim, handle } => Some(RendererClaimBinding {
                claim,
                renderer_kind: assembly.catalogue.kind(*rank).renderer_kind()?,
                renderer_key: assembly.catalogue.key(*rank),
                owner: assembly.catalogue.owner(*rank),
                render_handle: handle,
                policy_id: assembly.overrides.get(claim).copied(),
            }),
            _ => None,
        })
        .collect()
}

fn entry<'i>(assembly: &mut Assembly<'_, 'i>, rank: Rank) -> Entry<'i> {
    let contribution = assembly.catalogue.get(rank);
    Entry {
        key: contribution.key,
        owner: assembly.catalogue.owner(rank),
        label: contribution.label,
        metadata: contribution.metadata,
        runtime: assembly.catalogue.source(rank).runtime.clone(),
        policy_ids: assembly.take_policy_ids(rank),
    }
}

/// Emits the contributions of one body; a kind has only one.
fn emit_each<'i, T>(
    assembly: &mut Assembly<'_, 'i>,
    ranks: &[Rank],
    build: impl Fn(Entry<'i>, Body<'i>, &Assembly<'_, 'i>, Rank) -> Option<T>,
) -> Vec<T> {
    let mut emitted = Vec::with_capacity(ranks.len());
    for rank in ranks {
        let entry = entry(assembly, *rank);
        emitted.extend(build(entry, assembly.catalogue.get(*rank).body, assembly, *rank));
    }
    emitted
}

fn emit_routes<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<Route<'i>> {
    emit_each(assembly, ranks, |entry, body, assembly, rank| match body {
        Body::Route { path, handle } => Some(Route {
            entry,
            declared_path: path,
            effective_path: assembly.effective_path(rank, path),
            render_handle: handle,
        }),
        _ => None,
    })
}

fn emit_sidebar_items<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<SidebarItem<'i>> {
    emit_each(assembly, ranks, |entry, body, _, _| match body {
        Body::SidebarItem { section, route_key } => Some(SidebarItem { entry, section, route_key }),
        _ => None,
    })
}

fn emit_surfaces<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<Surface<'i>> {
    emit_each(assembly, ranks, |entry, body, _, _| match body {
        Body::Surface { purpose, handle } => Some(Surface { entry, purpose, render_handle: handle }),
        _ => None,
    })
}

fn emit_renderers<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<Renderer<'i>> {
    emit_each(assembly, ranks, |entry, body, _, _| match body {
        Body::Renderer { claim, handle } => Some(Renderer { entry, claim, render_handle: handle }),
        _ => None,
    })
}

fn emit_appenders<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<MessageAppender<'i>> {
    emit_each(assembly, ranks, |entry, body, _, _| match body {
        Body::Appender { target_message_type, position, handle } => {
            Some(MessageAppender { entry, target_message_type, position, render_handle: handle })
        }
        _ => None,
    })
}

fn emit_fallbacks<'i>(assembly: &mut Assembly<'_, 'i>, ranks: &[Rank]) -> Vec<FallbackSurface<'i>> {
    emit_each(assembly, ranks, |entry, body, assembly, rank| match (body, assembly.candidates.gate(rank)) {
        (Body::Fallback { status, handle }, Gate::Fallback(matched_status)) => {
            Some(FallbackSurface { entry, status, matched_status, render_handle: handle })
        }
        _ => None,
    })
}
