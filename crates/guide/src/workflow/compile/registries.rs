//! The closed sets that the compiler uses.

use crate::workflow::{
    compiled::ContractPack,
    registry::{self, Feature},
};

/// Where the compiler finds contracts, features, reference texts and routines.
///
/// By default the methods use the bundled registries; tests override them.
pub trait Registries {
    fn contract(&self, contract_ref: &str) -> Option<&ContractPack> {
        registry::contract(contract_ref)
    }

    fn contract_refs(&self) -> Vec<String> {
        registry::contracts().iter().map(|pack| pack.contract_ref.clone()).collect()
    }

    fn feature(&self, id: &str) -> Option<&Feature> {
        registry::feature(id)
    }

    fn feature_ids(&self) -> Vec<String> {
        registry::features().iter().map(|feature| feature.id.to_owned()).collect()
    }

    /// The text of a `wr.refs.…` id.
    fn reference_text(&self, id: &str) -> Option<&str> {
        registry::reference_text(id)
    }

    /// All `wr.refs.…` ids.
    fn reference_ids(&self) -> Vec<String> {
        registry::reference_ids().map(str::to_owned).collect()
    }

    /// The source of a template, as JSON.
    fn routine(&self, template_id: &str) -> Option<&str> {
        registry::routine(template_id)
    }

    fn routine_ids(&self) -> Vec<String> {
        registry::routine_ids().map(str::to_owned).collect()
    }
}

/// The bundled registries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Registries for Builtin {}
