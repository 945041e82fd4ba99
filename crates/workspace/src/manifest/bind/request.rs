//! Builds a complete compose request from a manifest, its inputs and the rest.

use serde_json::{Map, Value};

use super::Bound;
use crate::manifest::{Manifest, Surface};
use crate::{Code, Error};

/// A compose request and its binding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoundRequest {
    pub bound: Bound,
    pub value: Value,
    /// The keys of `manifest.mounts` in declaration order, which the request does not keep.
    pub mount_order: Vec<String>,
}

impl Manifest {
    /// Binds the manifest for a request without `manifest`, and combines the two.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); `COMPOSE_SURFACE_XOR` if the request does not name the surface, and
    /// `VALIDATION_ERROR` if it has a `manifest` or its `agentContext` is not an object.
    pub fn bind_request(
        &self,
        inputs: &Map<String, Value>,
        request: Map<String, Value>,
    ) -> Result<BoundRequest, Error> {
        let mut request = request;
        // Composing counts a `null` member as given.
        let surface = match (request.contains_key("workflowRun"), request.contains_key("interactive")) {
            (true, false) => Surface::Workflow,
            (false, true) => Surface::AgentSession,
            (one, _) => {
                let found = if one { "both" } else { "neither" };
                let message = format!(
                    "a request must have either `workflowRun` or `interactive`, but this one has {found}"
                );
                return Err(Error::new(Code::ComposeSurfaceXor, message));
            }
        };
        let refuse = |path: &str, message: &str| {
            Err(Error::new(Code::ValidationError, format!("{path}: {message}")).detail("path", path))
        };
        if request.contains_key("manifest") {
            return refuse("$.manifest", "the manifest is read from a separate file; remove this member");
        }
        let context = match request.remove("agentContext") {
            None => Map::new(),
            Some(Value::Object(context)) => context,
            Some(_) => return refuse("$.agentContext", "must be an object"),
        };
        let bound = self.bind(surface, inputs, context)?;
        let mount_order = bound.manifest.mounts.iter().map(|(slot, _)| slot.key().to_owned()).collect();
        let manifest = serde_json::to_value(&bound.manifest).expect("a compiled manifest has text keys");
        request.insert("manifest".to_owned(), manifest);
        request.insert("agentContext".to_owned(), Value::Object(bound.agent_context.clone()));
        Ok(BoundRequest { bound, value: Value::Object(request), mount_order })
    }
}
