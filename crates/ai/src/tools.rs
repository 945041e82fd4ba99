//! The state machine of a conversation with tools: what to do next, given the replies and tool results so far.
//!
//! ```text
//!  start ─▶ model ─▶ reply ─┬─ no tool call ──────────────────────────────▶ done
//!            ▲              ├─ tool calls, but no rounds left ────────────▶ failed
//!            │              └─ tool calls, one after another
//!            │                    ├─ tool not offered ────▶ `forbidden` result, not executed
//!            │                    ├─ invalid arguments ───▶ error result, not executed
//!            │                    └─ valid ─▶ execute ─▶ result, marked as untrusted
//!            └───────────── all calls of the round have results ◀┘
//! ```
//!
//! A round is one reply with tool calls, and their results. Calls run one after another in the order of the reply, so
//! the events of a conversation have one order. Replies and calls are numbered; the number is part of the idempotency
//! key, so each is billed or executed once. The same replies and results, read from a record, produce the same events.
//!
//! Everything has a limit; see [`Bounds`]. A problem of a call is reported to the model, which may correct it in the
//! next round. A problem of the whole conversation ends it.
//!
//! Envelopes are validated as in a single call: see [`crate::completion::envelopes`].
//!
//! Tool results are untrusted. They are marked before the model sees them, and the model's later output is untrusted
//! too: see [`Finished::trust`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::completion::{self, AcceptedEnvelope, Attempt, Completion, Counter, Failed};
use crate::envelope::{Prior, Verdict};
use crate::event::{self, RunEvent};
use crate::failure::FailureCode;
use crate::provider::{Message, Reply, Request, ToolCall, Usage};
use crate::reasoning::{self, Block, DEFAULT_TOKEN_LIMIT, Verbosity};
use crate::redact::Redactor;
use crate::trust::{self, Trust};

mod arguments;
mod bounds;
mod returned;
mod toolbox;

pub use bounds::{Bounds, DEFAULT_ROUNDS, MAX_ROUNDS};
pub use returned::{Status, ToolResult};
pub use toolbox::{MAX_DESCRIPTION_BYTES, MAX_TOOLS, OfferedTool, Toolbox, ToolboxError, Transport};

use arguments::{CallCheck, RejectedCall};
use returned::CallEvents;

/// Configuration of a conversation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent id used in events.
    pub agent_id: String,
    /// Prefix of the call ids: identifies the work that the conversation does.
    pub call_prefix: String,
    pub bounds: Bounds,
    /// How much of the model's reasoning is recorded.
    pub verbosity: Verbosity,
}

/// A tool call to execute.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingToolCall {
    /// Zero-based index of this call in the conversation.
    pub ordinal: u32,
    /// The idempotency key: the call is executed once under this id.
    pub call_id: String,
    pub tool: String,
    /// The arguments, valid for the tool's schema.
    pub arguments: Value,
    pub args_hash: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Model(completion::ModelCall),
    /// The reply is this envelope: call [`Conversation::judge`], then [`Conversation::take`] with the verdict.
    Judge(Value),
    /// The model asks a person; the last event has the questions. Continue with [`Conversation::answered`].
    Waits,
    Tool(PendingToolCall),
    /// The conversation is complete.
    Done(Finished),
    Failed(Failed),
}

/// A successful conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub reply: Reply,
    /// The envelope, if the last reply is one.
    pub envelope: Option<AcceptedEnvelope>,
    /// Total usage of all model calls.
    pub usage: Usage,
    /// Whether the output is trusted: not after the model saw a tool result or another server's tool descriptions.
    pub trust: Trust,
}

/// The events of a step, in order, and what to do next.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Record these before acting on `next`.
    pub events: Vec<RunEvent>,
    pub next: Next,
}

/// The state of a conversation.
#[derive(Clone, Debug)]
pub struct Conversation {
    settings: Settings,
    toolbox: Toolbox,
    turns: completion::Settings,
    turn: Completion,
    /// Messages for the next turn.
    next_messages: Vec<Message>,
    replies: u32,
    rounds: u32,
    calls: u32,
    /// Total size of tool arguments and results, in bytes.
    bytes: usize,
    usage: Usage,
    trust: Trust,
    waiting: VecDeque<ToolCall>,
    current: Option<(ToolCall, CallEvents)>,
}

impl Conversation {
    /// Creates the machine and the first model call. The request offers the tools of the toolbox.
    pub fn start(
        settings: Settings,
        toolbox: Toolbox,
        turns: completion::Settings,
        mut request: Request,
    ) -> (Self, completion::ModelCall) {
        request.tools = toolbox.declarations();
        let (mut turn, first) = Completion::turn(turns.clone(), request);
        let trust = if toolbox.has_foreign() { Trust::Untrusted } else { Trust::Trusted };
        if trust == Trust::Untrusted {
            turn.distrust();
        }
        let conversation = Self {
            settings,
            toolbox,
            turns,
            turn,
            next_messages: Vec::new(),
            replies: 0,
            rounds: 0,
            calls: 0,
            bytes: 0,
            usage: Usage::default(),
            trust,
            waiting: VecDeque::new(),
            current: None,
        };
        (conversation, first)
    }

    /// Processes the result of the model call in progress.
    pub fn on_reply(&mut self, attempt: Attempt) -> Step {
        let step = self.turn.on(attempt);
        self.turned(step)
    }

    /// Validates an envelope; see [`Completion::judge`].
    pub fn judge(&self, document: &Value, prior: Option<&Prior>, questions: Option<Counter>) -> Verdict {
        self.turn.judge(document, prior, questions)
    }

    /// Applies the verdict on an envelope.
    pub fn take(&mut self, verdict: &Verdict) -> Step {
        let step = self.turn.take(verdict);
        self.turned(step)
    }

    /// Sends the answers of a person to the model.
    pub fn answered(&mut self, answers: &Value) -> Step {
        let step = self.turn.answered(answers);
        self.turned(step)
    }

    fn turned(&mut self, step: completion::Step) -> Step {
        let completion::Step { mut events, next } = step;
        match next {
            completion::Next::Call(call) => Step { events, next: Next::Model(call) },
            completion::Next::Judge(document) => Step { events, next: Next::Judge(document) },
            completion::Next::Waits => Step { events, next: Next::Waits },
            completion::Next::Failed(failed) => {
                Step { events, next: Next::Failed(Failed { usage: self.usage.plus(failed.usage), ..failed }) }
            }
            completion::Next::Done(done) => {
                self.usage = self.usage.plus(done.usage);
                self.replies += 1;
                events.extend(self.thoughts(&done.reply));
                self.replied(events, done.reply, done.envelope)
            }
        }
    }

    /// Processes the result of the tool call in progress. Without one, it only continues with the next call.
    pub fn on_returned(&mut self, returned: &ToolResult) -> Step {
        let mut events = Vec::new();
        if let Some((call, pair)) = self.current.take() {
            let returned = returned.clone().redacted(&self.turns.redactor);
            let text = returned.for_model(&pair.tool, self.settings.bounds.result_bytes);
            self.answer(&call, text, returned.status != Status::Ok);
            self.trust = Trust::Untrusted;
            self.turn.distrust();
            events.push(pair.returned(&returned));
        }
        self.next_call(events)
    }

    /// The redactor for everything that is recorded.
    pub const fn redactor(&self) -> &Redactor {
        &self.turns.redactor
    }

    fn replied(
        &mut self,
        mut events: Vec<RunEvent>,
        reply: Reply,
        envelope: Option<AcceptedEnvelope>,
    ) -> Step {
        if reply.tool_calls.is_empty() {
            let finished = Finished { reply, envelope, usage: self.usage, trust: self.trust };
            return Step { events, next: Next::Done(finished) };
        }
        let bounds = self.settings.bounds;
        if self.rounds >= bounds.rounds() {
            let limit = u64::from(bounds.rounds());
            let node_id = self.turns.node_id.as_str();
            events.push(event::cap_breached("loop-iterations", limit, limit + 1, Some(node_id)));
            return self.failed(events, FailureCode::ToolRoundsExceeded, bounds.rounds_spent());
        }
        self.rounds += 1;
        let mut calls = reply.tool_calls.clone();
        self.number(&mut calls);
        let said: usize = calls.iter().map(|call| call.arguments.len()).sum();
        self.bytes = self.bytes.saturating_add(said).saturating_add(reply.text.len());
        self.next_messages.push(Message::calls(reply.text.clone(), self.as_sent(&calls)));
        // Each call has two events, so the calls above the limit are reported in one.
        let beyond = calls.split_off(calls.len().min(bounds.calls_per_round));
        self.leave_out(&mut events, &beyond);
        if reply.stop.is_truncation() {
            // A truncated reply may have lost further arguments.
            let unfit = RejectedCall::truncated();
            for call in &calls {
                self.refuse(&mut events, call, &unfit);
            }
        } else {
            self.waiting.extend(calls);
        }
        self.next_call(events)
    }

    /// Reports the calls above the limit to the model and to the run.
    fn leave_out(&mut self, events: &mut Vec<RunEvent>, beyond: &[ToolCall]) {
        if beyond.is_empty() {
            return;
        }
        let limit = self.settings.bounds.calls_per_round;
        let unfit = RejectedCall::too_many(limit);
        for call in beyond {
            self.answer(call, unfit.for_model(&arguments::shown(&call.name)), true);
        }
        let message = format!("{} tool calls were skipped; a round can have at most {limit}", beyond.len());
        events.push(event::log("warn", message, Some(&self.turns.node_id), Map::new()));
    }

    /// Assigns ids to calls without a unique one, so that each result matches its call.
    fn number(&self, calls: &mut [ToolCall]) {
        let mut seen = BTreeSet::new();
        for (place, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty() || call.id.len() > 256 || seen.contains(&call.id) {
                call.id = format!("call_{}_{place}", self.replies);
            }
            seen.insert(call.id.clone());
        }
    }

    /// The calls with names that the provider accepts: an invalid name would make it reject the rest of the
    /// conversation.
    fn as_sent(&self, calls: &[ToolCall]) -> Vec<ToolCall> {
        let sent = |call: &ToolCall| ToolCall { name: self.toolbox.name_on_wire(&call.name), ..call.clone() };
        calls.iter().map(sent).collect()
    }

    /// The next tool call, or the next model call if none is left.
    fn next_call(&mut self, mut events: Vec<RunEvent>) -> Step {
        if self.bytes > self.settings.bounds.total_bytes {
            self.waiting.clear();
            return self.failed(
                events,
                FailureCode::ToolBytesExceeded,
                self.settings.bounds.bytes_spent(self.bytes),
            );
        }
        while let Some(call) = self.waiting.pop_front() {
            match arguments::judge(&self.toolbox, &call, self.settings.bounds.argument_bytes) {
                CallCheck::Rejected(unfit) => self.refuse(&mut events, &call, &unfit),
                CallCheck::Valid { tool, arguments } => {
                    let pair = self.pair(tool.id.clone(), Some(tool.transport), &call);
                    let due = PendingToolCall {
                        ordinal: self.calls - 1,
                        call_id: pair.call_id.clone(),
                        tool: pair.tool.clone(),
                        arguments,
                        args_hash: pair.args_hash.clone(),
                    };
                    events.push(pair.called());
                    self.current = Some((call, pair));
                    return Step { events, next: Next::Tool(due) };
                }
            }
        }
        let call = self.turn.next_turn(std::mem::take(&mut self.next_messages));
        Step { events, next: Next::Model(call) }
    }

    /// Skips a call and reports the reason to the model.
    fn refuse(&mut self, events: &mut Vec<RunEvent>, call: &ToolCall, unfit: &RejectedCall) {
        let known = self.toolbox.find(&call.name).map(|tool| (tool.id.clone(), tool.transport));
        let (tool, transport) = match known {
            Some((tool, transport)) => (tool, Some(transport)),
            None => (arguments::shown(&call.name), None),
        };
        let pair = self.pair(tool, transport, call);
        events.push(pair.called());
        events.push(pair.refused(unfit));
        self.answer(call, unfit.for_model(&pair.tool), true);
    }

    fn pair(&mut self, tool: String, transport: Option<Transport>, call: &ToolCall) -> CallEvents {
        let number = self.calls;
        self.calls += 1;
        let call_id = format!("{}.t{number}", self.settings.call_prefix);
        let limit = self.settings.bounds.argument_bytes;
        CallEvents::new(&self.settings.agent_id, tool, transport, call_id, &call.arguments, limit)
    }

    fn answer(&mut self, call: &ToolCall, text: String, is_error: bool) {
        self.bytes = self.bytes.saturating_add(text.len());
        self.next_messages.push(Message::result(call.id.clone(), text, is_error));
    }

    fn thoughts(&self, reply: &Reply) -> Vec<RunEvent> {
        let block = Block::new(reasoning::Settings {
            agent_id: self.settings.agent_id.clone(),
            verbosity: self.settings.verbosity,
            token_limit: DEFAULT_TOKEN_LIMIT,
            streaming: false,
            redactor: self.turns.redactor.clone(),
        });
        block.close(reply.reasoning.as_deref())
    }

    fn failed(&self, events: Vec<RunEvent>, code: FailureCode, message: String) -> Step {
        let failed = Failed { code, message, details: None, retryable: false, usage: self.usage };
        Step { events, next: Next::Failed(failed) }
    }
}

/// Untrusted text, marked with the tool name.
fn marked(tool: &str, text: &str) -> String {
    trust::wrap_with(text, &BTreeMap::from([("tool".to_owned(), tool.to_owned())]))
}
