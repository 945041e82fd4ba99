//! The error below an error of a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error of a database, a disk or a parser, kept as the source of one of ours for the log of the host.
///
/// It is shared because one disk failure fails every commit of a batch.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// Keeps an error, or a message where there is no error value.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }

    /// Keeps the position and the category of a JSON error. The message of `serde_json` may quote the value, which can be the
    /// input of a run.
    pub fn of_json(error: &serde_json::Error) -> Self {
        let kind = match error.classify() {
            serde_json::error::Category::Io => "unreadable",
            serde_json::error::Category::Syntax => "invalid",
            serde_json::error::Category::Data => "unexpected",
            serde_json::error::Category::Eof => "incomplete",
        };
        Self::new(format!("{kind} JSON at line {} column {}", error.line(), error.column()))
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Two causes are equal if their messages are equal.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_below_is_the_source_and_json_is_not_quoted() {
        #[derive(Debug, thiserror::Error)]
        #[error("above")]
        struct Above(#[source] std::io::Error);
        let cause = Cause::new(Above(std::io::Error::other("below")));
        assert_eq!(cause.to_string(), "above");
        assert_eq!(cause.source().map(ToString::to_string), Some("below".to_owned()));
        assert_eq!(cause, cause.clone());
        assert_ne!(cause, Cause::new("else"));
        let quoting = serde_json::from_str::<u64>("\n \"a-secret\"").unwrap_err();
        assert!(quoting.to_string().contains("a-secret"), "{quoting}");
        assert_eq!(Cause::of_json(&quoting).to_string(), "unexpected JSON at line 2 column 11");
    }
}
