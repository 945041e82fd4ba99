//! What the program that serves the console says of its own settings.

/// Settings as they are written now, beside those that the process began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Every setting.
    pub settings: Vec<Setting>,
    /// Why what is written now cannot be read. Then nothing is known to be desired.
    pub problem: Option<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, as it is written in the file.
    pub name: &'static str,
    /// What the process runs with.
    pub applied: Stated,
    /// What it would run with if it began now; nothing when that cannot be read.
    pub desired: Option<Stated>,
}

/// A value, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The value in words, a line each. Never a secret: those are named by their reference.
    pub value: Vec<String>,
    /// Where it came from.
    pub origin: String,
}

impl Setting {
    /// Whether something else is desired than is applied. Where it came from does not count.
    pub fn is_pending(&self) -> bool {
        self.desired.as_ref().is_some_and(|desired| desired.value != self.applied.value)
    }
}
