//! What every surface is behind the door.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::call::Scope;
use crate::error::{Code, SurfaceError};

/// The answer of a port, which may take a while.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, SurfaceError>>;

/// A surface as the door sees it: operations by name, arguments and answers in JSON.
///
/// Ports are typed; each has one implementation of this beside it, so that all adapters of a port read and write the same JSON.
pub trait Served: Send + Sync {
    /// Carries out one operation.
    ///
    /// # Errors
    /// As the port says; `invalid_argument` where the operation or an argument is not one that exists.
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> Answer<'a, Value>;

    /// The block of the discovery document, and its key. Only what is really served is in it.
    fn advertise(&self) -> (&'static str, Value);
}

/// The refusal of an operation that does not exist, with the one that was probably meant.
pub fn unknown_op(surface: &str, op: &str, known: &[&str]) -> SurfaceError {
    let shown = crate::args::shown(op);
    let near = canon::nearest::nearest(&shown, known, 1);
    let advice = match near.first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it has {}", known.join(", ")),
    };
    SurfaceError::new(Code::InvalidArgument, format!("{surface} has no operation `{shown}`; {advice}"))
}
