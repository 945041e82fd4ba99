//! What nodes that call models are told, read strictly.
//!
//! A configuration is closed: a member that nobody knows is a problem, with the place where it stands. All problems of a
//! configuration are told at once.

use serde_json::{Map, Value};

use crate::completion::{
    self, Budget, Completion, DEFAULT_ATTEMPTS, Judging, MAX_ATTEMPTS, MAX_OUTPUT_TOKENS, Settings,
};
use crate::event::{self, RunEvent};
use crate::gate::{MAX_CAPABILITIES, Model};
use crate::prompt::PromptRef;
use crate::prompt::resolve::NodePrompts;
use crate::provider::{Message, Output, Request, Role};
use crate::redact::Redactor;
use crate::schema::Schema;
use crate::tools::{self, Conversation, Toolbox};
use crate::words::words;

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

words! {
    /// The types of nodes that call models.
    pub enum NodeType {
        /// Asks for a text.
        CallPrompt => "core.ai.callPrompt",
        /// Asks for a document.
        StructuredOutput => "core.ai.structuredOutput",
        /// Puts prompts together and asks the mock.
        MockAi => "local.sample.demo.mock-ai",
    }
}

/// What every call can be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallConfig {
    /// The provider, by the name under which the host knows it.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The credential, by its name. There is no place for a credential itself.
    pub credential: Option<CredentialRef>,
    /// The prompts that the node names.
    pub prompts: NodePrompts,
    /// How to behave, as a text.
    pub system_prompt: Option<String>,
    /// What to do, as a text.
    pub user_prompt: Option<String>,
    /// The agent of the node.
    pub agent_id: Option<String>,
    /// How much room the reply gets, in tokens.
    pub max_tokens: Option<u32>,
    /// How freely the model chooses.
    pub temperature: Option<f64>,
    /// Among how much of what is likely it chooses.
    pub top_p: Option<f64>,
    /// Texts at which it stops.
    pub stop: Vec<String>,
    /// What its choices follow from.
    pub seed: Option<u64>,
    /// What the model has to be able to do.
    pub required_capabilities: Vec<String>,
    /// Which model is asked when the one that is meant cannot.
    pub fallback: Option<Model>,
}

/// A tool of a server of the host, called in the place of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct McpCall {
    /// The server; the host's own choice where there is none.
    pub server: Option<String>,
    /// The tool.
    pub tool: String,
    /// What it gets.
    pub arguments: Map<String, Value>,
}

/// A node that asks for a text.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPrompt {
    /// What every call can be told.
    pub call: CallConfig,
    /// A prompt of a library, by an older way to name it. It is what the node asks, unless a reference says otherwise.
    pub prompt_id: Option<PromptRef>,
    /// Whether the reply is wanted piece by piece.
    pub streaming: bool,
    /// A tool to call instead.
    pub mcp: Option<McpCall>,
}

/// A node that asks for a document.
#[derive(Clone, Debug)]
pub struct StructuredOutput {
    /// What every call can be told.
    pub call: CallConfig,
    /// What the document has to fit.
    pub schema: Schema,
    /// How often a reply is asked for beyond what the host does anyway.
    pub retry_on_invalid_json: u32,
    /// What kind of thing the document is.
    pub envelope_type: String,
}

/// A node that puts prompts together and asks the mock.
#[derive(Clone, Debug, PartialEq)]
pub struct MockAi {
    /// The prompts.
    pub call: CallConfig,
}

/// A node that calls a model.
#[derive(Clone, Debug)]
pub enum Node {
    /// Asks for a text.
    CallPrompt(CallPrompt),
    /// Asks for a document.
    StructuredOutput(StructuredOutput),
    /// Puts prompts together and asks the mock.
    MockAi(MockAi),
}

impl Node {
    /// Reads the configuration of a node.
    ///
    /// # Errors
    /// All that is wrong with it.
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

    /// What every call can be told.
    pub const fn call(&self) -> &CallConfig {
        match self {
            Self::CallPrompt(node) => &node.call,
            Self::StructuredOutput(node) => &node.call,
            Self::MockAi(node) => &node.call,
        }
    }

    /// Whether the reply is wanted piece by piece.
    pub const fn is_streaming(&self) -> bool {
        matches!(self, Self::CallPrompt(CallPrompt { streaming: true, .. }))
    }

    /// The machine of the node's call, and the first request. `prompts` are the prompts that were put together, `inputs` the
    /// messages that the node was given, `budget` is the host's.
    pub fn start(&self, calling: Calling<'_>) -> (Completion, completion::Call) {
        let (settings, request, schema) = self.asking(calling);
        Completion::start(settings, request, schema)
    }

    /// The machine of a conversation with tools, and the first request. Whatever the model says in the end is the value.
    pub fn converse(
        &self,
        calling: Calling<'_>,
        settings: tools::Settings,
        toolbox: Toolbox,
    ) -> (Conversation, completion::Call) {
        let (turns, request, _) = self.asking(calling);
        Conversation::start(settings, toolbox, turns, request)
    }

    fn asking(&self, calling: Calling<'_>) -> (Settings, Request, Option<Schema>) {
        let config = self.call();
        let mut messages: Vec<Message> = calling.prompts;
        // A reference wins over a text; see `warnings`.
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
        // A model that is held to a document, word for word, can say nothing else.
        if let Some(contract) = calling.envelopes.as_ref().and_then(|judging| judging.contract.as_ref()) {
            let place = request.messages.iter().take_while(|message| message.role == Role::System).count();
            let told = completion::instruction(&request.output).into_iter().chain([contract.instruction()]);
            request.messages.splice(place..place, told.map(Message::system));
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

    /// What an author should know: a text that a reference stands in front of is not used.
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
                format!("`{name}` is not used: `{name}Ref` stands beside it"),
                Some(node_id),
                fields,
            )
        };
        pairs.iter().filter(|(both, _)| *both).map(|(_, name)| warning(name)).collect()
    }
}

/// What a call is started with.
#[derive(Debug)]
pub struct Calling<'c> {
    /// The node.
    pub node_id: &'c str,
    /// The provider that is asked, as events name it.
    pub provider: &'c str,
    /// The model that is asked.
    pub model: &'c str,
    /// The prompts that were put together.
    pub prompts: Vec<Message>,
    /// The messages that the node was given.
    pub inputs: Vec<Message>,
    /// What the caller of the run says.
    pub overrides: &'c Overrides,
    /// How often, and with how much room.
    pub budget: Budget,
    /// What must not be recorded.
    pub redactor: Redactor,
    /// How replies that are envelopes are judged. Without it they are replies as any other.
    pub envelopes: Option<Judging>,
}

/// How often a host asks for a reply when nobody says otherwise.
pub const ATTEMPTS: u32 = DEFAULT_ATTEMPTS;

fn call(reader: &mut Reader<'_>) -> CallConfig {
    CallConfig {
        provider: reader.text("provider", 64),
        model: reader.text("model", 256),
        credential: reader.with(
            "credentialRef",
            "it is the name of a secret, such as `secret:model-key`",
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
        seed: reader.with("seed", "it is a whole number from 0", Value::as_u64),
        required_capabilities: reader.texts("requiredModelCapabilities", MAX_CAPABILITIES),
        fallback: reader.with("fallbackModel", "it is `{provider, model}`", |value| {
            let text = |name: &str| {
                value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
            };
            let closed = value.as_object()?.len() == 2;
            closed.then_some(Model { provider: text("provider")?, model: text("model")? })
        }),
    }
}

fn mcp(reader: &mut Reader<'_>) -> Option<McpCall> {
    reader.with("mcp", "it is `{tool, arguments?, server?}`", |value| {
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

/// The schema of the document, and what it calls the document.
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
