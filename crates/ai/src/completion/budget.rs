//! How often a reply is asked for, and with how much room.

/// How often a reply is asked for when nobody says otherwise.
pub const DEFAULT_ATTEMPTS: u32 = 3;
/// How often a reply is asked for at the most.
pub const MAX_ATTEMPTS: u32 = 16;
/// The most room that a reply ever gets, in tokens.
pub const MAX_OUTPUT_TOKENS: u32 = 1 << 20;
/// How often a call is made again after a failure of the network, when nobody says otherwise.
const DEFAULT_FAILURES: u32 = 3;

/// A counter against its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// How many there were.
    pub current: u64,
    /// How many there may be.
    pub cap: u64,
}

impl Counter {
    /// Whether there may be no more.
    pub const fn is_reached(self) -> bool {
        self.current >= self.cap
    }

    /// The counter after some more.
    #[must_use]
    pub fn plus(self, more: u32) -> Self {
        Self { current: self.current.saturating_add(u64::from(more)), ..self }
    }
}

/// How often, and with how much room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    attempts: u32,
    multiplier: f64,
    ceiling: u32,
    /// How often a call is made again after a failure of the network.
    pub(super) failures: u32,
    /// The rounds of the run that every retry counts against.
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
    /// A budget of so many attempts, between 1 and [`MAX_ATTEMPTS`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.clamp(1, MAX_ATTEMPTS), ..self }
    }

    /// By how much the room grows after a reply that was cut off, between 1 and 8.
    #[must_use]
    pub fn with_multiplier(self, multiplier: f64) -> Self {
        let multiplier = if multiplier.is_finite() { multiplier.clamp(1.0, 8.0) } else { 2.0 };
        Self { multiplier, ..self }
    }

    /// The most room that a reply gets, in tokens.
    #[must_use]
    pub fn with_output_ceiling(self, ceiling: u32) -> Self {
        Self { ceiling: ceiling.clamp(1, MAX_OUTPUT_TOKENS), ..self }
    }

    /// The rounds of the run that every retry counts against.
    #[must_use]
    pub const fn with_schema_rounds(self, rounds: Counter) -> Self {
        Self { schema_rounds: Some(rounds), ..self }
    }

    /// How often a call is made again after a failure of the network.
    #[must_use]
    pub const fn with_failures(self, failures: u32) -> Self {
        Self { failures, ..self }
    }

    /// How often a reply is asked for.
    pub const fn attempts(self) -> u32 {
        self.attempts
    }

    /// By how much the room grows.
    pub const fn multiplier(self) -> f64 {
        self.multiplier
    }

    /// The most room that a reply gets.
    pub const fn output_ceiling(self) -> u32 {
        self.ceiling
    }

    /// More room than this; nothing where there is none.
    pub fn grown(self, room: u32) -> Option<u32> {
        let grown = (f64::from(room) * self.multiplier).ceil();
        // Both factors are bounded, and a cast saturates.
        #[expect(clippy::cast_possible_truncation, reason = "positive, and at most 2^23")]
        let grown = (grown as u32).min(self.ceiling);
        (grown > room).then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_up_to_the_ceiling_and_no_further() {
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
