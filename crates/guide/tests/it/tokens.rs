//! Tokens, keyrings and derived ids stay the same in every later version.
//!
//! `golden/tokens/v1.json` was written once. Members may be added; none may change.

use std::collections::BTreeMap;

use guide::derive::{self, Cause};
use guide::record::{EventIndex, WorkflowHash};
use guide::token::{self, AckPayload, CheckpointPayload, Keyring, Position, ShortToken, StatePayload, Token};
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("../golden/tokens/v1.json");

fn position() -> Position {
    let session_id = derive::session_id(&[0x11; 16]);
    let run_id = derive::run_id(&session_id, 0);
    let node_id = derive::root_node_id(&session_id, &run_id);
    let attempt_id = derive::attempt_id(&session_id, &node_id, 0);
    Position { session_id, run_id, node_id, attempt_id }
}

fn tokens() -> [Token; 3] {
    let Position { session_id, run_id, node_id, attempt_id: ack } = position();
    let checkpoint = derive::checkpoint_attempt_id(&session_id, &node_id, 0);
    [
        Token::State(StatePayload {
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            node_id: node_id.clone(),
            workflow_hash: WorkflowHash::of_bytes(b"workflow"),
        }),
        Token::Ack(AckPayload {
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            node_id: node_id.clone(),
            attempt_id: ack,
        }),
        Token::Checkpoint(CheckpointPayload { session_id, run_id, node_id, attempt_id: checkpoint }),
    ]
}

fn keyring() -> Keyring {
    Keyring::new([0x22; 32]).rotate([0x33; 32])
}

/// All fixed values, as this version computes them.
fn computed() -> Value {
    let position = position();
    let Position { session_id: session, run_id: run, node_id: root, attempt_id: attempt } = &position;
    let next = derive::advance_node_id(session, run, root, attempt);
    let (start, caused) = (Cause::Start(run), Cause::Attempt(attempt));
    let ids: BTreeMap<&str, String> = BTreeMap::from([
        ("session", session.to_string()),
        ("event 0", derive::event_id(session, EventIndex(0)).to_string()),
        ("event 41", derive::event_id(session, EventIndex(41)).to_string()),
        ("run 0", run.to_string()),
        ("run 1", derive::run_id(session, 1).to_string()),
        ("root node", root.to_string()),
        ("next node", next.to_string()),
        ("checkpoint node", derive::checkpoint_node_id(session, run, root, attempt).to_string()),
        ("attempt 0", attempt.to_string()),
        ("attempt 1", derive::attempt_id(session, root, 1).to_string()),
        ("retry of the next node", derive::retry_attempt_id(session, &next).to_string()),
        ("checkpoint attempt 0", derive::checkpoint_attempt_id(session, root, 0).to_string()),
        ("recap", derive::recap_output_id(attempt).to_string()),
        ("artifact 0", derive::artifact_output_id(attempt, 0).to_string()),
        ("gap 0", derive::gap_id(caused, 0).to_string()),
        ("gap 0 of the start", derive::gap_id(start, 0).to_string()),
        ("trace", derive::trace_id(caused).to_string()),
        ("context of the start", derive::context_id(start).to_string()),
        ("context", derive::context_id(caused).to_string()),
        ("preference change", derive::preference_change_id(caused)),
        ("validation 0", derive::validation_id(attempt, 0)),
        ("capability observation 0", derive::capability_observation_id(attempt, 0)),
        ("divergence 0", derive::divergence_id(attempt, 0)),
    ]);
    let [state, ack, checkpoint] = tokens().map(|token| token::mint(&keyring(), &token));
    let digest =
        ShortToken::position_digest(&position).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({
        "keyring": keyring().encode(),
        "fingerprint": keyring().current.fingerprint(),
        "ids": ids,
        "stateToken": state,
        "ackToken": ack,
        "checkpointToken": checkpoint,
        "continueToken": token::mint_short(&keyring(), &position),
        "positionDigest": digest,
    })
}

#[test]
fn fixed_values_do_not_change() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let computed = computed();
    for (name, value) in golden.as_object().unwrap() {
        assert_eq!(computed.get(name), Some(value), "{name}");
    }
}

#[test]
fn old_tokens_are_still_read() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let text = |name: &str| golden[name].as_str().unwrap();
    let keyring = Keyring::decode(text("keyring").as_bytes()).unwrap();
    let rotated = keyring.clone().rotate([0x44; 32]);
    for keyring in [&keyring, &rotated] {
        for (name, token) in ["stateToken", "ackToken", "checkpointToken"].iter().zip(tokens()) {
            assert_eq!(token::verify(keyring, text(name)).unwrap(), token, "{name}");
        }
        let digest = token::verify_short(keyring, text("continueToken")).unwrap();
        assert_eq!(digest, ShortToken::position_digest(&position()));
    }
}
