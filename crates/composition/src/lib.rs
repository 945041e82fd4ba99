//! The pure kernel that decides what a workspace shows.
//!
//! Built-ins and installed modules *declare* contributions: pages, sidebar entries, surfaces,
//! renderers, fallbacks. The host *resolves* the runtime status of each module. An operator's
//! policy hides, moves, replaces and renames. [`compose`] turns all of it into one structure,
//! or into diagnostics that say exactly what is wrong; it renders nothing and does no I/O.
//!
//! ```
//! use composition::declare::{Builtin, Contributions, Handle, Policy, Route, SidebarItem, Workspace};
//! use composition::{Input, compose};
//!
//! let runs = Contributions::new()
//!     .route(Route::new("runs", "/runs", Handle::new("page", "runs")))
//!     .sidebar_item(SidebarItem::new("runs", "Runs").route_key("builtin-console:routes/runs"));
//! let workspace = Workspace::new()
//!     .builtin(Builtin::new("builtin-console", runs))
//!     .policy(Policy::new().path_alias("home", "builtin-console:routes/runs", "/"));
//!
//! let input = Input::declare(&workspace)?;
//! let outcome = compose(&input);
//! let composition = outcome.composition.expect("the input is valid");
//! assert_eq!(composition.routes[0].effective_path, "/");
//! assert_eq!(composition.sidebar_items[0].entry.label, Some("Runs"));
//! # Ok::<(), composition::TooDeep>(())
//! ```
//!
//! Problems are data, with a readable message:
//!
//! ```
//! # use composition::{Input, compose};
//! let input = Input::read(br#"{"builtins": [], "modules": {}}"#)?;
//! let outcome = compose(&input);
//! assert!(!outcome.is_ok());
//! assert_eq!(outcome.diagnostics[0].code().as_str(), "WCP_STRUCTURE_INVALID");
//! assert_eq!(outcome.diagnostics[0].message(), "modules: expected array, found object");
//! # Ok::<(), canon::json::ReadError>(())
//! ```
//!
//! # Structure
//! [`compose()`] is the eighteen steps of the specification in eighteen calls, and `steps/` has
//! a module for each, `s01_shape` to `s18_emit`. Beside them: the closed sets of the
//! specification in `vocabulary`, names and paths in [`grammar`], the registry of codes in
//! [`diagnostic`], the shape of the result in [`composition`], and [`mod@explain`], which
//! answers why something is shown or not.
//!
//! # Invariants
//! * No I/O, clock, randomness or global state: the same content gives the same bytes.
//! * The order of built-ins, modules, contributions and operations in the input has no effect.
//! * No input panics. `ok: false` means that there is no composition at all.
//! * Nothing is worse than O(n log n), however hostile the input.
#![forbid(unsafe_code)]

mod assembly;
mod catalogue;
mod compose;
pub mod composition;
mod contribution;
pub mod declare;
pub mod diagnostic;
mod effect;
pub mod explain;
pub mod grammar;
mod groups;
mod input;
mod steps;
mod vocabulary;

pub use compose::compose;
pub use composition::{ComposeOutcome, Composition};
pub use contribution::RenderHandle;
pub use diagnostic::{Code, Diagnostic};
pub use effect::Effect;
pub use explain::explain;
pub use input::{Input, TooDeep};
pub use vocabulary::{
    AppenderPosition, ContributionKind, FallbackStatus, Key, NonReadyStatus, Owner, OwnerKind, RendererKind,
    RuntimeStatus, StatusSet,
};

/// The only version of every schema so far.
pub const VERSION: &str = steps::s01_shape::VERSION;
