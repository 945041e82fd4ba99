//! The subcommands, one module each.

pub(crate) mod compose;
