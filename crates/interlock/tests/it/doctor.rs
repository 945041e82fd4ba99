//! `interlock doctor`.

use serde_json::Value;

use crate::house::House;

fn check<'d>(document: &'d Value, name: &str) -> &'d Value {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
}

#[test]
fn everything_is_well_at_home() {
    let house = House::new();
    house.complete_session("be well");
    let document = house.json(&["doctor"], 0);
    assert_eq!(document["well"], true);
    for (name, expected) in [
        ("readable", ""),
        ("writable", ""),
        ("format", "version 1"),
        ("keyring", "key_"),
        ("index", "bytes"),
        ("sessions", "1, all healthy"),
        ("workflows", "sources"),
    ] {
        let check = check(&document, name);
        assert_eq!(check["state"], "ok", "{name}");
        assert!(check["found"].as_str().unwrap().contains(expected), "{name}: {check}");
    }
    let words = house.expect(&["doctor"], 0);
    assert!(words.contains("environment INTERLOCK_HOME"), "{words}");
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let house = House::new();
    house.complete_session("be hurt");
    std::fs::write(house.data_dir().join("format.json"), "{\"version\":2}").unwrap();
    let document = house.json(&["doctor"], 1);
    let format = check(&document, "format");
    assert_eq!(format["state"], "fail");
    assert!(format["found"].as_str().unwrap().contains("STORE_NEWER_VERSION"), "{format}");
    std::fs::write(house.data_dir().join("format.json"), "{\"version\":1}").unwrap();
    std::fs::write(house.workspace().join("workflows/broken.json"), "{").unwrap();
    assert_eq!(check(&house.json(&["doctor"], 0), "workflows")["state"], "warn");
}
