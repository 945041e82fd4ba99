//! Declares a small workspace in code, composes it, and prints what a person would want to know.
//!
//! ```text
//! cargo run -p composition --example compose
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use composition::declare::{
    Builtin, Contributions, Fallback, Handle, Module, Policy, Route, Runtime, SidebarItem, Workspace,
};
use composition::{FallbackStatus, Input, RuntimeStatus, compose, explain};

fn main() -> Result<(), composition::TooDeep> {
    // The product's own pages.
    let console = Contributions::new()
        .route(Route::new("runs", "/runs", Handle::new("page", "runs")))
        .route(Route::new("settings", "/settings", Handle::new("page", "settings")))
        .sidebar_item(SidebarItem::new("runs", "Runs").route_key("builtin-console:routes/runs"))
        .sidebar_item(SidebarItem::new("settings", "Settings").route_key("builtin-console:routes/settings"));

    // An installed module without a signed-in user.
    let lab = Contributions::new()
        .route(Route::new("home", "/lab", Handle::new("page", "lab.home")))
        .fallback(Fallback::new("sign-in", FallbackStatus::AnyNonReady, Handle::new("page", "lab.sign-in")));
    let unauthorized =
        Runtime::new(RuntimeStatus::Unauthorized).missing("lab.query").message("Sign in first");

    // What the operator wants: runs are the home page, and settings come last.
    let policy = Policy::new()
        .path_alias("home-page", "builtin-console:routes/runs", "/")
        .last("settings-last", "builtin-console:sidebar-items/settings");

    let workspace = Workspace::new()
        .builtin(Builtin::new("builtin-console", console))
        .module(Module::new("lab-prod", "@example/lab", unauthorized, lab))
        .policy(policy);
    let input = Input::declare(&workspace)?;

    let outcome = compose(&input);
    for diagnostic in &outcome.diagnostics {
        println!("{diagnostic}");
    }
    let Some(composition) = &outcome.composition else { return Ok(()) };
    for route in &composition.routes {
        println!("{:<12} {}", route.effective_path, route.entry.key);
    }
    for item in &composition.sidebar_items {
        println!("sidebar      {}", item.entry.label.unwrap_or_default());
    }
    for fallback in &composition.fallback_surfaces {
        println!("fallback     {} because of {}", fallback.entry.key, fallback.matched_status);
    }
    println!("\n{}", explain(&input, "lab-prod:routes/home"));
    Ok(())
}
