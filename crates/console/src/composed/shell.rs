//! The composition in owned form.

use std::collections::BTreeMap;

use composition::{Composition, Effect, RenderHandle};
use runs::Scope;
use serde_json::Value;

use super::Finding;
use crate::provider::{self, Provider};

/// What a caller is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shell {
    pub(crate) routes: Vec<Route>,
    pub(crate) sidebar: Vec<Item>,
    pub(crate) configuration: Vec<Surface>,
    pub(crate) integration: Vec<Surface>,
    pub(crate) fallbacks: Vec<Surface>,
    /// The renderer of each claim.
    pub(crate) claims: BTreeMap<String, Handle>,
    pub(crate) modules: Vec<Module>,
    /// The effects of the policy, one sentence each, as written by the kernel.
    pub(crate) effects: Vec<Value>,
    pub(crate) findings: Vec<Finding>,
    /// Paths that modules declare but that are not served now, with the module.
    pub(crate) inactive: Vec<(String, String)>,
    /// Whether only the built-ins are shown because the composition failed.
    pub(crate) is_alone: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Handle {
    pub(crate) owner_id: String,
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) data: Option<Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) label: Option<String>,
    pub(crate) handle: Handle,
    /// The scopes that the page requires.
    pub(crate) needs: &'static [Scope],
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) label: String,
    pub(crate) section: Option<String>,
    pub(crate) route_key: Option<String>,
}

/// A part of a page contributed by a module or by the product.
#[derive(Clone, Debug)]
pub(crate) struct Surface {
    pub(crate) key: String,
    pub(crate) label: String,
    /// A purpose, or the status for which this is the fallback.
    pub(crate) purpose: String,
    pub(crate) handle: Handle,
}

#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) instance_id: String,
    pub(crate) package: String,
    pub(crate) status: String,
    pub(crate) message: Option<String>,
    pub(crate) grants: Vec<String>,
    pub(crate) missing: Vec<String>,
    /// Labels of the user's actions, with their target if they have one.
    pub(crate) actions: Vec<(String, Option<String>)>,
    pub(crate) data: Option<Value>,
}

impl Shell {
    pub(super) fn new(composition: &Composition<'_>, effects: &[Effect<'_>]) -> Self {
        let surface = |surface: &composition::composition::Surface<'_>| Surface {
            key: surface.entry.key.to_string(),
            label: surface.entry.label.unwrap_or_else(|| surface.entry.key.local_id()).to_owned(),
            purpose: surface.purpose.to_owned(),
            handle: handle(surface.entry.owner.owner_id, &surface.render_handle),
        };
        Self {
            routes: composition.routes.iter().map(route).collect(),
            sidebar: composition
                .sidebar_items
                .iter()
                .map(|item| Item {
                    label: item.entry.label.unwrap_or_else(|| item.entry.key.local_id()).to_owned(),
                    section: item.section.map(str::to_owned),
                    route_key: item.route_key.map(str::to_owned),
                })
                .collect(),
            configuration: composition.configuration_surfaces.iter().map(surface).collect(),
            integration: composition.integration_surfaces.iter().map(surface).collect(),
            fallbacks: composition
                .fallback_surfaces
                .iter()
                .map(|fallback| Surface {
                    key: fallback.entry.key.to_string(),
                    label: fallback.entry.label.unwrap_or(fallback.entry.owner.owner_id).to_owned(),
                    purpose: fallback.matched_status.as_str().to_owned(),
                    handle: handle(fallback.entry.owner.owner_id, &fallback.render_handle),
                })
                .collect(),
            claims: composition
                .renderer_claims
                .iter()
                .map(|bound| (bound.claim.to_owned(), handle(bound.owner.owner_id, &bound.render_handle)))
                .collect(),
            modules: composition.modules.iter().map(module).collect(),
            effects: effects.iter().filter_map(|effect| serde_json::to_value(effect).ok()).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn route(&self, key: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.key == key)
    }

    /// The route that matches a path, with its parameters. If two routes match, the one with the
    /// earlier literal segment wins.
    pub(crate) fn find(&self, path: &str) -> Option<(&Route, Vec<(String, String)>)> {
        let matching = self.routes.iter().filter_map(|route| Some((route, route.matches(path)?)));
        matching.min_by_key(|(route, _)| {
            route.path.split('/').map(|segment| segment.starts_with(':')).collect::<Vec<_>>()
        })
    }

    /// The module that declares a path which is not served now.
    pub(crate) fn inactive_at(&self, path: &str) -> Option<&Module> {
        let (_, instance) = self.inactive.iter().find(|(declared, _)| matches(declared, path).is_some())?;
        self.modules.iter().find(|module| module.instance_id == *instance)
    }

    /// Every handle, with the key of the contribution that uses it.
    pub(super) fn handles(&self) -> impl Iterator<Item = (&str, &Handle)> {
        let routes = self.routes.iter().map(|route| (route.key.as_str(), &route.handle));
        let surfaces = [&self.configuration, &self.integration, &self.fallbacks].into_iter().flatten();
        let surfaces = surfaces.map(|surface| (surface.key.as_str(), &surface.handle));
        routes.chain(surfaces).chain(self.claims.iter().map(|(claim, handle)| (claim.as_str(), handle)))
    }
}

impl Route {
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
        matches(&self.path, path)
    }

    /// The path with its parameters filled in; `None` if one is missing.
    pub(crate) fn fill(&self, params: &[(&str, &str)]) -> Option<String> {
        let mut filled = String::with_capacity(self.path.len() + 32);
        for segment in self.path.split('/').skip(1) {
            filled.push('/');
            match segment.strip_prefix(':') {
                None => filled.push_str(segment),
                Some(name) => {
                    let (_, value) = params.iter().find(|(known, _)| *known == name)?;
                    filled.push_str(&crate::parts::segment(value));
                }
            }
        }
        Some(filled)
    }
}

impl Module {
    /// A module from input that failed to compose.
    pub(super) fn left_out(module: &Value) -> Option<Self> {
        let text = |pointer: &str| module.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            instance_id: text("/instanceId")?,
            package: text("/packageId").unwrap_or_default(),
            status: "skipped".to_owned(),
            message: Some("Not shown until the composition errors are fixed.".to_owned()),
            grants: Vec::new(),
            missing: Vec::new(),
            actions: Vec::new(),
            data: None,
        })
    }
}

fn handle(owner_id: &str, handle: &RenderHandle<'_>) -> Handle {
    Handle {
        owner_id: owner_id.to_owned(),
        kind: handle.kind.to_owned(),
        id: handle.id.to_owned(),
        data: handle.data.cloned(),
    }
}

fn route(route: &composition::composition::Route<'_>) -> Route {
    let handle = handle(route.entry.owner.owner_id, &route.render_handle);
    let needs = match provider::find(&handle.owner_id, &handle.kind, &handle.id) {
        Some(Provider::Route { needs, .. }) => needs,
        Some(Provider::Panel(_)) | None => &[],
    };
    Route {
        key: route.entry.key.to_string(),
        path: route.effective_path.to_owned(),
        label: route.entry.label.map(str::to_owned),
        handle,
        needs,
    }
}

fn module(module: &composition::composition::Module<'_>) -> Module {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let version = module.package_version.map(|version| format!(" {version}")).unwrap_or_default();
    Module {
        instance_id: module.instance_id.to_owned(),
        package: format!("{}{version}", module.package_id),
        status: module.runtime.status.as_str().to_owned(),
        message: module.runtime.message.map(str::to_owned),
        grants: owned(&module.runtime.grants),
        missing: owned(&module.runtime.missing),
        actions: module
            .runtime
            .actions
            .iter()
            .map(|action| {
                let href = action.data.and_then(|data| data.get("href")).and_then(Value::as_str);
                (action.label.to_owned(), href.map(str::to_owned))
            })
            .collect(),
        data: module.runtime.data.cloned(),
    }
}

/// The parameters of a pattern, if the path matches it.
fn matches(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return Some(params),
            (Some(wanted), Some(found)) => match wanted.strip_prefix(':') {
                Some(name) if !found.is_empty() => {
                    params.push((name.to_owned(), crate::parts::unescaped(found)?));
                }
                None if wanted == found => {}
                Some(_) | None => return None,
            },
            _ => return None,
        }
    }
}
