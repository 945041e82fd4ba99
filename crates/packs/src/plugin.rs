//! Which parts of a front end a host shows, and what they may ask for.
//!
//! A pack of plugins can be installed on a host that shows none of them: a surface or a method that the host does not have
//! makes a plugin inert, never wrong.

use std::collections::BTreeSet;

use crate::manifest::{HostMethod, PluginSurface, UiPlugin};

/// What a host does for plugins.
#[derive(Clone, Debug)]
pub struct PluginHost {
    /// The surfaces that it shows.
    pub surfaces: BTreeSet<PluginSurface>,
    /// The methods that it answers.
    pub methods: BTreeSet<HostMethod>,
    /// The most bytes of an entry that it loads.
    pub max_entry_bytes: usize,
}

/// What becomes of a plugin on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginState {
    /// It is shown, and may call these methods: those that it declared and the host answers.
    Shown(BTreeSet<HostMethod>),
    /// It is installed, and not shown.
    Inert(InertReason),
}

/// Why a plugin is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InertReason {
    /// The host does not have its surface.
    Surface,
    /// The host does not answer a method that it declared.
    Method,
    /// Its entry has more bytes than the host loads.
    EntryTooLarge,
}

impl PluginHost {
    /// What becomes of a plugin whose entry has so many bytes.
    pub fn judge(&self, plugin: &UiPlugin, entry_bytes: usize) -> PluginState {
        if !self.surfaces.contains(&plugin.surface) {
            return PluginState::Inert(InertReason::Surface);
        }
        if entry_bytes > self.max_entry_bytes {
            return PluginState::Inert(InertReason::EntryTooLarge);
        }
        let declared: BTreeSet<HostMethod> = plugin.host_api.iter().copied().collect();
        if !declared.is_subset(&self.methods) {
            return PluginState::Inert(InertReason::Method);
        }
        PluginState::Shown(declared)
    }

    /// Whether a plugin may call a method: it declared it, and the host answers it. Everything else is never carried out.
    pub fn may_call(&self, plugin: &UiPlugin, method: HostMethod) -> bool {
        plugin.host_api.contains(&method) && self.methods.contains(&method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_the_host_cannot_show_is_inert() {
        let host = PluginHost {
            surfaces: [PluginSurface::Route].into(),
            methods: [HostMethod::HostToast, HostMethod::ArtifactRead].into(),
            max_entry_bytes: 10,
        };
        let plugin = |surface, host_api: &[HostMethod]| UiPlugin {
            plugin_id: "x".to_owned(),
            surface,
            entry: "x.html".to_owned(),
            host_api: host_api.to_vec(),
            connect_src: Vec::new(),
        };
        let shown = plugin(PluginSurface::Route, &[HostMethod::HostToast]);
        assert_eq!(host.judge(&shown, 10), PluginState::Shown([HostMethod::HostToast].into()));
        assert_eq!(host.judge(&shown, 11), PluginState::Inert(InertReason::EntryTooLarge));
        let elsewhere = plugin(PluginSurface::SettingsPanel, &[]);
        assert_eq!(host.judge(&elsewhere, 1), PluginState::Inert(InertReason::Surface));
        let writes = plugin(PluginSurface::Route, &[HostMethod::ArtifactWrite]);
        assert_eq!(host.judge(&writes, 1), PluginState::Inert(InertReason::Method));
        assert!(host.may_call(&shown, HostMethod::HostToast));
        assert!(
            !host.may_call(&shown, HostMethod::ArtifactRead),
            "the host answers it, and the plugin did not declare it"
        );
        assert!(!host.may_call(&writes, HostMethod::ArtifactWrite));
    }
}
