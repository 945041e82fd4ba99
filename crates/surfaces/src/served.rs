//! The common interface of all surfaces.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::call::Scope;
use crate::error::{Code, SurfaceError};

/// The future of a port call.
pub type PortFuture<'a, T> = BoxFuture<'a, Result<T, SurfaceError>>;

/// A surface with operations by name and JSON arguments and results.
///
/// Ports are typed; each has one implementation of this trait, so all adapters of a port have the same JSON.
pub trait Served: Send + Sync {
    /// Runs one operation.
    ///
    /// # Errors
    /// The errors of the port; `invalid_argument` if the operation or an argument is unknown.
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value>;

    /// The key and block of the discovery document, with only the available features.
    fn advertise(&self) -> (&'static str, Value);
}

/// The error for an unknown operation, with a suggestion.
pub fn unknown_op(surface: &str, op: &str, known: &[&str]) -> SurfaceError {
    let shown = crate::args::shown(op);
    let near = canon::nearest::nearest(&shown, known, 1);
    let advice = match near.first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the operations are {}", known.join(", ")),
    };
    SurfaceError::new(Code::InvalidArgument, format!("unknown operation `{shown}` of {surface}; {advice}"))
}
