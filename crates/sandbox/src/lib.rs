//! Runs WebAssembly nodes that nobody has to trust.
#![deny(missing_docs)]
