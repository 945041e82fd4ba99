//! Prompts of installed packs.

use std::collections::BTreeMap;
use std::path::Path;

use ai::prompt::PromptRef;
use ai::prompt::library::Library;
use canon::time::Timestamp;
use executors::installed;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::trust::TrustPolicy;
use serde_json::{Value, json};

fn install(root: &Path, version: &str, prompts: &Value) {
    let manifest = json!({
        "name": "vendor.acme.prompts", "version": version, "kind": "prompt", "engines": {"openwop": "^1.0.0"}, "prompts": prompts,
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let files = BTreeMap::from([(EntryPath::parse("pack.json").unwrap(), (manifest.as_slice(), false))]);
    let install = Install {
        archive: &packs::archive::write(&files).unwrap(),
        expected: None,
        policy: &TrustPolicy::open(),
        host: &HostFacts::default(),
        limits: Limits::default(),
        now: Timestamp(0),
    };
    InstalledPacks::open(root).unwrap().install(&install).unwrap();
}

fn prompt(version: &str, text: &str) -> Value {
    json!([{
        "templateId": "support.voice", "version": version, "kind": "system", "text": text,
        "variables": [{"name": "tone", "type": "string", "required": false, "defaultValue": "kind"}],
    }])
}

#[test]
fn the_prompts_of_the_highest_version_are_found_under_the_name_of_their_pack() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "1.0.0", &prompt("1.0.0", "Be kind."));
    install(folder.path(), "1.10.0", &prompt("1.2.0", "Be {{tone}}."));
    install(folder.path(), "1.9.0", &prompt("1.1.0", "Be polite."));
    let (templates, unserved) = installed::prompts(&InstalledPacks::open(folder.path()).unwrap()).unwrap();
    assert_eq!(unserved, Vec::new());
    let mut library = Library::new("host");
    templates.into_iter().for_each(|template| library.add(template));
    let found = library.find(&PromptRef::parse("prompt:support.voice").unwrap()).unwrap();
    assert_eq!((found.version.as_str(), found.text.as_str()), ("1.2.0", "Be {{tone}}."));
    assert_eq!(found.pack.as_deref(), Some("vendor.acme.prompts"));
    assert!(library.find(&PromptRef::parse("prompt:support.voice@1.0.0").unwrap()).is_err());
    let none = tempfile::tempdir().unwrap();
    let (templates, _) = installed::prompts(&InstalledPacks::open(none.path()).unwrap()).unwrap();
    assert!(templates.is_empty());
}
