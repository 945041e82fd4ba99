//! The limits of a conversation with tools.

/// The default number of tool rounds.
pub const DEFAULT_ROUNDS: u32 = 8;
/// The maximum number of tool rounds.
pub const MAX_ROUNDS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tool rounds, from 1 to [`MAX_ROUNDS`]. Larger values are reduced to that.
    pub rounds: u32,
    /// Tool calls per reply.
    pub calls_per_round: usize,
    /// Size of the arguments of one call, in bytes.
    pub argument_bytes: usize,
    /// Size of the part of one result that the model sees, in bytes.
    pub result_bytes: usize,
    /// Total size of all arguments and results, in bytes.
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
    /// The effective number of rounds.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.clamp(1, MAX_ROUNDS)
    }

    pub(super) fn rounds_spent(&self) -> String {
        format!(
            "the model requested tools after {} rounds; increase `maxRounds` of the node (at most \
                {MAX_ROUNDS})",
            self.rounds()
        )
    }

    pub(super) fn bytes_spent(&self, bytes: usize) -> String {
        format!("tool arguments and results are {bytes} bytes in total; the limit is {}", self.total_bytes)
    }
}
