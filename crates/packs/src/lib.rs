//! Packs: what others wrote for workflows, named, signed, resolved and unpacked.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
