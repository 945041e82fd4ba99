//! Calls of models: envelopes, contracts, prompts, and the providers behind them.
//!
//! A node that asks a model goes through four rooms of this crate. [`node`] reads its configuration. [`prompt`] resolves
//! and composes what the model is told. [`completion`] is the machine of one call: it says which request is due, takes
//! the reply, and says what follows, another request, a value, or a failure. [`provider`] writes a request as HTTP for a
//! family of servers, and reads what came back. The host between them does the sending, and records every
//! [`event`] that the machine gives, in order.
//!
//! [`tools`] is the machine around it where a model may have tools called, over several rounds.
//!
//! [`envelope`] is the other direction: what a model says to the engine, judged by one pipeline before anything of it is
//! believed.
//!
//! ```
//! use ai::completion::{Attempt, Completion, Next, Settings};
//! use ai::provider::{Message, Output, Request, mock};
//! use ai::schema::Schema;
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}});
//! let request = Request::new("mock-mini", vec![Message::user("Is it valid?")], Output::json("answer", schema.clone()));
//! let (mut completion, mut call) = Completion::start(Settings::new("ask", "mock"), request, Some(Schema::compile(&schema)?));
//! let mut programs = mock::Programs::default();
//! programs.program("ask", mock::Program::read(&json!([{"content": "no JSON"}, {"content": "{\"valid\": true}"}]))?);
//! loop {
//!     let reply = programs.answer("ask", &call.request);
//!     let step = completion.on(Attempt::Reply(reply));
//!     match step.next {
//!         Next::Call(next) => call = next,
//!         Next::Done(done) => break assert_eq!(done.value, json!({"valid": true})),
//!         other => panic!("{other:?}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * No I/O, clock, randomness or async: the same input gives the same output on every machine.
//! * No text of a model or of a person gets into an error, and no credential is ever printed.
//! * What comes from outside is bounded before it is looked into, and is never read twice.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod words;

pub mod cache_key;
pub mod chunks;
pub mod completion;
pub mod envelope;
pub mod event;
pub mod failure;
pub mod gate;
pub mod node;
pub mod prompt;
pub mod provider;
pub mod reasoning;
pub mod redact;
pub mod schema;
pub mod tools;
pub mod trust;
pub mod usage;
