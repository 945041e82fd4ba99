//! Calls of models: envelopes, contracts, prompts, and the providers behind them.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
