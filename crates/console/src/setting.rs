//! The host's settings, as shown on the settings page.

/// The settings as configured now, next to those in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    pub settings: Vec<Setting>,
    /// Why the current configuration cannot be read. If set, no configured values are known.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name as written in the settings file.
    pub name: &'static str,
    /// The value in use.
    pub applied: SettingValue,
    /// The value that a restart would apply; `None` if it cannot be read.
    pub desired: Option<SettingValue>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingValue {
    /// The value as text, one line each. Never a secret: secrets are shown by reference.
    pub value: Vec<String>,
    pub origin: String,
}

impl Setting {
    /// Whether the configured value differs from the value in use. The origin does not matter.
    pub fn is_pending(&self) -> bool {
        self.desired.as_ref().is_some_and(|desired| desired.value != self.applied.value)
    }
}
