//! Declaring an input in code.
//!
//! These are plain builders: they take whatever text they are given, and [`compose`](crate::compose())
//! judges it as it judges any other input. Only what an author has to say is asked for;
//! everything optional has a method.
//!
//! ```
//! use composition::declare::{Contributions, Fallback, Handle, Module, Route, Runtime, Workspace};
//! use composition::{FallbackStatus, Input, NonReadyStatus, RuntimeStatus, compose};
//!
//! let contributions = Contributions::new()
//!     .route(Route::new("home", "/lab", Handle::new("page", "lab.home")))
//!     .fallback(Fallback::new("sign-in", FallbackStatus::AnyNonReady, Handle::new("page", "lab.sign-in")));
//! let runtime = Runtime::new(RuntimeStatus::Unauthorized).missing("lab.query").message("Sign in first");
//! let workspace =
//!     Workspace::new().module(Module::new("lab-prod", "@example/lab", runtime, contributions));
//!
//! let input = Input::declare(&workspace)?;
//! let composition = compose(&input).composition.expect("the input is valid");
//! assert!(composition.routes.is_empty(), "the module is unauthorized");
//! assert_eq!(composition.fallback_surfaces[0].matched_status, NonReadyStatus::Unauthorized);
//! # Ok::<(), composition::TooDeep>(())
//! ```

mod contributions;
mod policy;
mod sources;

use serde::Serialize;

pub use contributions::{Appender, Contributions, Fallback, Handle, Renderer, Route, SidebarItem, Surface};
pub use policy::Policy;
pub use sources::{Builtin, Module, Runtime};

/// A complete input: built-ins, modules and policy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Workspace {
    builtins: Vec<Builtin>,
    modules: Vec<Module>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Policy>,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a set of built-in contributions.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.builtins.push(builtin);
        self
    }

    /// Adds a module instance.
    #[must_use]
    pub fn module(mut self, module: Module) -> Self {
        self.modules.push(module);
        self
    }

    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }
}
