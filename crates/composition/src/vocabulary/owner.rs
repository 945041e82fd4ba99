//! Owners of contributions.

use serde::Serialize;

use super::wire_names;

/// Whether an owner is part of the product or installed.
///
/// Declared in byte order of the wire names: built-in owner keys precede module owner keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// Part of the product.
    Builtin,
    /// One instance of an installed module.
    Module,
}

wire_names!(OwnerKind { Builtin => "builtin", Module => "module" });

/// The owner of a contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner<'i> {
    /// Built-in or module.
    pub owner_kind: OwnerKind,
    /// A module's instance id, or the reserved id of a built-in.
    pub owner_id: &'i str,
    /// The package it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_id: Option<&'i str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_version: Option<&'i str>,
}
