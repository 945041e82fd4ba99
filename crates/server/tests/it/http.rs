//! Runs over HTTP, through a real connection to a real host with a real database.

mod access;
mod answers;
mod client;
mod discovery;
mod fixtures;
mod history;
mod hostile;
mod interrupts;
mod lifecycle;
mod logs;
mod polls;
mod rates;
mod seams;
mod service;
mod streams;
mod table;
mod webhooks;
mod workflows;
