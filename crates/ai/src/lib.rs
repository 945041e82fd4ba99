//! Model calls: envelopes, contracts, prompts and providers.
//!
//! A node that calls a model uses four modules. [`node`] reads its configuration. [`prompt`] resolves and composes the
//! prompts. [`completion`] is the state machine of one call: it returns the next request, processes the reply, and
//! returns another request, a value or a failure. [`provider`] encodes a request as HTTP for a family of servers and
//! decodes the response. The host sends the requests and records every [`event`] in order.
//!
//! [`tools`] is the state machine of a conversation with tools, over several rounds.
//!
//! [`envelope`] validates messages from the model to the engine before they are used.
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
//!
//! * No I/O, clock, randomness or async: the same input gives the same output on every machine.
//! * Errors never contain text of a model or a user, and credentials are never printed.
//! * External input is checked against its limits before it is parsed, and is parsed once.
#![forbid(unsafe_code)]

mod wire_enum;

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
