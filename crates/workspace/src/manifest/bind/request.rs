//! A whole request to compose, from a manifest, its inputs and everything else.

use serde_json::{Map, Value};

use super::Bound;
use crate::manifest::{Manifest, Surface};
use crate::{Code, Error};

/// A request to compose, and the binding that it came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoundRequest {
    /// What was bound.
    pub bound: Bound,
    /// The request.
    pub value: Value,
    /// The keys of `manifest.mounts` in the order of their declaration, which the request does not keep.
    pub mount_order: Vec<String>,
}

impl Manifest {
    /// Binds the manifest for a request that has everything but `manifest`, and puts the two together.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); `COMPOSE_SURFACE_XOR` where the request does not say the surface, and
    /// `VALIDATION_ERROR` where it has a `manifest` of its own or an `agentContext` that is no object.
    pub fn bind_request(
        &self,
        inputs: &Map<String, Value>,
        request: Map<String, Value>,
    ) -> Result<BoundRequest, Error> {
        let mut request = request;
        // Compose counts a member that is `null` as given.
        let surface = match (request.contains_key("workflowRun"), request.contains_key("interactive")) {
            (true, false) => Surface::Workflow,
            (false, true) => Surface::AgentSession,
            (one, _) => {
                let found = if one { "both" } else { "neither" };
                let message =
                    format!("a request has `workflowRun` or `interactive`, and this one has {found}");
                return Err(Error::new(Code::ComposeSurfaceXor, message));
            }
        };
        let refuse = |path: &str, message: &str| {
            Err(Error::new(Code::ValidationError, format!("{path}: {message}")).detail("path", path))
        };
        if request.contains_key("manifest") {
            return refuse("$.manifest", "the manifest comes from its own file; leave this out");
        }
        let context = match request.remove("agentContext") {
            None => Map::new(),
            Some(Value::Object(context)) => context,
            Some(_) => return refuse("$.agentContext", "this has to be an object"),
        };
        let bound = self.bind(surface, inputs, context)?;
        let mount_order = bound.manifest.mounts.iter().map(|(slot, _)| slot.key().to_owned()).collect();
        let manifest = serde_json::to_value(&bound.manifest).expect("a compiled manifest has text keys");
        request.insert("manifest".to_owned(), manifest);
        request.insert("agentContext".to_owned(), Value::Object(bound.agent_context.clone()));
        Ok(BoundRequest { bound, value: Value::Object(request), mount_order })
    }
}
