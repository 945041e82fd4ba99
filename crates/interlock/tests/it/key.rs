//! `interlock key`.

use ports::wait;

use crate::home::TestHome;

#[test]
fn keys_are_listed_by_fingerprint_and_rotated() {
    let test_home = TestHome::new();
    assert!(test_home.expect(&["key", "list"], 0).contains("No signing key yet"));
    assert_eq!(test_home.json(&["key", "list"], 0)["current"], serde_json::Value::Null);
    let first = test_home.json(&["key", "rotate"], 0);
    let second = test_home.json(&["key", "rotate"], 0);
    assert_eq!(first["previous"], serde_json::Value::Null);
    assert_eq!(second["previous"], first["current"]);
    assert_ne!(second["current"], first["current"]);
    let listed = test_home.json(&["key", "list"], 0);
    assert_eq!((&listed["current"], &listed["previous"]), (&second["current"], &second["previous"]));
    assert_eq!(listed["apiKeys"], serde_json::json!([]));
    let words = test_home.expect(&["key", "list"], 0);
    assert!(words.contains(second["current"].as_str().unwrap()), "{words}");
    let secret: serde_json::Value =
        serde_json::from_slice(&std::fs::read(test_home.data_dir().join("keys/keyring.json")).unwrap())
            .unwrap();
    for output in [
        words,
        second.to_string(),
        test_home.expect(&["doctor"], 0),
        test_home.json(&["doctor"], 0).to_string(),
    ] {
        assert!(!output.contains(secret["current"].as_str().unwrap()), "keys are never shown");
    }
}

#[test]
fn a_token_survives_one_rotation_but_not_two() {
    let test_home = TestHome::new();
    let (_, reply) = test_home.start("rotate under me");
    test_home.expect(&["key", "rotate"], 0);
    let reply = test_home.advance(&reply, "Still good.", Vec::new());
    test_home.expect(&["key", "rotate"], 0);
    test_home.expect(&["key", "rotate"], 0);
    let refused =
        wait(test_home.guided().checkpoint(reply.checkpoint_token.as_deref().unwrap(), None)).unwrap_err();
    assert_eq!(refused.envelope().code(), "TOKEN_BAD_SIGNATURE");
}

#[test]
fn an_unreadable_keyring_is_an_error() {
    let test_home = TestHome::new();
    test_home.expect(&["key", "rotate"], 0);
    std::fs::write(test_home.data_dir().join("keys/keyring.json"), "{}").unwrap();
    assert_eq!(test_home.json(&["key", "list"], 2)["code"], "KEYRING_INVALID");
    assert!(test_home.expect(&["doctor"], 1).contains("fail  keyring"));
}

#[test]
fn api_keys_are_created_listed_and_revoked() {
    let test_home = TestHome::new();
    let first = test_home.json(&["key", "new", "--scope", "runs:read", "--expires", "30d"], 0);
    let other = test_home.json(&["key", "new-api-key", "--tenant", "acme"], 0);
    let listed = test_home.json(&["key", "list"], 0);
    let keys = listed["apiKeys"].as_array().unwrap();
    assert_eq!((&keys[0]["id"], &keys[0]["status"]), (&first["id"], &serde_json::json!("valid")));
    assert_eq!(
        (&keys[0]["scopes"], &keys[1]["tenant"]),
        (&serde_json::json!(["runs:read"]), &serde_json::json!("acme"))
    );
    assert!(keys[0]["expiresAt"].is_string() && keys[1]["expiresAt"].is_null());

    let id = other["id"].as_str().unwrap();
    assert_eq!(test_home.json(&["key", "revoke", id], 2)["code"], "CONFIRMATION_REQUIRED");
    assert_eq!(
        test_home.json(&["key", "revoke", id, "--tenant", "default", "--yes"], 1)["code"],
        "KEY_UNKNOWN"
    );
    assert_eq!(test_home.json(&["key", "revoke", id, "--yes"], 0)["tenant"], "acme");
    test_home.json(&["key", "revoke", id, "--yes"], 0);
    let listed = test_home.json(&["key", "list"], 0);
    assert_eq!(listed["apiKeys"][1]["status"], "revoked");
    assert_eq!(listed["apiKeys"][0]["status"], "valid", "the other key is not affected");
    let words = test_home.expect(&["key", "list"], 0);
    for key in [&first, &other] {
        assert!(words.contains(key["id"].as_str().unwrap()), "{words}");
        assert!(!words.contains(key["key"].as_str().unwrap()), "keys are never shown");
    }
}
