//! Tamper evidence: `session verify` with chains and tokens, and signed bundles.

use std::path::{Path, PathBuf};

use canon::digest::Digest;
use serde_json::json;

use crate::home::TestHome;

fn session_dir(home: &TestHome, id: &str) -> PathBuf {
    home.data_dir().join("sessions").join(id)
}

/// Edits a note in its segment and computes the digest in the manifest again.
fn forge(dir: &Path, before: &str, after: &str) {
    assert_eq!(before.len(), after.len(), "the length in the manifest stays right");
    let segments = std::fs::read_dir(dir.join("events")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segments
        .into_iter()
        .find(|path| std::fs::read_to_string(path).unwrap().contains(before))
        .expect("a segment has the note");
    let honest = std::fs::read_to_string(&segment).unwrap();
    let forged = honest.replace(before, after);
    let manifest = std::fs::read_to_string(dir.join("manifest.jsonl")).unwrap();
    let digest = |text: &str| Digest::of_bytes(text.as_bytes()).to_string();
    std::fs::write(&segment, &forged).unwrap();
    std::fs::write(dir.join("manifest.jsonl"), manifest.replace(&digest(&honest), &digest(&forged))).unwrap();
}

/// The finding that `session verify` passed an edited note whose digest was computed again.
#[test]
fn an_edited_note_is_detected_although_every_digest_is_right() {
    let home = TestHome::new();
    let id = home.complete_session("fix the gate");
    let verified = home.json(&["session", "verify", "--require-chain"], 0);
    assert_eq!(verified["sessions"][0]["chain"], json!({"state": "intact", "begunAtEvent": 0}));
    forge(&session_dir(&home, id.as_str()), "Looked at it.", "Never looked.");
    assert!(home.expect(&["session", "show", id.as_str()], 0).contains("Never looked."), "the digests agree");
    let verified = home.json(&["session", "verify"], 1);
    let entry = &verified["sessions"][0];
    assert_eq!((&entry["sound"], &entry["health"]), (&json!(false), &json!("healthy")), "{entry}");
    assert_eq!(entry["chain"], json!({"state": "broken", "reason": "chain_mismatch"}));
    assert_eq!(
        (&entry["problems"][0]["code"], &entry["problems"][0]["file"]),
        (&json!("chain_mismatch"), &json!("chain.jsonl"))
    );
    let words = home.expect(&["session", "verify"], 1);
    assert!(words.contains("chain_mismatch in chain.jsonl: events "), "{words}");
    let (key, bundle) = (home.path("key.pem"), home.path("bundle.json"));
    let (key, bundle) = (key.to_str().unwrap(), bundle.to_str().unwrap());
    home.expect(&["pack", "sign", "--new-key", key], 0);
    let refused = home.json(&["session", "export", id.as_str(), "-o", bundle, "--sign", key], 1);
    assert_eq!(
        refused["code"], "BUNDLE_SIGNATURE_INVALID",
        "a signature would vouch for the edit: {refused}"
    );
    let output = home.run(&["session", "export", id.as_str(), "-o", bundle]);
    assert!(
        output.status.success() && crate::program::text(&output.stderr).contains("chain_mismatch"),
        "{output:?}"
    );
}

#[test]
fn a_session_of_an_older_version_has_no_chain_which_is_said_and_can_be_refused() {
    let home = TestHome::new();
    let (id, first) = home.start("fix the gate");
    std::fs::remove_file(session_dir(&home, id.as_str()).join("chain.jsonl")).unwrap();
    let words = home.expect(&["session", "verify"], 0);
    assert!(words.contains("1 have no chain yet"), "{words}");
    assert_eq!(home.json(&["session", "verify"], 0)["sessions"][0]["chain"], json!({"state": "missing"}));
    let refused = home.json(&["session", "verify", "--require-chain"], 1);
    assert_eq!(refused["sessions"][0]["problems"][0]["code"], "chain_missing");
    home.advance(&first, "Looked at it.", Vec::new());
    let words = home.expect(&["session", "verify"], 0);
    assert!(words.contains("intact from event "), "{words}");
    let refused = home.json(&["session", "verify", "--require-chain"], 1);
    assert_eq!(refused["sessions"][0]["problems"][0]["code"], "chain_begun_late");
}

/// Cut back exactly as a crash would leave it, a log has no trace of the lost step. Its tokens are the trace.
#[test]
fn a_truncated_log_is_detected_by_a_token_that_names_what_is_missing() {
    let home = TestHome::new();
    let (id, first) = home.start("fix the gate");
    let dir = session_dir(&home, id.as_str());
    let (manifest, chain) = (dir.join("manifest.jsonl"), dir.join("chain.jsonl"));
    let before = (std::fs::read(&manifest).unwrap(), std::fs::read(&chain).unwrap());
    let second = home.advance(&first, "Looked at it.", Vec::new());
    let tokens = [second.state_token.clone(), second.continue_token.clone().unwrap()];
    for token in &tokens {
        let found = home.json(&["session", "verify", "--token", token], 0);
        assert_eq!(found["tokens"], json!([{"number": 1, "found": true, "sessionId": id.as_str()}]));
    }
    std::fs::write(&manifest, before.0).unwrap();
    std::fs::write(&chain, before.1).unwrap();
    let _ = std::fs::remove_dir_all(home.data_dir().join("cache"));
    home.expect(&["session", "verify", "--require-chain"], 0);
    let found = home.json(&["session", "verify", "--token", &tokens[0]], 1);
    assert_eq!((&found["sound"], &found["sessions"][0]["sound"]), (&json!(false), &json!(true)));
    let token = &found["tokens"][0];
    assert_eq!((&token["code"], &token["sessionId"]), (&json!("TOKEN_UNKNOWN_NODE"), &json!(id.as_str())));
    assert!(token["message"].as_str().unwrap().contains("acknowledged steps are missing"), "{token}");
    let found = home.json(&["session", "verify", "--token", &tokens[1]], 1);
    assert!(found["tokens"][0]["message"].as_str().unwrap().contains("acknowledged steps are missing"));
    let words = home.expect(&["session", "verify", "--token", &tokens[0]], 1);
    assert!(words.contains("token 1") && !words.contains(&tokens[0]), "{words}");
    let forged = home.json(&["session", "verify", "--token", "ct_AAAAAAAAAAAAAAAAAAAAAAAA"], 1);
    assert_eq!(forged["tokens"][0]["code"], "TOKEN_BAD_SIGNATURE", "a forged token proves nothing");
}

#[test]
fn a_signed_bundle_is_imported_only_as_it_was_signed() {
    let (here, there) = (TestHome::new(), TestHome::new());
    let id = here.complete_session("cross the river");
    let (mine, other) = (here.path("mine.pem"), here.path("other.pem"));
    for key in [&mine, &other] {
        here.expect(&["pack", "sign", "--new-key", key.to_str().unwrap()], 0);
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (mine, mine_pub, other_pub) =
        (text(&mine), text(&here.path("mine.pem.pub")), text(&here.path("other.pem.pub")));
    let (plain, signed) = (text(&here.path("plain.json")), text(&here.path("signed.json")));
    here.expect(&["session", "export", id.as_str(), "-o", &plain], 0);
    let report = here.json(&["session", "export", id.as_str(), "-o", &signed, "--sign", &mine], 0);
    let signature = format!("{signed}.sig");
    assert_eq!(report["signature"]["file"], signature.as_str());
    assert_eq!(std::fs::read(&signature).unwrap().len(), 64);
    let import = |file: &str, key: &str, code| {
        there.json(&["session", "import", file, "--trusted-key", key], code)["code"].clone()
    };
    assert_eq!(import(&plain, &mine_pub, 1), "BUNDLE_SIGNATURE_INVALID", "not signed");
    assert_eq!(import(&signed, &other_pub, 1), "BUNDLE_SIGNATURE_INVALID", "another key");
    let bytes = std::fs::read(&signed).unwrap();
    let changed = here.path("changed.json");
    std::fs::write(&changed, [bytes.as_slice(), b"\n"].concat()).unwrap();
    std::fs::copy(&signature, format!("{}.sig", changed.display())).unwrap();
    assert_eq!(import(&text(&changed), &mine_pub, 1), "BUNDLE_SIGNATURE_INVALID", "one more byte");
    assert!(!there.data_dir().exists(), "nothing was imported");
    let done = there
        .json(&["session", "import", &signed, "--trusted-key", &other_pub, "--trusted-key", &mine_pub], 0);
    assert_eq!((&done["sessionId"], &done["signedBy"]), (&json!(id.as_str()), &report["signature"]["key"]));
    // An import begins a chain of its own, with the key of this installation.
    there.expect(&["session", "verify", "--require-chain"], 0);
    let copied = here.json(&["session", "import", &plain, "--as-new"], 0);
    assert!(copied.get("signedBy").is_none());
    let refused = here.refused(&["session", "export", id.as_str(), "-o", "-", "--sign", &mine], 2);
    assert!(refused.contains("needs a file"), "{refused}");
}
