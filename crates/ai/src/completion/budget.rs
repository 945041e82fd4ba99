//! Retry and output-token budget of a model call.

/// The default number of attempts.
pub const DEFAULT_ATTEMPTS: u32 = 3;
/// The maximum number of attempts.
pub const MAX_ATTEMPTS: u32 = 16;
/// The maximum output-token limit of a reply.
pub const MAX_OUTPUT_TOKENS: u32 = 1 << 20;
/// The default number of retries after network failures.
const DEFAULT_FAILURES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub current: u64,
    pub cap: u64,
}

impl Counter {
    /// Whether the limit is reached.
    pub const fn is_reached(self) -> bool {
        self.current >= self.cap
    }

    /// The counter increased by `more`.
    #[must_use]
    pub fn plus(self, more: u32) -> Self {
        Self { current: self.current.saturating_add(u64::from(more)), ..self }
    }
}

/// Retry and output-token budget of a model call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    attempts: u32,
    multiplier: f64,
    ceiling: u32,
    /// The number of retries after network failures.
    pub(super) failures: u32,
    /// The schema rounds of the run; every retry counts against them.
    pub(super) schema_rounds: Option<Counter>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            attempts: DEFAULT_ATTEMPTS,
            multiplier: 2.0,
            ceiling: MAX_OUTPUT_TOKENS,
            failures: DEFAULT_FAILURES,
            schema_rounds: None,
        }
    }
}

impl Budget {
    /// Sets the number of attempts, between 1 and [`MAX_ATTEMPTS`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.clamp(1, MAX_ATTEMPTS), ..self }
    }

    /// Sets the factor by which the token limit grows after a truncated reply, between 1 and 8.
    #[must_use]
    pub fn with_multiplier(self, multiplier: f64) -> Self {
        let multiplier = if multiplier.is_finite() { multiplier.clamp(1.0, 8.0) } else { 2.0 };
        Self { multiplier, ..self }
    }

    /// Sets the highest token limit of a reply.
    #[must_use]
    pub fn with_output_ceiling(self, ceiling: u32) -> Self {
        Self { ceiling: ceiling.clamp(1, MAX_OUTPUT_TOKENS), ..self }
    }

    /// Sets the schema rounds of the run; every retry counts against them.
    #[must_use]
    pub const fn with_schema_rounds(self, rounds: Counter) -> Self {
        Self { schema_rounds: Some(rounds), ..self }
    }

    /// Sets the number of retries after network failures.
    #[must_use]
    pub const fn with_failures(self, failures: u32) -> Self {
        Self { failures, ..self }
    }

    pub const fn attempts(self) -> u32 {
        self.attempts
    }

    pub const fn multiplier(self) -> f64 {
        self.multiplier
    }

    pub const fn output_ceiling(self) -> u32 {
        self.ceiling
    }

    /// The next larger token limit, or `None` at the ceiling.
    pub fn grown(self, room: u32) -> Option<u32> {
        let grown = (f64::from(room) * self.multiplier).ceil();
        // Both factors are bounded, and the cast saturates.
        #[expect(clippy::cast_possible_truncation, reason = "positive, and at most 2^23")]
        let grown = (grown as u32).min(self.ceiling);
        (grown > room).then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_limit_grows_to_the_ceiling() {
        let budget = Budget::default().with_output_ceiling(150);
        assert_eq!(budget.grown(50), Some(100));
        assert_eq!(budget.grown(100), Some(150));
        assert_eq!(budget.grown(150), None);
        assert_eq!(Budget::default().with_multiplier(1.0).grown(50), None);
        assert_eq!(Budget::default().with_multiplier(f64::NAN).multiplier(), 2.0);
        assert_eq!(Budget::default().with_attempts(0).attempts(), 1);
        assert_eq!(Budget::default().with_attempts(99).attempts(), MAX_ATTEMPTS);
    }
}
