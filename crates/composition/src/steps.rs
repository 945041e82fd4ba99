//! The eighteen steps, one module each, in the order in which they run.

pub(crate) mod s01_shape;
pub(crate) mod s02_sources;
pub(crate) mod s03_runtime;
pub(crate) mod s04_keys;
pub(crate) mod s05_grammar;
pub(crate) mod s06_default_policy;
pub(crate) mod s07_gate;
pub(crate) mod s08_fallbacks;
pub(crate) mod s09_policy;
pub(crate) mod s10_hide_and_replace;
pub(crate) mod s11_path_aliases;
pub(crate) mod s12_route_conflicts;
pub(crate) mod s13_renderer_overrides;
pub(crate) mod s14_claim_conflicts;
pub(crate) mod s15_references;
pub(crate) mod s16_reorder;
pub(crate) mod s17_render_handles;
pub(crate) mod s18_emit;
