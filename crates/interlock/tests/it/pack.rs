//! `interlock pack`, from a new pack to an installed one.

mod installing;
mod servers;

use std::path::Path;

use serde_json::Value;

use crate::program::{run, text};

/// Runs a command on a data directory and returns its exit code and JSON.
fn pack(home: &Path, arguments: &[&str]) -> (i32, Value) {
    let home = home.join("data");
    let mut all = vec!["pack"];
    all.extend(arguments);
    all.extend(["--json", "--data-dir", home.to_str().unwrap()]);
    let output = run(&all, b"");
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error}: {}{}", text(&output.stdout), text(&output.stderr))
    });
    (output.status.code().unwrap(), document)
}

#[test]
fn a_new_pack_is_signed_published_and_installed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    let (dir, key, public, registry, tgz) =
        (at("tools"), at("acme.pem"), at("acme.pem.pub"), at("registry"), at("tools.tgz"));
    assert_eq!(pack(home, &["new", "vendor.acme.tools", &dir]).0, 0);
    assert_eq!(pack(home, &["new", "vendor.acme.tools", &dir]).1["code"], "OUTPUT_EXISTS");
    let (code, made) = pack(home, &["sign", "--new-key", &key]);
    assert_eq!(code, 0);
    assert_eq!(pack(home, &["sign", "--new-key", &key]).0, 1, "an existing key is never overwritten");
    assert_eq!(pack(home, &["verify", &dir]).0, 1, "not signed yet");
    assert_eq!(pack(home, &["sign", &dir, "--key", &key]).0, 0);
    let (code, checked) = pack(home, &["check", &dir, "--output", &tgz]);
    assert_eq!((code, &checked["name"]), (0, &Value::from("vendor.acme.tools")));
    assert_eq!(checked["signing"], format!("signed by {}", made["fingerprint"].as_str().unwrap()));
    let (code, proof) = pack(home, &["verify", &tgz, "--key", &public]);
    assert_eq!((code, &proof["proof"]["kind"]), (0, &Value::from("signed")), "{proof}");
    assert_eq!(pack(home, &["publish", &tgz, "--registry", &registry]).1["outcome"], "published");
    assert_eq!(
        pack(home, &["publish", &dir, "--registry", &registry]).1["outcome"],
        "already published with the same contents"
    );
    let lock = at("pack-lock.json");
    let (code, installed) = pack(
        home,
        &[
            "install",
            "vendor.acme.tools@^0.1",
            "--registry",
            &registry,
            "--key",
            &public,
            "--lockfile",
            &lock,
        ],
    );
    assert_eq!(code, 0, "{installed}");
    assert!(std::fs::read_to_string(&lock).unwrap().contains(checked["integrity"].as_str().unwrap()));
    assert_eq!(pack(home, &["list", "--verify"]).1["packs"][0]["version"], "0.1.0");
    std::fs::write(home.join("data/packs/vendor.acme.tools/0.1.0/nodes.wasm"), b"changed").unwrap();
    let (code, listed) = pack(home, &["list", "--verify"]);
    assert_eq!((code, &listed["damaged"][0]["pack"]), (1, &Value::from("vendor.acme.tools@0.1.0")));
    assert_eq!(pack(home, &["remove", "vendor.acme.tools@0.1.0"]).0, 0);
    assert_eq!(pack(home, &["remove", "vendor.acme.tools@0.1.0"]).1["code"], "pack_not_found");
    assert_eq!(pack(home, &["list"]).1["packs"], serde_json::json!([]));
}

#[test]
fn verify_reports_what_the_signature_covers() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    let (dir, key, public) = (at("cards"), at("acme.pem"), at("acme.pem.pub"));
    assert_eq!(pack(home, &["new", "vendor.acme.cards", &dir, "--kind", "card"]).0, 0);
    let (_, unsigned) = pack(home, &["verify", &dir]);
    assert_eq!(unsigned["covers"], Value::Null);
    let said = |more: &[&str]| {
        let output = run(&[&["pack", "verify", &dir][..], more].concat(), b"");
        (output.status.code(), text(&output.stdout))
    };
    assert_eq!(said(&[]), (Some(1), "vendor.acme.cards@0.1.0 is not signed.\n".to_owned()));
    assert_eq!(pack(home, &["sign", "--new-key", &key]).0, 0);
    assert_eq!(pack(home, &["sign", &dir, "--key", &key]).0, 0);
    for (more, proven) in [(&["--key", &*public][..], "signed"), (&[][..], "self-signed")] {
        let (_, signed) = pack(home, &[&["verify", &dir][..], more].concat());
        assert_eq!(signed["covers"], "pack.json");
        let (code, words) = said(more);
        assert_eq!(code, Some(0));
        assert!(words.starts_with(&format!("pack.json of vendor.acme.cards@0.1.0 is {proven}")), "{words}");
        assert!(words.contains("covers only pack.json"), "{words}");
        assert!(words.contains(signed["integrity"].as_str().unwrap()), "{words}");
    }
    // Changing another file keeps the signature valid and changes the digest, so both are printed.
    let (_, before) = pack(home, &["verify", &dir, "--key", &public]);
    std::fs::write(home.join("cards/README.md"), "changed").unwrap();
    let (code, after) = pack(home, &["verify", &dir, "--key", &public]);
    assert_eq!((code, &after["proof"]), (0, &before["proof"]));
    assert_ne!(after["integrity"], before["integrity"]);
}

#[test]
fn a_damaged_pack_is_listed_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    for name in ["vendor.acme.first", "vendor.acme.good", "vendor.acme.last"] {
        let dir = home.join(name).to_str().unwrap().to_owned();
        assert_eq!(pack(home, &["new", name, &dir, "--kind", "card"]).0, 0);
        assert_eq!(pack(home, &["install", &dir]).0, 0);
    }
    let data = home.join("data");
    let record = |name: &str| data.join("packs").join(name).join("0.1.0/.interlock/installed.json");
    let listed = |more: &[&str]| {
        let (code, listed) = pack(home, &[&["list"][..], more].concat());
        let names = |list: &str, member: &str| {
            let list = listed[list].as_array().unwrap().iter();
            list.map(|pack| pack[member].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        (code, names("packs", "name"), names("damaged", "pack"), names("damaged", "code"))
    };
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();

    std::fs::write(record("vendor.acme.first"), "{").unwrap();
    let (good, damaged) = (["vendor.acme.good", "vendor.acme.last"], ["vendor.acme.first@0.1.0"]);
    let expected = (1, owned(&good), owned(&damaged), owned(&["pack_load_failure"]));
    assert_eq!(listed(&[]), expected);
    // An unreadable file does not hide the other packs, like an unreadable record.
    let manifest = data.join("packs/vendor.acme.last/0.1.0/pack.json");
    std::fs::remove_file(&manifest).unwrap();
    std::fs::create_dir(&manifest).unwrap();
    assert_eq!(listed(&[]), expected, "files are read only on request");
    let (code, names, damaged, _) = listed(&["--verify"]);
    assert_eq!((code, names), (1, owned(&good)));
    assert_eq!(damaged, ["vendor.acme.first@0.1.0", "vendor.acme.last@0.1.0"]);

    let shown = || {
        let output = run(&["pack", "list", "--data-dir", data.to_str().unwrap()], b"");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let words = shown();
    let row = |name: &str| words.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("vendor.acme.first").contains("damaged"), "{words}");
    assert!(row("vendor.acme.good").contains("not signed"), "{words}");
    assert!(words.contains("damaged: the record of vendor.acme.first@0.1.0 is unusable"), "{words}");
    // A damaged pack is listed even if it is the only one.
    for name in ["vendor.acme.good@0.1.0", "vendor.acme.last@0.1.0"] {
        assert_eq!(pack(home, &["remove", name]).0, 0);
    }
    assert!(shown().contains("vendor.acme.first"));
    assert_eq!(pack(home, &["remove", "vendor.acme.first@0.1.0"]).0, 0, "it can be removed");
    assert_eq!(listed(&[]), (0, vec![], vec![], vec![]));
}

#[test]
fn every_new_pack_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["node", "workflow-chain", "prompt", "artifact-type", "card", "connection", "frontend-plugin"]
    {
        let dir = folder.path().join(kind).to_str().unwrap().to_owned();
        assert_eq!(
            pack(folder.path(), &["new", "community.me.example", &dir, "--kind", kind]).0,
            0,
            "{kind}"
        );
        let (code, checked) = pack(folder.path(), &["check", &dir]);
        assert_eq!((code, &checked["kind"]), (0, &Value::from(kind)), "{checked}");
    }
}

#[test]
fn pack_problems_have_a_location() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tools");
    let shown = dir.to_str().unwrap();
    pack(folder.path(), &["new", "vendor.acme.tools", shown]);
    let manifest = std::fs::read_to_string(dir.join("pack.json")).unwrap();
    std::fs::write(
        dir.join("pack.json"),
        manifest.replace("\"category\": \"data\"", "\"category\": \"fun\""),
    )
    .unwrap();
    let (code, checked) = pack(folder.path(), &["check", shown]);
    assert_eq!((code, &checked["problems"][0]["pointer"]), (1, &Value::from("/nodes/0/category")));
    let output = run(&["pack", "check", shown], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("/nodes/0/category"), "{}", text(&output.stdout));
    std::fs::write(dir.join("pack.json"), manifest).unwrap();
    std::fs::remove_file(dir.join("nodes.wasm")).unwrap();
    assert_eq!(pack(folder.path(), &["check", shown]).1["problems"][0]["code"], "tarball_entry_missing");
    std::os::unix::fs::symlink("/etc/passwd", dir.join("nodes.wasm")).unwrap();
    assert_eq!(pack(folder.path(), &["check", shown]).0, 2, "links are rejected");
    assert_eq!(pack(folder.path(), &["check", "/nowhere/at/all"]).1["code"], "INPUT_UNREADABLE");
    assert_eq!(pack(folder.path(), &["install", "tools", "--registry", shown]).0, 2);
}
