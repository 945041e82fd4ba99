//! Errors for the log: with all their causes, and without credentials.

use std::error::Error;
use std::fmt::Write as _;

/// The id of a request in the log. Clients receive it with an internal error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelationId(pub String);

/// The maximum length of a line of causes, in bytes.
const MAX_BYTES: usize = 2048;

/// An error and its sources, the outermost first, separated by colons.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        // Some errors repeat their source in their own message.
        let message = error.to_string();
        if !line.ends_with(&message) {
            let separator = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{separator}{message}");
        }
        if line.len() > MAX_BYTES {
            break;
        }
        next = error.source();
    }
    canon::budget::truncate(&flow::redact::text(&line), MAX_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_in_the_line_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the store cannot be read")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("database disk image is malformed"));
        assert_eq!(causes(&error), "the store cannot be read: database disk image is malformed");
    }

    #[test]
    fn credentials_are_removed_and_the_length_is_limited() {
        let key = format!("sk-ant-{}", "a1B2".repeat(12));
        let line = causes(&std::io::Error::other(format!("refused {key}")));
        assert!(!line.contains(&key), "{line}");
        assert!(causes(&std::io::Error::other("x".repeat(100_000))).len() <= MAX_BYTES);
    }
}
