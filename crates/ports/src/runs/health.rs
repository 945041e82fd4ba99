//! The health of a store.

/// Reports damage.
pub trait Health {
    /// Whether a read found data that differs from what was written. Damage stays until an operator restores a backup.
    fn is_damaged(&self) -> bool;
}
