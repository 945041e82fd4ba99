//! Runs over HTTP, through a real connection to a real host with a real database.

mod access;
mod answers;
mod client;
mod crowd;
mod discovery;
mod explore;
mod fixtures;
mod history;
mod hostile;
mod idempotency;
mod interrupts;
mod lifecycle;
mod logs;
mod mcp;
mod polls;
mod published;
mod rates;
mod seams;
mod service;
mod streams;
mod table;
mod webhooks;
mod workflows;
