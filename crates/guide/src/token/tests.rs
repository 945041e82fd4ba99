use proptest::prelude::*;

use super::*;
use crate::derive;

fn keyring() -> Keyring {
    Keyring::new([7; 32])
}

fn position() -> Position {
    let session_id = derive::session_id(&[1; 16]);
    let run_id = derive::run_id(&session_id, 0);
    let node_id = derive::root_node_id(&session_id, &run_id);
    let attempt_id = derive::attempt_id(&session_id, &node_id, 0);
    Position { session_id, run_id, node_id, attempt_id }
}

fn tokens() -> [Token; 3] {
    let Position { session_id, run_id, node_id, attempt_id } = position();
    let workflow_hash = WorkflowHash::of_bytes(b"workflow");
    [
        Token::State(StatePayload {
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            node_id: node_id.clone(),
            workflow_hash,
        }),
        Token::Ack(AckPayload {
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            node_id: node_id.clone(),
            attempt_id: attempt_id.clone(),
        }),
        Token::Checkpoint(CheckpointPayload { session_id, run_id, node_id, attempt_id }),
    ]
}

/// A correctly signed token with any payload: only an attacker with the key could create it.
fn signed(prefix: &str, payload: &str) -> String {
    let signature = keyring().current.sign(payload.as_bytes());
    format!("{prefix}{}.{}", base64url::encode(payload.as_bytes()), base64url::encode(&signature))
}

#[test]
fn tokens_stay_valid_for_one_rotation() {
    let first = keyring();
    let second = first.clone().rotate([8; 32]);
    let third = second.clone().rotate([9; 32]);
    for token in tokens() {
        let text = mint(&first, &token);
        assert_eq!(verify(&first, &text).as_ref(), Ok(&token));
        assert_eq!(verify(&second, &text).as_ref(), Ok(&token));
        assert_eq!(verify(&third, &text), Err(TokenError::BadSignature { kind: token.kind() }));
        assert_ne!(mint(&second, &token), text);
    }
    let short = mint_short(&first, &position());
    let digest = ShortToken::position_digest(&position());
    assert_eq!(short.len(), SHORT_TOKEN_CHARACTERS);
    assert_eq!(verify_short(&first, &short), Ok(digest));
    assert_eq!(verify_short(&second, &short), Ok(digest), "the digest does not depend on the key");
    let refused = verify_short(&third, &short);
    assert_eq!(refused, Err(TokenError::BadSignature { kind: TokenKind::Continue }));
}

#[test]
fn invalid_tokens_are_rejected() {
    let [state, ack, _] = tokens();
    let good = mint(&keyring(), &state);
    let ack_text = mint(&keyring(), &ack);
    let payload = canonical::to_string(&Wire::from(&state)).unwrap();
    let (body, _) = good.rsplit_once('.').unwrap();
    let cases = [
        ("nothing", String::new(), TokenError::Shape),
        ("a word", "hello".into(), TokenError::Shape),
        ("only a prefix", "st.".into(), TokenError::Shape),
        ("no signature", body.to_owned(), TokenError::Shape),
        ("five parts", format!("{good}.x"), TokenError::Shape),
        ("a space in front", format!(" {good}"), TokenError::Shape),
        ("no such version", good.replace(".v1.", ".vx."), TokenError::Shape),
        (
            "a leading zero",
            good.replace(".v1.", ".v01."),
            TokenError::UnsupportedVersion { kind: TokenKind::State },
        ),
        (
            "a later version",
            good.replace(".v1.", ".v2."),
            TokenError::UnsupportedVersion { kind: TokenKind::State },
        ),
        ("of another form", "ack.v3.x".into(), TokenError::UnsupportedVersion { kind: TokenKind::Ack }),
        ("too long", format!("st.v1.{}", "A".repeat(1019)), TokenError::TooLong { measured: 1025 }),
        ("a line end", format!("{good}\n"), TokenError::Encoding),
        ("padding", format!("{good}="), TokenError::Encoding),
        ("an empty signature", format!("{body}."), TokenError::SignatureLength { measured: 0 }),
        ("a short signature", format!("{body}.AAAA"), TokenError::SignatureLength { measured: 3 }),
        (
            "the signature of another installation",
            format!("{body}.{}", base64url::encode(&[0; 32])),
            TokenError::BadSignature { kind: TokenKind::State },
        ),
        ("the short form", mint_short(&keyring(), &position()), TokenError::ShortForm),
        (
            "another prefix",
            good.replace("st.", "ack."),
            TokenError::OtherKind { wanted: TokenKind::Ack, given: TokenKind::State },
        ),
        ("signed white space", signed("st.v1.", &format!("{payload} ")), TokenError::Payload),
        ("signed, another order", signed("st.v1.", &reordered(&payload)), TokenError::Payload),
        (
            "signed, an unknown member",
            signed("st.v1.", &payload.replacen('{', r#"{"a":1,"#, 1)),
            TokenError::Payload,
        ),
        ("signed, fields of two kinds", signed("st.v1.", &with_attempt(&payload)), TokenError::Payload),
        (
            "signed, a later payload",
            signed("st.v1.", &payload.replace(r#""tokenVersion":1"#, r#""tokenVersion":2"#)),
            TokenError::UnsupportedVersion { kind: TokenKind::State },
        ),
        ("signed junk", signed("st.v1.", "[[[["), TokenError::Payload),
    ];
    for (name, text, expected) in cases {
        assert_eq!(verify(&keyring(), &text), Err(expected.clone()), "{name}");
        let envelope = expected.envelope();
        assert!(!envelope.suggestion().is_empty(), "{name}");
        assert!(text.len() < 20 || !envelope.to_string().contains(&text), "{name}: the token is repeated");
    }
    assert_eq!(verify(&keyring(), &ack_text), Ok(ack));
}

fn reordered(payload: &str) -> String {
    let (head, tail) = payload.split_once(",\"runId\"").unwrap();
    format!("{{\"runId\"{},{}}}", tail.strip_suffix('}').unwrap(), &head[1..])
}

fn with_attempt(payload: &str) -> String {
    payload.replacen('{', &format!(r#"{{"attemptId":"{}","#, position().attempt_id), 1)
}

#[test]
fn invalid_short_tokens_are_rejected() {
    let good = mint_short(&keyring(), &position());
    let bad_signature = TokenError::BadSignature { kind: TokenKind::Continue };
    let cases = [
        ("nothing", String::new(), TokenError::Shape),
        ("only a prefix", "ct_".into(), TokenError::ShortLength { measured: 3, expected: 27 }),
        ("cut", good[..26].to_owned(), TokenError::ShortLength { measured: 26, expected: 27 }),
        ("a line end", format!("{good}\n"), TokenError::ShortLength { measured: 28, expected: 27 }),
        ("another alphabet", format!("{}+", &good[..26]), TokenError::Encoding),
        ("wide text", format!("{}é", &good[..25]), TokenError::Encoding),
        ("zeros", format!("ct_{}", "A".repeat(24)), bad_signature.clone()),
        (
            "a long token",
            mint(&keyring(), &tokens()[1]),
            TokenError::OtherKind { wanted: TokenKind::Continue, given: TokenKind::Ack },
        ),
    ];
    for (name, text, expected) in cases {
        assert_eq!(verify_short(&keyring(), &text), Err(expected), "{name}");
    }
    for index in 3..good.len() {
        let mut flipped = good.clone().into_bytes();
        flipped[index] = if flipped[index] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        assert_eq!(verify_short(&keyring(), &flipped), Err(bad_signature.clone()), "{index}");
    }
}

#[test]
fn a_pair_must_name_one_node() {
    let [Token::State(state), Token::Ack(ack), _] = tokens() else { unreachable!() };
    assert_eq!(check_pair(&state, &ack), Ok(()));
    let other = AckPayload { run_id: derive::run_id(&ack.session_id, 1), ..ack };
    let refused = check_pair(&state, &other).unwrap_err();
    assert_eq!(refused.code(), TokenErrorCode::ScopeMismatch);
}

#[test]
fn every_code_is_produced_and_a_locked_session_can_be_retried() {
    let Position { session_id: session, run_id: run, node_id: node, .. } = position();
    let hash = WorkflowHash::of_bytes(b"");
    let errors = [
        TokenError::Shape,
        TokenError::UnsupportedVersion { kind: TokenKind::State },
        TokenError::BadSignature { kind: TokenKind::Ack },
        TokenError::ScopeMismatch { first: (session.clone(), run.clone()), second: (session.clone(), run) },
        TokenError::UnknownNode { session: session.clone(), node },
        TokenError::WorkflowHashMismatch { token: hash, pinned: hash },
        TokenError::SessionLocked { session },
    ];
    let codes: Vec<_> = errors.iter().map(TokenError::code).collect();
    assert_eq!(codes, TokenErrorCode::ALL);
    for error in errors {
        let after = (error.code() == TokenErrorCode::SessionLocked).then_some(250);
        assert_eq!(error.envelope().retry_hint().after_ms(), after, "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_panics(text in any::<String>(), prefix in "(st\\.v1\\.|ack\\.v1\\.|chk\\.v2\\.|ct_)?") {
        let text = format!("{prefix}{text}");
        prop_assert!(verify(&keyring(), &text).is_err());
        prop_assert!(verify_short(&keyring(), &text).is_err());
    }

    #[test]
    fn any_changed_character_is_detected(which in 0_usize..3, at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
        let token = tokens()[which].clone();
        let text = mint(&keyring(), &token);
        let at = at.index(text.len());
        let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
        prop_assert_eq!(verify(&keyring(), &changed).is_ok(), changed == text);
    }

    #[test]
    fn the_longest_ids_fit(body in "[A-Za-z0-9_-]{128}") {
        let token = Token::Ack(AckPayload {
            session_id: SessionId::parse(&format!("sess_{body}")).unwrap(),
            run_id: RunId::parse(&format!("run_{body}")).unwrap(),
            node_id: NodeId::parse(&format!("node_{body}")).unwrap(),
            attempt_id: AttemptId::parse(&format!("attempt_{body}")).unwrap(),
        });
        let text = mint(&keyring(), &token);
        prop_assert!(text.len() <= TOKEN_BYTES, "{} bytes", text.len());
        prop_assert_eq!(verify(&keyring(), &text), Ok(token));
    }
}
