//! The built-in pages and actions, one line each.
//!
//! They are declared to the composition kernel like the pages of any module, each under a built-in
//! owner id, so that policy can hide, move, replace and rename them.

use composition::RendererKind;
use composition::declare::{Builtin, Contributions, Handle, Renderer, Route, SidebarItem, Surface};
use runs::Scope::{
    self, Admin, ApprovalsRespond, ArtifactsRead, ManifestRead, RunsCancel, RunsCreate, RunsRead,
};

use crate::pages;
use crate::provider::{Handler, Panel, Provider};

/// Prefix of every built-in owner id.
pub(crate) const OWNER_PREFIX: &str = "builtin-interlock-";

/// A built-in page or action.
pub(crate) struct BuiltIn {
    /// The area: the owner id without its prefix.
    pub(crate) area: &'static str,
    id: &'static str,
    path: &'static str,
    label: &'static str,
    /// The sidebar section, or none for pages that are not in the sidebar.
    menu: Option<&'static str>,
    needs: &'static [Scope],
    get: Option<Handler>,
    post: Option<Handler>,
}

/// A page: its path, title and required scopes.
const fn page(
    (area, id): (&'static str, &'static str),
    path: &'static str,
    label: &'static str,
    needs: &'static [Scope],
    get: Handler,
) -> BuiltIn {
    BuiltIn { area, id, path, label, menu: None, needs, get: Some(get), post: None }
}

/// An action that a form posts to.
const fn action(
    (area, id): (&'static str, &'static str),
    path: &'static str,
    label: &'static str,
    needs: &'static [Scope],
    post: Handler,
) -> BuiltIn {
    BuiltIn { area, id, path, label, menu: None, needs, get: None, post: Some(post) }
}

impl BuiltIn {
    /// Adds the page to the sidebar.
    const fn menu(mut self, section: &'static str) -> Self {
        self.menu = Some(section);
        self
    }
}

/// Wraps an async function as a handler.
macro_rules! handler {
    ($($path:ident)::+) => {
        |call| Box::pin(pages::$($path)::+(call))
    };
}

const WORK: &str = "Work";
const HOST: &str = "Host";

/// Every built-in page and action, in sidebar order.
#[rustfmt::skip]
pub(crate) const ALL: &[BuiltIn] = &[
    page(("overview", "home"), "/", "Overview", &[], handler!(overview::show)).menu(WORK),
    page(("runs", "list"), "/runs", "Runs", &[RunsRead], handler!(runs::show)).menu(WORK),
    page(("approvals", "inbox"), "/approvals", "Approvals", &[RunsRead], handler!(approvals::show)).menu(WORK),
    page(("runs", "run"), "/runs/:runId", "Run", &[RunsRead], handler!(run::show)),
    page(("runs", "events"), "/runs/:runId/events", "Events", &[RunsRead], handler!(events::show)),
    page(("runs", "graph"), "/runs/:runId/graph", "Graph", &[RunsRead], handler!(graph::show)),
    page(("runs", "artifact"), "/runs/:runId/artifact", "Artifact", &[RunsRead, ArtifactsRead], handler!(artifact::show)),
    page(("runs", "diff"), "/runs/:runId/diff", "Compare", &[RunsRead], handler!(diff::show)),
    action(("runs", "cancel"), "/runs/:runId/cancel", "Cancel", &[RunsCancel], handler!(actions::cancel)),
    action(("runs", "pause"), "/runs/:runId/pause", "Pause", &[RunsCancel], handler!(actions::pause)),
    action(("runs", "resume"), "/runs/:runId/resume", "Resume", &[RunsCancel], handler!(actions::resume)),
    action(("runs", "fork"), "/runs/:runId/fork", "Fork", &[RunsCreate, RunsRead], handler!(actions::fork)),
    page(("approvals", "interrupt"), "/approvals/:runId", "Answer", &[RunsRead], handler!(approvals::one)),
    action(("approvals", "answer"), "/approvals/:runId/answer", "Answer", &[RunsRead, ApprovalsRespond], handler!(approvals::answer)),
    page(("sessions", "list"), "/sessions", "Sessions", &[RunsRead], handler!(sessions::show)).menu(WORK),
    page(("sessions", "session"), "/sessions/:sessionId", "Session", &[RunsRead], handler!(session::show)),
    action(("sessions", "answer"), "/sessions/:sessionId/answer", "Answer", &[RunsRead, ApprovalsRespond], handler!(session_answer::answer)),
    page(("sessions", "node"), "/sessions/:sessionId/nodes/:nodeId", "Node", &[RunsRead], handler!(session_node::show)),
    page(("sessions", "workflow"), "/sessions/:sessionId/workflow", "Pinned workflow", &[RunsRead], handler!(session_workflow::show)),
    page(("workflows", "list"), "/workflows", "Workflows", &[ManifestRead], handler!(workflows::show)).menu(WORK),
    page(("workflows", "run"), "/workflows/runs/:workflowId", "Workflow", &[ManifestRead], handler!(workflow::run)),
    page(("workflows", "guided"), "/workflows/guided/:workflowId", "Workflow", &[ManifestRead], handler!(workflow::guided)),
    page(("workspaces", "list"), "/workspaces", "Workspaces", &[RunsRead], handler!(workspaces::show)).menu(WORK),
    page(("workspaces", "workspace"), "/workspaces/:runId/:nodeId", "Workspace", &[RunsRead], handler!(workspace::show)),
    action(("plugins", "rpc"), "/plugins/rpc", "Plugin message", &[], handler!(plugin::rpc)),
    page(("modules", "list"), "/modules", "Modules", &[], handler!(modules::show)).menu(HOST),
    page(("keys", "list"), "/keys", "Keys", &[Admin], handler!(keys::show)).menu(HOST),
    action(("keys", "revoke"), "/keys/:keyId/revoke", "Revoke", &[Admin], handler!(keys::revoke)),
    page(("settings", "list"), "/settings", "Settings", &[Admin], handler!(settings::show)).menu(HOST),
    page(("console", "diagnostics"), "/diagnostics", "Diagnostics", &[], handler!(diagnostics::show)).menu(HOST),
];

/// Renderers for parts of pages: the claim, its id, and the function.
pub(crate) const RENDERERS: &[(&str, &str, Panel)] = &[
    ("activity:interrupt.approval", "approval", pages::approvals::approval),
    ("activity:interrupt.clarification", "clarification", pages::approvals::clarification),
    ("activity:interrupt.external-event", "external-event", pages::approvals::external_event),
    ("activity:interrupt.low-confidence", "low-confidence", pages::approvals::approval),
    ("activity:interrupt.conversation", "conversation", pages::approvals::conversation),
    ("activity:interrupt", "interrupt", pages::approvals::custom),
];

/// Configuration surfaces: id, label, purpose, and function.
pub(crate) const SURFACES: &[(&str, &str, &str, Panel)] =
    &[("policy", "Console policy", "settings", pages::diagnostics::policy_surface)];

pub(crate) fn provider(kind: &str, id: &str) -> Option<Provider> {
    match kind {
        "page" => {
            let found = ALL.iter().find(|page| page.handle_id() == id)?;
            Some(Provider::Route { needs: found.needs, get: found.get, post: found.post })
        }
        "renderer" => {
            let id = id.strip_prefix("interlock.")?;
            RENDERERS.iter().find(|(_, known, _)| *known == id).map(|(_, _, panel)| Provider::Panel(*panel))
        }
        "panel" => {
            let id = id.strip_prefix("interlock.")?;
            SURFACES.iter().find(|(known, ..)| *known == id).map(|(.., panel)| Provider::Panel(*panel))
        }
        _ => None,
    }
}

impl BuiltIn {
    fn owner(&self) -> String {
        format!("{OWNER_PREFIX}{}", self.area)
    }

    fn handle_id(&self) -> String {
        format!("interlock.{}.{}", self.area, self.id)
    }

    fn item_key(&self) -> String {
        format!("{}:sidebar-items/{}", self.owner(), self.id)
    }
}

/// The sidebar keys in default order.
pub(crate) fn sidebar_order() -> Vec<String> {
    ALL.iter().filter(|page| page.menu.is_some()).map(BuiltIn::item_key).collect()
}

/// The declarations of the built-ins, one owner per area.
pub(crate) fn declared() -> Vec<Builtin> {
    let mut areas: Vec<&str> = ALL.iter().map(|page| page.area).collect();
    areas.sort_unstable();
    areas.dedup();
    areas.into_iter().map(declared_area).collect()
}

fn declared_area(area: &str) -> Builtin {
    let owner = format!("{OWNER_PREFIX}{area}");
    let mut declared = Contributions::new();
    for page in ALL.iter().filter(|page| page.area == area) {
        let handle = Handle::new("page", page.handle_id());
        declared = declared.route(Route::new(page.id, page.path, handle).label(page.label));
        if let Some(section) = page.menu {
            let route = format!("{owner}:routes/{}", page.id);
            declared = declared
                .sidebar_item(SidebarItem::new(page.id, page.label).section(section).route_key(&route));
        }
    }
    if area == "approvals" {
        for (claim, id, _) in RENDERERS {
            let handle = Handle::new("renderer", format!("interlock.{id}"));
            declared = declared.renderer(RendererKind::Activity, Renderer::new(id, claim, handle));
        }
    }
    if area == "console" {
        for (id, label, purpose, _) in SURFACES {
            let handle = Handle::new("panel", format!("interlock.{id}"));
            declared = declared.configuration_surface(Surface::new(id, purpose, handle).label(label));
        }
    }
    Builtin::new(owner, declared)
}
