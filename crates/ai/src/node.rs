//! Strict configuration of nodes that call models.
//!
//! Unknown members are errors. All errors of a configuration are reported together, each with its JSON Pointer.

use serde_json::{Map, Value};

use crate::completion::{
    self, Budget, Completion, DEFAULT_ATTEMPTS, EnvelopeRules, MAX_ATTEMPTS, MAX_OUTPUT_TOKENS, Settings,
};
use crate::event::{self, RunEvent};
use crate::gate::{MAX_CAPABILITIES, Model};
use crate::prompt::PromptRef;
use crate::prompt::resolve::NodePrompts;
use crate::provider::{Message, Output, Request, Role};
use crate::redact::Redactor;
use crate::schema::Schema;
use crate::tools::{self, Conversation, Toolbox};
use crate::wire_enum::wire_enum;

mod credential;
mod messages;
mod overrides;
mod reader;
pub mod sampling;

pub use credential::CredentialRef;
pub use messages::{MAX_MESSAGE_BYTES, MAX_MESSAGES, MessageError, messages};
pub use overrides::Overrides;
pub use reader::Problem;

use reader::Reader;

wire_enum! {
    /// The node types that call models.
    pub enum NodeType {
        /// Requests text.
        CallPrompt => "core.ai.callPrompt",
        /// Requests a JSON document.
        StructuredOutput => "core.ai.structuredOutput",
        /// Composes prompts and calls the mock provider.
        MockAi => "local.sample.demo.mock-ai",
    }
}

/// The configuration common to all model nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallConfig {
    /// The provider name configured on the host.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// The name of the credential. A workflow never contains the credential itself.
    pub credential: Option<CredentialRef>,
    /// References to prompt templates.
    pub prompts: NodePrompts,
    pub system_prompt: Option<String>,
    pub user_prompt: Option<String>,
    pub agent_id: Option<String>,
    /// The maximum number of output tokens.
    pub max_tokens: Option<u32>,
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    pub seed: Option<u64>,
    /// Capabilities that the model must have.
    pub required_capabilities: Vec<String>,
    /// The model to use if the configured one lacks a capability.
    pub fallback: Option<Model>,
}

/// A tool of an MCP server, called instead of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct McpCall {
    /// The server; the host chooses one if `None`.
    pub server: Option<String>,
    pub tool: String,
    pub arguments: Map<String, Value>,
}

/// A node that requests text.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPrompt {
    pub call: CallConfig,
    /// A prompt reference in the older form. Used if no other reference is set.
    pub prompt_id: Option<PromptRef>,
    /// Whether the reply is streamed.
    pub streaming: bool,
    /// A tool to call instead of a model.
    pub mcp: Option<McpCall>,
}

/// A node that requests a JSON document.
#[derive(Clone, Debug)]
pub struct StructuredOutput {
    pub call: CallConfig,
    /// The schema of the document.
    pub schema: Schema,
    /// Additional attempts after an invalid reply.
    pub retry_on_invalid_json: u32,
    /// The kind of the document.
    pub envelope_type: String,
}

/// A node that composes prompts and calls the mock provider.
#[derive(Clone, Debug, PartialEq)]
pub struct MockAi {
    pub call: CallConfig,
}

/// The configuration of a model node.
#[derive(Clone, Debug)]
pub enum Node {
    CallPrompt(CallPrompt),
    StructuredOutput(StructuredOutput),
    MockAi(MockAi),
}

impl Node {
    /// Reads the configuration of a node.
    ///
    /// # Errors
    /// Every problem of the configuration.
    pub fn read(kind: NodeType, config: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::new(config);
        let node = match kind {
            NodeType::CallPrompt => {
                let mut call = call(&mut reader);
                let prompt_id = reader.prompt_id("promptId");
                if call.prompts.user.is_none() {
                    call.prompts.user.clone_from(&prompt_id);
                }
                Some(Self::CallPrompt(CallPrompt {
                    call,
                    prompt_id,
                    streaming: reader.flag("expectsStreaming").unwrap_or(false),
                    mcp: mcp(&mut reader),
                }))
            }
            NodeType::StructuredOutput => {
                let call = call(&mut reader);
                let retry_on_invalid_json = reader.count("retryOnInvalidJson", MAX_ATTEMPTS).unwrap_or(0);
                schema(&mut reader).map(|(schema, envelope_type)| {
                    Self::StructuredOutput(StructuredOutput {
                        call,
                        schema,
                        retry_on_invalid_json,
                        envelope_type,
                    })
                })
            }
            NodeType::MockAi => Some(Self::MockAi(MockAi { call: call(&mut reader) })),
        };
        let problems = reader.finish();
        match node {
            Some(node) if problems.is_empty() => Ok(node),
            _ => Err(problems),
        }
    }

    /// The configuration common to all model nodes.
    pub const fn call(&self) -> &CallConfig {
        match self {
            Self::CallPrompt(node) => &node.call,
            Self::StructuredOutput(node) => &node.call,
            Self::MockAi(node) => &node.call,
        }
    }

    /// Whether the reply is streamed.
    pub const fn is_streaming(&self) -> bool {
        matches!(self, Self::CallPrompt(CallPrompt { streaming: true, .. }))
    }

    /// Starts the state machine of the node's call and returns the first request.
    pub fn start(&self, calling: Calling<'_>) -> (Completion, completion::ModelCall) {
        let (settings, request, schema) = self.asking(calling);
        Completion::start(settings, request, schema)
    }

    /// Starts the state machine of a conversation with tools and returns the first request. The final reply is the
    /// value.
    pub fn converse(
        &self,
        calling: Calling<'_>,
        settings: tools::Settings,
        toolbox: Toolbox,
    ) -> (Conversation, completion::ModelCall) {
        let (turns, request, _) = self.asking(calling);
        Conversation::start(settings, toolbox, turns, request)
    }

    fn asking(&self, calling: Calling<'_>) -> (Settings, Request, Option<Schema>) {
        let config = self.call();
        let mut messages: Vec<Message> = calling.prompts;
        // A reference takes precedence over a text; see `warnings`.
        if let Some(text) = config.system_prompt.as_ref().filter(|_| config.prompts.system.is_none()) {
            messages.insert(0, Message::system(text.clone()));
        }
        if let Some(text) = config.user_prompt.as_ref().filter(|_| config.prompts.user.is_none()) {
            messages.push(Message::user(text.clone()));
        }
        messages.extend(calling.inputs);
        let (output, schema, extra, envelope_type) = match self {
            Self::StructuredOutput(node) => {
                let output = Output::json(&node.envelope_type, node.schema.source().clone());
                (output, Some(node.schema.clone()), node.retry_on_invalid_json, node.envelope_type.as_str())
            }
            Self::CallPrompt(_) | Self::MockAi(_) => (Output::Text, None, 0, "text"),
        };
        let overrides = calling.overrides;
        let mut request = Request::new(calling.model, messages, output);
        if let Some(room) = overrides.max_tokens.or(config.max_tokens) {
            request.max_output_tokens = room;
        }
        request.temperature = overrides.temperature.or(config.temperature);
        request.top_p = config.top_p;
        request.stop.clone_from(&config.stop);
        request.seed = config.seed;
        request.stream = self.is_streaming();
        // A model with an enforced output schema cannot send an envelope.
        if let Some(contract) = calling.envelopes.as_ref().and_then(|judging| judging.contract.as_ref()) {
            let place = request.messages.iter().take_while(|message| message.role == Role::System).count();
            let instructions =
                completion::instruction(&request.output).into_iter().chain([contract.instruction()]);
            request.messages.splice(place..place, instructions.map(Message::system));
            request.output = Output::Text;
        }
        let attempts = calling.budget.attempts().saturating_add(extra);
        let settings = Settings {
            envelope_type: envelope_type.to_owned(),
            budget: calling.budget.with_attempts(attempts),
            redactor: calling.redactor,
            envelopes: calling.envelopes,
            ..Settings::new(calling.node_id, calling.provider)
        };
        (settings, request, schema)
    }

    /// Warns about texts that are ignored because a reference takes precedence.
    pub fn warnings(&self, node_id: &str) -> Vec<RunEvent> {
        let call = self.call();
        let pairs = [
            (call.system_prompt.is_some() && call.prompts.system.is_some(), "systemPrompt"),
            (call.user_prompt.is_some() && call.prompts.user.is_some(), "userPrompt"),
        ];
        let warning = |name: &str| {
            let fields = Map::from_iter([("code".to_owned(), "prompt_ref_supersedes_inline".into())]);
            event::log(
                "warn",
                format!("`{name}` is ignored because `{name}Ref` is set"),
                Some(node_id),
                fields,
            )
        };
        pairs.iter().filter(|(both, _)| *both).map(|(_, name)| warning(name)).collect()
    }
}

/// The arguments of a model call.
#[derive(Debug)]
pub struct Calling<'c> {
    pub node_id: &'c str,
    /// The provider name used in events.
    pub provider: &'c str,
    pub model: &'c str,
    /// The composed prompts.
    pub prompts: Vec<Message>,
    /// The messages from the node's inputs.
    pub inputs: Vec<Message>,
    /// Overrides from the caller of the run.
    pub overrides: &'c Overrides,
    /// The retry and output-token budget.
    pub budget: Budget,
    /// Removes secrets from everything that is recorded.
    pub redactor: Redactor,
    /// How to validate replies that are envelopes. If `None`, an envelope is treated as any other reply.
    pub envelopes: Option<EnvelopeRules>,
}

/// The default number of attempts of a host.
pub const ATTEMPTS: u32 = DEFAULT_ATTEMPTS;

fn call(reader: &mut Reader<'_>) -> CallConfig {
    CallConfig {
        provider: reader.text("provider", 64),
        model: reader.text("model", 256),
        credential: reader.with(
            "credentialRef",
            "must be the name of a secret, such as `secret:model-key`",
            |value| value.as_str().and_then(CredentialRef::parse),
        ),
        prompts: NodePrompts {
            system: reader.prompt("systemPromptRef"),
            user: reader.prompt("userPromptRef"),
            schema_hint: reader.prompt("schemaHintPromptRef"),
            few_shot: reader.prompts("fewShotPromptRefs"),
        },
        system_prompt: reader.text("systemPrompt", 65_536),
        user_prompt: reader.text("userPrompt", 65_536),
        agent_id: reader.text("agentId", 256),
        max_tokens: reader
            .count("maxTokens", MAX_OUTPUT_TOKENS)
            .filter(|room| *room > 0 || reader.at_least_one("maxTokens")),
        temperature: reader.number("temperature", 2.0),
        top_p: reader.number("topP", 1.0),
        stop: reader.texts("stop", 16),
        seed: reader.with("seed", "must be a non-negative integer", Value::as_u64),
        required_capabilities: reader.texts("requiredModelCapabilities", MAX_CAPABILITIES),
        fallback: reader.with("fallbackModel", "must be `{provider, model}`", |value| {
            let text = |name: &str| {
                value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
            };
            let closed = value.as_object()?.len() == 2;
            closed.then_some(Model { provider: text("provider")?, model: text("model")? })
        }),
    }
}

fn mcp(reader: &mut Reader<'_>) -> Option<McpCall> {
    reader.with("mcp", "must be `{tool, arguments?, server?}`", |value| {
        let members = value.as_object()?;
        if members.keys().any(|name| !["tool", "arguments", "server"].contains(&name.as_str())) {
            return None;
        }
        let text = |name: &str| {
            members
                .get(name)
                .map(|value| value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned))
        };
        let arguments = match members.get("arguments") {
            None => Map::new(),
            Some(arguments) => arguments.as_object()?.clone(),
        };
        let server = match text("server") {
            None => None,
            Some(server) => Some(server?),
        };
        Some(McpCall { server, tool: text("tool")??, arguments })
    })
}

/// The schema of the document and the document's name.
fn schema(reader: &mut Reader<'_>) -> Option<(Schema, String)> {
    let source = reader.needed("outputSchema")?;
    match Schema::compile(source) {
        Ok(schema) => {
            let name = ["title", "$id"].iter().find_map(|name| source.get(*name).and_then(Value::as_str));
            let name: String = name.unwrap_or("structured-output").chars().take(256).collect();
            Some((schema, if name.is_empty() { "structured-output".to_owned() } else { name }))
        }
        Err(error) => {
            reader.problem("outputSchema", error.to_string());
            None
        }
    }
}
