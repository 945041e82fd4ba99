//! The contracts: the structure of artifacts by kind.

use std::sync::LazyLock;

use crate::workflow::compiled::ContractPack;

/// One file for each contract, sorted by reference.
const SOURCES: [&str; 11] = [
    include_str!("../../../bundled/contracts/assessment.json"),
    include_str!("../../../bundled/contracts/capability_observation.json"),
    include_str!("../../../bundled/contracts/coding_handoff.json"),
    include_str!("../../../bundled/contracts/coordinator_signal.json"),
    include_str!("../../../bundled/contracts/differentiation_handoff.json"),
    include_str!("../../../bundled/contracts/discovery_handoff.json"),
    include_str!("../../../bundled/contracts/gate_verdict.json"),
    include_str!("../../../bundled/contracts/loop_control.json"),
    include_str!("../../../bundled/contracts/review_verdict.json"),
    include_str!("../../../bundled/contracts/shaping_handoff.json"),
    include_str!("../../../bundled/contracts/workflow_divergence.json"),
];

static CONTRACTS: LazyLock<Vec<ContractPack>> = LazyLock::new(|| {
    SOURCES
        .iter()
        .map(|source| {
            serde_json::from_str(source).expect("a bundled contract is a contract; a test reads each")
        })
        .collect()
});

/// All contracts, sorted by reference.
pub fn contracts() -> &'static [ContractPack] {
    &CONTRACTS
}

/// The contract of a reference such as `wr.contracts.review_verdict`.
pub fn contract(contract_ref: &str) -> Option<&'static ContractPack> {
    let found = CONTRACTS.binary_search_by(|pack| pack.contract_ref.as_str().cmp(contract_ref)).ok()?;
    Some(&CONTRACTS[found])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_found_by_reference_and_named_after_their_kind() {
        assert!(contracts().is_sorted_by(|one, other| one.contract_ref < other.contract_ref));
        for pack in contracts() {
            assert_eq!(contract(&pack.contract_ref), Some(pack));
            let name = pack.contract_ref.strip_prefix("wr.contracts.").unwrap();
            assert_eq!(pack.artifact_kind, format!("wr.{name}"));
            assert_eq!(pack.schema["properties"]["kind"]["const"], pack.artifact_kind);
            assert_eq!(pack.schema["additionalProperties"], false, "{name} is a strict object");
            assert!(
                !pack.guidance.is_empty() && pack.guidance.iter().all(|line| line.len() <= 256),
                "{name}"
            );
        }
        assert_eq!(contract("wr.contracts.unheard_of"), None);
    }
}
