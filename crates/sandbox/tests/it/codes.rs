//! Fault codes.

use std::collections::BTreeSet;

use sandbox::{Breach, EscapeKind, Fault, FaultCode, Status};

#[test]
fn codes_are_unique_and_well_formed() {
    let codes: BTreeSet<&str> = FaultCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), FaultCode::ALL.len());
    assert!(codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    let kinds: BTreeSet<&str> = EscapeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(kinds.len(), EscapeKind::ALL.len());
}

#[test]
fn statuses_match_the_protocol() {
    let numbers: Vec<i32> = Status::ALL.iter().map(|status| status.as_i32()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 10, 11, 20, 99]);
}

#[test]
fn details_match_the_protocol() {
    let rows = [
        (Fault::from(Breach::Memory { limit: 5, requested: Some(7) }), "requestedBytes"),
        (Fault::from(Breach::Time { limit_ms: 5, elapsed_ms: 6 }), "kind"),
        (Fault::Escape { kind: EscapeKind::Network, import: "a.b".to_owned() }, "escapeKind"),
        (Fault::CapabilityDenied { name: "x".to_owned() }, "requestedCapability"),
        (Fault::CompileTimeout { limit_ms: 5 }, "limitMs"),
        (Fault::Killed, "message"),
    ];
    for (fault, detail) in rows {
        assert!(fault.details().contains_key(detail), "{fault}");
        assert_eq!(fault.details()["message"], fault.to_string());
    }
}

#[test]
fn observed_exceeds_the_limit() {
    for breach in [
        Breach::Memory { limit: 5, requested: None },
        Breach::Memory { limit: 5, requested: Some(6) },
        Breach::Memory { limit: 5, requested: Some(5) },
        Breach::Time { limit_ms: 5, elapsed_ms: 4 },
        Breach::Time { limit_ms: 5, elapsed_ms: 5 },
        Breach::Fuel { limit: 5 },
    ] {
        assert!(breach.observed() > breach.limit(), "{breach}");
    }
}
