//! Validates a configuration against its schema and against what a schema cannot express.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::super::node_type::{MOCK_AGENT, NodeType};
use super::super::{Capabilities, Problem, schema};
use super::{
    AskUserRouting, DispatchConfig, FanOutPolicy, InterruptConfig, JoinMode, NodeConfig, SupervisorConfig,
    parse, validators,
};

impl NodeConfig {
    /// Validates and parses a configuration.
    ///
    /// # Errors
    /// Every problem, at its JSON pointer below `path`.
    pub(in crate::definition) fn check(
        kind: NodeType,
        config: &Map<String, Value>,
        path: &str,
        capabilities: &Capabilities,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let document = Value::Object(config.clone());
        // The rest of the configuration is checked without the invalid members, so that an author sees all problems at once.
        let mut valid = document.clone();
        if let Some(validator) = validators().get(&kind) {
            for error in validator.iter_errors(&document) {
                let location = error.instance_path().to_string();
                remove_invalid(&mut valid, &location, error.kind());
                problems.push(Problem::at(format!("{path}{location}"), error.to_string()));
            }
        }
        let parsed = parse(kind, valid);
        match &parsed {
            Ok(parsed) => {
                let mut found = Vec::new();
                parsed.check_members(path, capabilities, &mut found);
                // A removed member may be reported as missing. It already has a problem.
                found.retain(|found| !problems.iter().any(|invalid| invalid.path.starts_with(&found.path)));
                problems.append(&mut found);
            }
            Err(error) if problems.is_empty() => problems.push(Problem::at(path, error.to_string())),
            Err(_) => {}
        }
        match parsed {
            Ok(parsed) if problems.is_empty() => Ok(parsed),
            Ok(_) | Err(_) => Err(problems),
        }
    }

    /// Checks what a schema cannot express: members that depend on each other, nested schemas, and capabilities of the host.
    fn check_members(&self, path: &str, capabilities: &Capabilities, problems: &mut Vec<Problem>) {
        match self {
            Self::Dispatch(config) => config.check(path, capabilities, problems),
            Self::SubWorkflow(config) => {
                if !config.input_mapping.is_empty() && !capabilities.sub_workflow_input_mapping {
                    let path = format!("{path}/inputMapping");
                    let message = "`inputMapping` of a sub-workflow is not supported by this host";
                    problems.push(requires(path, message, "subWorkflow.inputMapping"));
                }
            }
            Self::MockAgent(config) => {
                for (index, call) in config.mock_tool_calls.iter().enumerate() {
                    if call.result.is_some() == call.error.is_some() {
                        let message = "a tool call must have either `result` or `error`";
                        problems.push(Problem::at(format!("{path}/mockToolCalls/{index}"), message));
                    }
                }
            }
            Self::Guided(config) => {
                // A manifest describes a workspace and a library holds its files; neither works alone.
                let (given, missing) = match (&config.manifest, &config.library, &config.agent) {
                    (Some(_), None, _) => ("manifest", "library"),
                    (None, Some(_), _) => ("library", "manifest"),
                    // The host starts agents only in workspaces that it made.
                    (None, None, Some(_)) => ("agent", "manifest"),
                    (Some(_), Some(_), _) | (None, None, None) => return,
                };
                let message = format!("`{given}` requires `{missing}`");
                problems.push(Problem::at(format!("{path}/{missing}"), message));
            }
            Self::Interrupt(config) => {
                check_schema(config.resume_schema.as_ref(), &format!("{path}/resumeSchema"), problems);
                let member = |name: &str| config.data.as_ref().and_then(|data| data.get(name));
                let questions = member("questions").and_then(Value::as_array).map(Vec::as_slice);
                check_questions(questions.unwrap_or_default(), &format!("{path}/data"), problems);
                check_schema(member("outcomeSchema"), &format!("{path}/data/outcomeSchema"), problems);
            }
            Self::ClarificationGate(config) => check_questions(&config.questions, path, problems),
            Self::ConversationGate(config) => {
                check_schema(config.schema.as_ref(), &format!("{path}/schema"), problems);
            }
            Self::Identity(config) => {
                if config.memory_action.is_some() {
                    let path = format!("{path}/memoryAction");
                    problems.push(requires(path, "memory is not supported by this host", "memory.supported"));
                }
            }
            Self::Supervisor(config) => {
                if !capabilities.mock_agent {
                    for member in config.mock_members() {
                        let message = "only for conformance suites; remove it";
                        problems.push(requires(format!("{path}/{member}"), message, MOCK_AGENT));
                    }
                }
            }
            Self::Exposed(config) => config.check(path, problems),
            Self::HttpRequest(config) => config.check(path, problems),
            Self::Conditional(_)
            | Self::Loop(_)
            | Self::Delay(_)
            | Self::SetVariable(_)
            | Self::GetVariable(_)
            | Self::Fail(_)
            | Self::ChannelWrite(_)
            | Self::ApprovalGate(_)
            | Self::GovernanceGate(_)
            | Self::SecretEcho(_)
            | Self::CostEmit(_)
            | Self::ArtifactEmit(_)
            | Self::Start
            | Self::End
            | Self::Noop
            | Self::Parallel
            | Self::Merge
            | Self::SideEffect
            | Self::RequiresMissing
            | Self::ModelCapabilityInsufficient
            | Self::Called(_)
            | Self::Pack => {}
        }
    }
}

/// Parses an interrupt that a node requests at run time.
///
/// # Errors
/// The JSON pointer of the first problem. The error does not repeat the value, because it can contain any data of the node.
pub(crate) fn interrupt(asked: &Map<String, Value>) -> Result<InterruptConfig, String> {
    match NodeConfig::check(NodeType::Interrupt, asked, "", &Capabilities::OURS) {
        Ok(NodeConfig::Interrupt(config)) => Ok(*config),
        Ok(_) => Err(String::new()),
        Err(problems) => Err(problems.into_iter().next().map(|problem| problem.path).unwrap_or_default()),
    }
}

/// Removes the object members that an error is about.
fn remove_invalid(config: &mut Value, location: &str, kind: &ValidationErrorKind) {
    if let ValidationErrorKind::AdditionalProperties { unexpected } = kind {
        if let Some(members) = config.pointer_mut(location).and_then(Value::as_object_mut) {
            members.retain(|name, _| !unexpected.contains(name));
        }
        return;
    }
    let Some((parent, member)) = location.rsplit_once('/') else { return };
    if let Some(members) = config.pointer_mut(parent).and_then(Value::as_object_mut) {
        members.remove(&member.replace("~1", "/").replace("~0", "~"));
    }
}

impl SupervisorConfig {
    /// The members that make the supervisor a mock. The plan is not one of them: a workflow without a model decides by its plan.
    pub(super) fn mock_members(&self) -> impl Iterator<Item = &'static str> {
        let confidence = self.mock_confidence.as_ref().map(|_| "mockConfidence");
        let pending = self.mock_pending_decision.as_ref().map(|_| "mockPendingDecision");
        confidence.into_iter().chain(pending)
    }
}

impl DispatchConfig {
    fn check(&self, path: &str, capabilities: &Capabilities, problems: &mut Vec<Problem>) {
        let parallel = self.fan_out_policy == FanOutPolicy::Parallel;
        if parallel && !capabilities.fan_out {
            let message = "`parallel` is not supported by this host; use `sequential`";
            problems.push(requires(format!("{path}/fanOutPolicy"), message, "dispatch.fanOutSupported"));
        }
        if self.ask_user_routing == AskUserRouting::Conversation && !capabilities.conversation {
            let message = "conversations are not supported by this host; use `clarification` or `auto`";
            problems.push(requires(format!("{path}/askUserRouting"), message, "conversationPrimitive"));
        }
        if let Some(policy) = &self.join_policy {
            if !parallel {
                let message = "`joinPolicy` requires `fanOutPolicy: parallel`";
                problems.push(Problem::at(format!("{path}/joinPolicy"), message));
            }
            if policy.mode == JoinMode::Quorum && policy.quorum.is_none() {
                let message = "`mode: quorum` requires `quorum`, an integer of at least 1";
                problems.push(Problem::at(format!("{path}/joinPolicy/quorum"), message));
            }
        }
        let mappings = [
            ("inputMapping", self.input_mapping.is_empty()),
            ("outputMapping", self.output_mapping.is_empty()),
            ("perWorkerInputMappings", self.per_worker_input_mappings.is_empty()),
            ("perWorkerOutputMappings", self.per_worker_output_mappings.is_empty()),
        ];
        for (mapping, _) in mappings.into_iter().filter(|(_, is_empty)| !is_empty) {
            if !capabilities.dispatch_mapping {
                let message = "mappings of a dispatch are not supported by this host";
                problems.push(requires(format!("{path}/{mapping}"), message, "agents.dispatchMapping"));
            }
        }
    }
}

fn requires(path: String, message: &str, capability: &'static str) -> Problem {
    Problem { required_capability: Some(capability), ..Problem::at(path, message) }
}

/// Reports a schema that cannot be compiled, so that it does not fail later, when it validates an answer.
fn check_schema(answer_schema: Option<&Value>, path: &str, problems: &mut Vec<Problem>) {
    if let Some(Err(message)) = answer_schema.map(schema::compiled) {
        problems.push(Problem::at(path, message));
    }
}

fn check_questions(questions: &[Value], path: &str, problems: &mut Vec<Problem>) {
    for (index, question) in questions.iter().enumerate() {
        check_schema(question.get("schema"), &format!("{path}/questions/{index}/schema"), problems);
    }
}
