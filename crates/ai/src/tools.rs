//! The machine of a conversation with tools: what is asked next, given the replies and the results so far.
//!
//! ```text
//!  start ─▶ model ─▶ reply ─┬─ wants no tool ─────────────────────────────▶ done
//!            ▲              ├─ wants tools, and the rounds are spent ─────▶ failed
//!            │              └─ wants tools: each call in turn
//!            │                    ├─ not offered ───────▶ told `forbidden`, never made
//!            │                    ├─ arguments unfit ───▶ told what is wrong, never made
//!            │                    └─ due ─▶ tool ─▶ result, between marks
//!            └───────────── all of the round are answered ◀┘
//! ```
//!
//! A round is one reply that wants tools, and all that came of its calls. Calls are made one after another, in the
//! order of the reply, so that the events of a conversation have one order. Replies and calls are numbered on their
//! own; with its number each has an identity under which it is paid for, or made, once. Fed the same replies and
//! results again, from a record, the machine gives the same events.
//!
//! Everything has a bound, and who reaches one is told which: see [`Bounds`]. What is wrong with a call is told to the
//! model, which may do better; that costs a round. What is wrong with the conversation as a whole ends it.
//!
//! A reply that is an envelope is judged as that of any other call: see [`crate::completion::envelopes`].
//!
//! Whatever a tool says is from outside. It is marked before the model sees it, and what the model says from then on is
//! no more to be believed than that: see [`Finished::trust`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::completion::{self, Attempt, Completion, Counter, Failed, Taken};
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
pub use returned::{Returned, Status};
pub use toolbox::{MAX_DESCRIPTION_BYTES, MAX_TOOLS, Offered, Toolbox, ToolboxError, Transport};

use arguments::{Judged, Unfit};
use returned::Pair;

/// What a conversation is held under.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent, as events name it.
    pub agent_id: String,
    /// What the ids of calls begin with: the identity of the work that the conversation is.
    pub call_prefix: String,
    /// How much of everything.
    pub bounds: Bounds,
    /// How much of what the model thinks is recorded.
    pub verbosity: Verbosity,
}

/// A call of a tool that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The how-many-eth call of this conversation this is, from 0.
    pub ordinal: u32,
    /// The identity under which it is made once.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What it gets. It fits the schema of the tool.
    pub arguments: Value,
    /// The digest of the arguments.
    pub args_hash: String,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The model is asked.
    Model(completion::Call),
    /// The reply is this envelope. It is [judged](Conversation::judge), and the judgement [taken](Conversation::take).
    Judge(Value),
    /// The model asks a person. The last event says what; the [answers](Conversation::answered) go on from here.
    Waits,
    /// A tool is called.
    Tool(Due),
    /// The model has said what it had to say.
    Done(Finished),
    /// It will not.
    Failed(Failed),
}

/// The end of a conversation that went well.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The last reply.
    pub reply: Reply,
    /// The envelope that it is, where it is one.
    pub envelope: Option<Taken>,
    /// What all calls of the model together counted.
    pub usage: Usage,
    /// Whether what the model said may be believed: not once it was told what a tool gave, or what another server says
    /// of its tools.
    pub trust: Trust,
}

/// The events of a step, in order, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// To be recorded before anything follows.
    pub events: Vec<RunEvent>,
    /// What follows.
    pub next: Next,
}

/// A conversation, from its first request to its end.
#[derive(Clone, Debug)]
pub struct Conversation {
    settings: Settings,
    toolbox: Toolbox,
    /// What each turn is asked under.
    turns: completion::Settings,
    turn: Completion,
    /// What the model is told with the next turn.
    unsaid: Vec<Message>,
    /// Replies so far.
    replies: u32,
    /// Rounds so far.
    rounds: u32,
    /// Calls of tools so far.
    calls: u32,
    /// What was said to and by tools so far, in bytes.
    bytes: usize,
    usage: Usage,
    trust: Trust,
    waiting: VecDeque<ToolCall>,
    current: Option<(ToolCall, Pair)>,
}

impl Conversation {
    /// A machine, and the first call of the model that is due. The request offers what is in the box.
    pub fn start(
        settings: Settings,
        toolbox: Toolbox,
        turns: completion::Settings,
        mut request: Request,
    ) -> (Self, completion::Call) {
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
            unsaid: Vec::new(),
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

    /// Takes what came of the call of the model that is under way.
    pub fn on_reply(&mut self, attempt: Attempt) -> Step {
        let step = self.turn.on(attempt);
        self.turned(step)
    }

    /// Judges an envelope, as [`Completion::judge`] does.
    pub fn judge(&self, document: &Value, prior: Option<&Prior>, questions: Option<Counter>) -> Verdict {
        self.turn.judge(document, prior, questions)
    }

    /// Takes the judgement of an envelope.
    pub fn take(&mut self, verdict: &Verdict) -> Step {
        let step = self.turn.take(verdict);
        self.turned(step)
    }

    /// Takes the answers to what the model asked a person.
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

    /// Takes what came of the tool that is under way. Without one, nothing changes but that the model is asked.
    pub fn on_returned(&mut self, returned: &Returned) -> Step {
        let mut events = Vec::new();
        if let Some((call, pair)) = self.current.take() {
            let returned = returned.clone().redacted(&self.turns.redactor);
            let told = returned.for_model(&pair.tool, self.settings.bounds.result_bytes);
            self.answer(&call, told, returned.status != Status::Ok);
            self.trust = Trust::Untrusted;
            self.turn.distrust();
            events.push(pair.returned(&returned));
        }
        self.go_on(events)
    }

    /// What takes secrets out of whatever is recorded.
    pub const fn redactor(&self) -> &Redactor {
        &self.turns.redactor
    }

    fn replied(&mut self, mut events: Vec<RunEvent>, reply: Reply, envelope: Option<Taken>) -> Step {
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
        self.unsaid.push(Message::calls(reply.text.clone(), self.as_sent(&calls)));
        // Each call is two events of the run, so that those beyond a round are told of as one.
        let beyond = calls.split_off(calls.len().min(bounds.calls_per_round));
        self.leave_out(&mut events, &beyond);
        if reply.stop.is_truncation() {
            // Nobody knows what else the calls would have said.
            let unfit = Unfit::cut_off();
            for call in &calls {
                self.refuse(&mut events, call, &unfit);
            }
        } else {
            self.waiting.extend(calls);
        }
        self.go_on(events)
    }

    /// Calls beyond those of a round: the model is told, and so is the run.
    fn leave_out(&mut self, events: &mut Vec<RunEvent>, beyond: &[ToolCall]) {
        if beyond.is_empty() {
            return;
        }
        let limit = self.settings.bounds.calls_per_round;
        let unfit = Unfit::too_many(limit);
        for call in beyond {
            self.answer(call, unfit.for_model(&arguments::shown(&call.name)), true);
        }
        let message = format!("{} calls of tools were not made: a round has at most {limit}", beyond.len());
        events.push(event::log("warn", message, Some(&self.turns.node_id), Map::new()));
    }

    /// Gives calls ids where the provider gave none, or one twice: an answer has to find its call.
    fn number(&self, calls: &mut [ToolCall]) {
        let mut seen = BTreeSet::new();
        for (place, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty() || call.id.len() > 256 || seen.contains(&call.id) {
                call.id = format!("call_{}_{place}", self.replies);
            }
            seen.insert(call.id.clone());
        }
    }

    /// The same calls as a provider takes them back: one that refuses a name would refuse the rest of the conversation.
    fn as_sent(&self, calls: &[ToolCall]) -> Vec<ToolCall> {
        let sent = |call: &ToolCall| ToolCall { name: self.toolbox.name_on_wire(&call.name), ..call.clone() };
        calls.iter().map(sent).collect()
    }

    /// The next call that is due; the model again where there is none.
    fn go_on(&mut self, mut events: Vec<RunEvent>) -> Step {
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
                Judged::Unfit(unfit) => self.refuse(&mut events, &call, &unfit),
                Judged::Fit { tool, arguments } => {
                    let pair = self.pair(tool.id.clone(), Some(tool.transport), &call);
                    let due = Due {
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
        let call = self.turn.next_turn(std::mem::take(&mut self.unsaid));
        Step { events, next: Next::Model(call) }
    }

    /// A call that is not made: the model is told why.
    fn refuse(&mut self, events: &mut Vec<RunEvent>, call: &ToolCall, unfit: &Unfit) {
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

    fn pair(&mut self, tool: String, transport: Option<Transport>, call: &ToolCall) -> Pair {
        let number = self.calls;
        self.calls += 1;
        let call_id = format!("{}.t{number}", self.settings.call_prefix);
        let limit = self.settings.bounds.argument_bytes;
        Pair::new(&self.settings.agent_id, tool, transport, call_id, &call.arguments, limit)
    }

    fn answer(&mut self, call: &ToolCall, told: String, is_error: bool) {
        self.bytes = self.bytes.saturating_add(told.len());
        self.unsaid.push(Message::result(call.id.clone(), told, is_error));
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

/// Text from outside, marked with the tool that said it.
fn marked(tool: &str, text: &str) -> String {
    trust::wrap_with(text, &BTreeMap::from([("tool".to_owned(), tool.to_owned())]))
}
