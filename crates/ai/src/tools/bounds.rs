//! How much of everything a conversation with tools may have.

/// How often a model may want tools when nobody says otherwise.
pub const DEFAULT_ROUNDS: u32 = 8;
/// How often it may at most, whatever anybody says.
pub const MAX_ROUNDS: u32 = 32;

/// The bounds of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most rounds, from one to [`MAX_ROUNDS`]: what is beyond counts as that.
    pub rounds: u32,
    /// The most calls of one reply that are made.
    pub calls_per_round: usize,
    /// The most arguments of one call, in bytes.
    pub argument_bytes: usize,
    /// The most of one result that the model is shown, in bytes.
    pub result_bytes: usize,
    /// The most that is said to and by tools altogether, in bytes.
    pub total_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rounds: DEFAULT_ROUNDS,
            calls_per_round: 16,
            argument_bytes: 64 << 10,
            result_bytes: 64 << 10,
            total_bytes: 1 << 20,
        }
    }
}

impl Bounds {
    /// The rounds that there are.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.clamp(1, MAX_ROUNDS)
    }

    pub(super) fn rounds_spent(&self) -> String {
        format!(
            "the model still wanted tools after {} rounds; `maxRounds` of the node is at most {MAX_ROUNDS}",
            self.rounds()
        )
    }

    pub(super) fn bytes_spent(&self, bytes: usize) -> String {
        format!(
            "what was said to and by tools has {bytes} bytes; a conversation has at most {}",
            self.total_bytes
        )
    }
}
