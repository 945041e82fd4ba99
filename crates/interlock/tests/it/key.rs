//! `interlock key`.

use crate::house::House;

#[test]
fn keys_are_listed_by_fingerprint_and_rotated() {
    let house = House::new();
    assert!(house.expect(&["key", "list"], 0).contains("no key yet"));
    assert_eq!(house.json(&["key", "list"], 0)["current"], serde_json::Value::Null);
    let first = house.json(&["key", "rotate"], 0);
    let second = house.json(&["key", "rotate"], 0);
    assert_eq!(first["previous"], serde_json::Value::Null);
    assert_eq!(second["previous"], first["current"]);
    assert_ne!(second["current"], first["current"]);
    assert_eq!(house.json(&["key", "list"], 0), second);
    let words = house.expect(&["key", "list"], 0);
    assert!(words.contains(second["current"].as_str().unwrap()), "{words}");
    let secret: serde_json::Value =
        serde_json::from_slice(&std::fs::read(house.data_dir().join("keys/keyring.json")).unwrap()).unwrap();
    for output in
        [words, second.to_string(), house.expect(&["doctor"], 0), house.json(&["doctor"], 0).to_string()]
    {
        assert!(!output.contains(secret["current"].as_str().unwrap()), "no key is ever shown");
    }
}

#[test]
fn a_token_outlives_one_rotation_and_not_two() {
    let house = House::new();
    let (_, reply) = house.start("rotate under me");
    house.expect(&["key", "rotate"], 0);
    let reply = house.advance(&reply, "Still good.", Vec::new());
    house.expect(&["key", "rotate"], 0);
    house.expect(&["key", "rotate"], 0);
    let refused = house.guided().checkpoint(reply.checkpoint_token.as_deref().unwrap(), None).unwrap_err();
    assert_eq!(refused.envelope().code(), "TOKEN_BAD_SIGNATURE");
}

#[test]
fn a_keyring_that_cannot_be_read_is_trouble() {
    let house = House::new();
    house.expect(&["key", "rotate"], 0);
    std::fs::write(house.data_dir().join("keys/keyring.json"), "{}").unwrap();
    assert_eq!(house.json(&["key", "list"], 2)["code"], "KEYRING_INVALID");
    assert!(house.expect(&["doctor"], 1).contains("fail  keyring"));
}
