//! The layout around every page.

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use crate::assets::Assets;
use crate::call::PageRequest;
use crate::composed::{Item, Surface};
use crate::mount::{self, BASE};
use crate::page::{Page, Wake};
use crate::parts;
use crate::provider::{self, Provider};

/// Notices after an action. A closed set, because the name comes from the query string.
const DONE: &[(&str, &str)] = &[
    ("answered", "Your answer was recorded."),
    ("voted", "Your vote was recorded. More votes are needed."),
    ("cancelled", "The run was cancelled."),
    ("paused", "The run was paused."),
    ("resumed", "The run was resumed."),
    ("forked", "The run was forked. This is the new run."),
    ("revoked", "The key was revoked."),
];

pub(crate) fn page(call: &PageRequest, page: &Page) -> Markup {
    let is_live = page.wake != Wake::Never;
    let title = format!("{} · Interlock", page.title);
    let assets = &call.console.assets;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(assets, &title))
            body data-live[is_live] {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href=(BASE) { img src=(assets.icon()) alt="" width="20" height="20"; "Interlock" }
                    details.menu {
                        summary { "Menu" }
                        (sidebar(call))
                    }
                    div.who {
                        @if is_live { span.pulse #connection title="Live updates" { "live" } }
                        span.muted title={ "Tenant " (call.caller.tenant) } { (call.caller.principal) }
                        form method="post" action={ (BASE) "/sign-out" } {
                            input type="hidden" name=(parts::CSRF_FIELD) value=(call.csrf);
                            button.quiet type="submit" { "Sign out" }
                        }
                    }
                }
                div.frame {
                    div.side { (sidebar(call)) }
                    main #main tabindex="-1" {
                        (trouble(call))
                        @if let Some(done) = call.query.text("done").and_then(done) {
                            p.notice.good role="status" { (done) }
                        }
                        @if !page.trail.is_empty() {
                            nav.trail aria-label="Breadcrumb" {
                                @for (place, (label, href)) in page.trail.iter().enumerate() {
                                    @if place > 0 { span aria-hidden="true" { " / " } }
                                    @match href {
                                        Some(href) => a href=(href) { (label) },
                                        None => span { (label) },
                                    }
                                }
                            }
                        }
                        div.heading {
                            h1 { (page.title) }
                            @if let Some(aside) = &page.aside { (aside) }
                        }
                        (page.body)
                    }
                }
            }
        }
    }
}

/// A page without navigation, for users who are not signed in.
pub(crate) fn bare(assets: &Assets, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(assets, &format!("{title} · Interlock")))
            body.bare {
                main #main {
                    p.brand { img src=(assets.icon()) alt="" width="28" height="28"; "Interlock" }
                    (body)
                }
            }
        }
    }
}

fn head(assets: &Assets, title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            link rel="icon" href=(assets.icon()) type="image/svg+xml";
            link rel="stylesheet" href=(assets.style());
            script type="module" src=(assets.script()) {}
        }
    }
}

fn done(word: &str) -> Option<&'static str> {
    DONE.iter().find(|(known, _)| *known == word).map(|(_, text)| *text)
}

/// The sidebar: sections in the order of the composition.
fn sidebar(call: &PageRequest) -> Markup {
    let shown: Vec<(&Item, Option<String>)> = call
        .shell
        .sidebar
        .iter()
        .map(|item| (item, item.route_key.as_deref().and_then(|key| call.link(key, &[]))))
        .filter(|(item, href)| href.is_some() || item.route_key.is_none())
        .collect();
    let mut sections: Vec<Option<&str>> = Vec::new();
    for (item, _) in &shown {
        if !sections.contains(&item.section.as_deref()) {
            sections.push(item.section.as_deref());
        }
    }
    html! {
        nav.sidebar aria-label="Main" {
            @for section in sections {
                @if let Some(section) = section { h2 { (section) } }
                ul {
                    @for (item, href) in shown.iter().filter(|(item, _)| item.section.as_deref() == section) {
                        li {
                            @match href {
                                Some(href) => a href=(href) aria-current=[is_here(&mount::address(&call.path), href).then_some("page")] { (item.label) },
                                None => span { (item.label) },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a path is the page of an entry, or below it.
fn is_here(path: &str, href: &str) -> bool {
    path == href || (href != BASE && path.strip_prefix(href).is_some_and(|rest| rest.starts_with('/')))
}

/// Warnings for operators, shown on every page.
fn trouble(call: &PageRequest) -> Markup {
    if !call.shell.is_alone {
        return Markup::default();
    }
    html! {
        p.notice.bad role="alert" {
            "The console configuration has errors, so only the built-in pages are shown. "
            (call.anchor("builtin-interlock-console:routes/diagnostics", &[], "Show errors"))
        }
    }
}

/// The fallbacks of modules that are not ready: of one module, or of all.
pub(crate) fn fallbacks(call: &PageRequest, owner: Option<&str>) -> Markup {
    let wanted = |surface: &&Surface| owner.is_none_or(|owner| surface.handle.owner_id == owner);
    html! {
        @for surface in call.shell.fallbacks.iter().filter(wanted) { (surface_panel(call, surface)) }
    }
}

/// A surface as its provider draws it, or an error in its place.
pub(crate) fn surface_panel(call: &PageRequest, surface: &Surface) -> Markup {
    let handle = &surface.handle;
    let provider = provider::find(&handle.owner_id, &handle.kind, &handle.id);
    html! {
        section.panel {
            h2 { (surface.label) " " span.muted { (surface.purpose) } }
            @match provider {
                Some(Provider::Panel(draw)) => (draw(call, handle.data.as_ref().unwrap_or(&Value::Null), &Value::Null)),
                Some(Provider::Route { .. }) | None => p {
                    "This part cannot be shown, because the console has no renderer for it. Code " code { "WCP_RENDER_HANDLE_MISSING" } ", key " code { (surface.key) } "."
                },
            }
        }
    }
}
