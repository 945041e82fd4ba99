//! The state machines, pair by pair.

use serde_json::json;
use workspace::lifecycle::{
    JobState, LaunchFailureKind, MAX_RECOVERY_TRIES, PauseReason, Phase, RecoveryFailure, SessionState,
    State, StatusChanged, Thread, ThreadState, TurnState, Versioned, activate, after_failed_recovery,
    archive, message_resumes, pause, resume, transition,
};
use workspace::{Code, Error};

/// Requests every state from every state, and lists the legal transitions.
fn legal<S: State>(all: &[S]) -> Vec<String> {
    let mut legal = Vec::new();
    for from in all {
        for to in all {
            let stored = Versioned { state: *from, version: 3 };
            match transition(stored, stored, *to, "because") {
                Ok(done) if from == to => {
                    assert!(
                        !done.changed && done.next == stored && done.event.is_none(),
                        "applying it again changes nothing"
                    );
                }
                Ok(done) => {
                    assert!(done.changed && done.next.state == *to && done.next.version == 4);
                    let event = StatusChanged { from: *from, to: *to, reason: "because".into(), seq: 4 };
                    assert!(done.event == Some(event));
                    legal.push(format!("{} -> {}", from.name(), to.name()));
                }
                Err(refused) => {
                    assert_eq!(refused.code(), Code::LifecycleIllegalTransition);
                    assert_eq!(refused.details()["from"], from.name());
                    assert_eq!(refused.details()["to"], to.name());
                    let allowed: Vec<&str> = from.allowed().iter().map(|state| state.name()).collect();
                    assert_eq!(refused.details()["allowed"], json!(allowed));
                }
            }
        }
    }
    legal
}

#[test]
fn legal_session_transitions() {
    // Case 56: all 64 pairs.
    assert_eq!(SessionState::ALL.len(), 8);
    let expected = [
        "creating -> provisioning",
        "creating -> failed",
        "creating -> archived",
        "provisioning -> active",
        "provisioning -> failed",
        "provisioning -> archived",
        "active -> paused",
        "active -> completed",
        "active -> failed",
        "paused -> recovering",
        "paused -> completed",
        "paused -> archived",
        "recovering -> active",
        "recovering -> paused",
        "recovering -> failed",
        "completed -> archived",
        "failed -> archived",
    ];
    assert_eq!(legal(SessionState::ALL), expected);
    let terminal: Vec<&str> =
        SessionState::ALL.iter().filter(|state| state.is_terminal()).map(|state| state.as_str()).collect();
    assert_eq!(terminal, ["completed", "failed", "archived"]);
}

#[test]
fn legal_job_transitions() {
    let forwards = [
        ("queued", vec!["allocating"]),
        ("allocating", vec!["provisioning"]),
        ("provisioning", vec!["running"]),
        ("running", vec!["waiting", "collecting"]),
        ("waiting", vec!["running"]),
        ("collecting", vec!["succeeded"]),
    ];
    let expected: Vec<String> = forwards
        .iter()
        .flat_map(|(from, to)| {
            to.iter().chain(&["failed", "cancelled", "expired"]).map(move |to| format!("{from} -> {to}"))
        })
        .collect();
    assert_eq!(legal(JobState::ALL), expected);
    let terminal: Vec<&str> =
        JobState::ALL.iter().filter(|state| state.is_terminal()).map(|state| state.as_str()).collect();
    assert_eq!(terminal, ["succeeded", "failed", "cancelled", "expired"]);

    let linked: Vec<(&str, &str)> = SessionState::ALL
        .iter()
        .filter_map(|session| Some((session.as_str(), JobState::after_session(*session)?.as_str())))
        .collect();
    let expected =
        [("paused", "waiting"), ("completed", "collecting"), ("failed", "failed"), ("archived", "cancelled")];
    assert_eq!(linked, expected);
}

#[test]
fn legal_thread_and_turn_transitions() {
    assert_eq!(legal(ThreadState::ALL), ["active -> archived"]);
    let turns =
        ["idle -> executing", "executing -> idle", "executing -> interrupting", "interrupting -> idle"];
    assert_eq!(legal(TurnState::ALL), turns);

    let thread = |state, turn| Thread { state, turn };
    let idle = thread(ThreadState::Active, TurnState::Idle);
    let busy = thread(ThreadState::Active, TurnState::Executing);
    let gone = thread(ThreadState::Archived, TurnState::Idle);
    let cases = [
        ("one of two", vec![idle, idle], 1, true),
        ("beside a busy one", vec![busy, idle], 1, true),
        ("the last", vec![idle], 0, false),
        ("the last that is active", vec![gone, idle, gone], 1, false),
        ("a busy one", vec![idle, busy], 1, false),
        ("one that is gone", vec![idle, idle, gone], 2, false),
        ("none", vec![idle, idle], 2, false),
    ];
    for (name, threads, index, is_right) in cases {
        match archive(&threads, index) {
            Ok(state) => assert!(is_right && state == ThreadState::Archived, "{name}"),
            Err(refused) => {
                assert!(!is_right && refused.code() == Code::LifecycleIllegalTransition, "{name}: {refused}");
            }
        }
    }
}

#[test]
fn phases_only_advance_and_only_during_a_launch() {
    for (from_place, from) in Phase::ALL.iter().enumerate() {
        for (to_place, to) in Phase::ALL.iter().enumerate() {
            let over = matches!(from, Phase::Ready | Phase::Failed);
            let expected = from == to || (!over && to_place > from_place);
            for session in SessionState::ALL {
                let launched = matches!(session, SessionState::Provisioning | SessionState::Recovering);
                let result = from.advance(*to, *session);
                assert_eq!(result.is_ok(), launched && expected, "{from} to {to} while {session}");
                if let Err(refused) = result {
                    assert_eq!(refused.code(), Code::LifecycleIllegalTransition);
                }
            }
        }
    }
    for phase in Phase::ALL {
        for session in SessionState::ALL {
            let launched = matches!(session, SessionState::Provisioning | SessionState::Recovering);
            let expected = launched && *phase == Phase::Ready;
            assert_eq!(activate(*session, *phase).is_ok(), expected, "{session} in the phase {phase}");
        }
    }
}

#[test]
fn a_change_based_on_an_older_state_is_a_conflict() {
    use SessionState::{Active, Completed, Paused};
    let at = |state, version| Versioned { state, version };
    let cases = [
        ("as read", at(Active, 5), at(Active, 5), Paused, Ok(true)),
        ("another state", at(Paused, 6), at(Active, 5), Completed, Err(Code::LifecycleConflict)),
        ("there and back", at(Active, 7), at(Active, 5), Paused, Err(Code::LifecycleConflict)),
        (
            "illegal in any case",
            at(Active, 7),
            at(Paused, 6),
            SessionState::Creating,
            Err(Code::LifecycleConflict),
        ),
        ("what was wanted is there", at(Paused, 6), at(Active, 5), Paused, Ok(false)),
        ("the last version", at(Active, u64::MAX), at(Active, u64::MAX), Paused, Ok(true)),
    ];
    for (name, stored, read, to, expected) in cases {
        let result =
            transition(stored, read, to, "x").map(|done| done.changed).map_err(|error: Error| error.code());
        assert_eq!(result, expected, "{name}");
    }
    assert!(Code::LifecycleConflict.is_retryable());
}

#[test]
fn pausing_requires_an_active_session_with_idle_threads() {
    let idle = Thread { state: ThreadState::Active, turn: TurnState::Idle };
    let turns = [TurnState::Executing, TurnState::Interrupting];
    for state in SessionState::ALL {
        for reason in PauseReason::ALL {
            assert_eq!(
                pause(*state, &[idle], *reason).is_ok(),
                *state == SessionState::Active,
                "{state} {reason}"
            );
        }
        assert_eq!(resume(*state).is_ok(), *state == SessionState::Paused, "{state}");
    }
    for turn in turns {
        let busy = [idle, Thread { state: ThreadState::Active, turn }];
        for reason in [PauseReason::User, PauseReason::Idle] {
            let refused = pause(SessionState::Active, &busy, reason).unwrap_err();
            assert_eq!(refused.details()["error"], "session_busy");
        }
        let lost = pause(SessionState::Active, &busy, PauseReason::AllocationLost);
        assert_eq!(lost, Ok(SessionState::Paused), "without a worker nothing is busy");
        let put_away = [idle, Thread { state: ThreadState::Archived, turn }];
        assert!(
            pause(SessionState::Active, &put_away, PauseReason::User).is_ok(),
            "threads that are put away do not count"
        );
    }
    assert!(message_resumes(SessionState::Paused, PauseReason::AllocationLost));
    assert!(!message_resumes(SessionState::Paused, PauseReason::User));
    assert!(!message_resumes(SessionState::Active, PauseReason::AllocationLost));
}

#[test]
fn a_failed_recovery_is_retried_while_it_can_succeed() {
    for bits in 0..8 {
        let [retryable, snapshot_whole, critical_drift] = [1, 2, 4].map(|bit| bits & bit != 0);
        for tries in 1..=MAX_RECOVERY_TRIES + 1 {
            let failure = RecoveryFailure { retryable, snapshot_whole, critical_drift };
            let again = retryable && snapshot_whole && !critical_drift && tries <= 3;
            let expected = if again { SessionState::Paused } else { SessionState::Failed };
            assert_eq!(after_failed_recovery(failure, tries), expected, "{failure:?} {tries}");
        }
    }
}

#[test]
fn every_code_maps_to_a_launch_failure() {
    let expected = |code: Code| match code.as_str() {
        "SNAPSHOT_CORRUPT" => "workspace_snapshot_corrupt",
        "LIFECYCLE_ILLEGAL_TRANSITION" => "illegal_transition",
        "LIFECYCLE_CONFLICT" => "launch_unclassified",
        "LIMIT_EXCEEDED" => "provision_failed",
        text => match text.split('_').next().unwrap() {
            "SNAPSHOT" => "workspace_restore_failed",
            "DISPATCH" => "launch_selection_invalid",
            "PLAN" | "RESOLVE" | "APPLY" | "LEASE" => "provision_failed",
            "VALIDATION" | "MANIFEST" | "BIND" | "SURFACE" | "COMPOSE" | "UNKNOWN" | "ENV" | "DRIFT"
            | "SKILL" | "TEMPLATE" => "config_resolution_failed",
            other => panic!("{other} is of no group"),
        },
    };
    for code in Code::ALL {
        assert_eq!(LaunchFailureKind::of(*code).as_str(), expected(*code), "{code}");
    }
    assert_eq!(LaunchFailureKind::ALL.len(), 16);
}

#[test]
fn states_serialize_by_name() {
    for state in SessionState::ALL {
        let written = serde_json::to_value(state).unwrap();
        assert_eq!(written, state.as_str());
        assert_eq!(serde_json::from_value::<SessionState>(written).unwrap(), *state);
    }
    assert!(serde_json::from_value::<SessionState>(json!("Active")).is_err());
    let done = transition(
        Versioned { state: JobState::Queued, version: 0 },
        Versioned { state: JobState::Queued, version: 0 },
        JobState::Allocating,
        "dispatched",
    )
    .unwrap();
    let expected = json!({
        "changed": true, "next": {"state": "allocating", "version": 1},
        "event": {"from": "queued", "to": "allocating", "reason": "dispatched", "seq": 1},
    });
    assert_eq!(serde_json::to_value(&done).unwrap(), expected);
}
