//! Step 8: activate the fallback surfaces of modules that are not ready.

use crate::vocabulary::{FallbackStatus, NonReadyStatus, RuntimeStatus};

/// The status that a fallback surface matches, if it is active.
///
/// A module's fallback matches the module's status. A built-in has no status: it provides the product's entry point for
/// a concrete one, and `anyNonReady` never matches.
pub(crate) const fn matched_status(
    declared: FallbackStatus,
    module_status: Option<RuntimeStatus>,
) -> Option<NonReadyStatus> {
    match (module_status, declared) {
        (None, FallbackStatus::Concrete(status)) => Some(status),
        (None, FallbackStatus::AnyNonReady) => None,
        (Some(status), FallbackStatus::AnyNonReady) => status.non_ready(),
        (Some(status), FallbackStatus::Concrete(declared)) => match status.non_ready() {
            Some(status) if status as u8 == declared as u8 => Some(status),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_status_against_every_module_status() {
        let declared = NonReadyStatus::ALL.iter().copied().map(FallbackStatus::Concrete);
        for declared in declared.chain([FallbackStatus::AnyNonReady]) {
            for status in RuntimeStatus::ALL.iter().copied() {
                let names_it =
                    declared == FallbackStatus::AnyNonReady || declared.as_str() == status.as_str();
                let expected = status.non_ready().filter(|_| names_it);
                assert_eq!(matched_status(declared, Some(status)), expected, "{declared:?} on {status}");
            }
            let concrete = NonReadyStatus::parse(declared.as_str());
            assert_eq!(matched_status(declared, None), concrete, "{declared:?} of a built-in");
        }
    }
}
