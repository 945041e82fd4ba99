//! `interlock pack check`.

use executors::module_check::{self, Trouble};
use packs::archive::{Archive, Limits};
use packs::manifest::{Language, MANIFEST_PATH, Manifest, ManifestError};
use packs::publish::{self, PublishRequest, PublishRules};
use serde_json::{Value, json};

use super::source;
use crate::arguments::PackCheck;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, GOOD, Layout, Overwrite};

pub(super) fn run(arguments: &PackCheck) -> Result<ExitStatus, Failure> {
    let archive = source::archive(&arguments.source)?;
    let judged = judged(&archive);
    if let (Ok(_), Some(path)) = (&judged, &arguments.output) {
        output::write_file(path, &archive, Overwrite::Replace)?;
    }
    let answer = ExitStatus::success_if(judged.is_ok());
    match judged {
        Ok(found) if arguments.answering.json => output::json(&found, Layout::Compact)?,
        Ok(found) => {
            let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
            output::text(&format!(
                // The digest ends its line, so that it can be copied for `--expect`.
                "{GOOD}{}@{}{GOOD:#} is a pack of kind {}, {}.\nIntegrity: {}",
                text("name"),
                text("version"),
                text("kind"),
                text("signing"),
                text("integrity"),
            ))?;
        }
        Err(problems) if arguments.answering.json => {
            output::json(&json!({"valid": false, "problems": problems}), Layout::Compact)?;
        }
        Err(problems) => {
            let mut words = String::new();
            for problem in &problems {
                let text =
                    |name: &str| output::clean(problem[name].as_str().unwrap_or_default()).into_owned();
                let place = match text("pointer") {
                    pointer if pointer.is_empty() => String::new(),
                    pointer => format!("{pointer} "),
                };
                words.push_str(&format!("{BAD}{}{BAD:#}: {place}{}\n", text("code"), text("message")));
            }
            output::text(&words)?;
        }
    }
    Ok(answer)
}

/// The pack's summary, or all its problems.
fn judged(bytes: &[u8]) -> Result<Value, Vec<Value>> {
    let one = |code: &str, message: String| vec![json!({"code": code, "pointer": "", "message": message})];
    // Check the manifest first: it can have many problems, and publishing reports only the first.
    let read = Archive::read(bytes, &Limits::DEFAULT)
        .ok()
        .and_then(|archive| archive.file(MANIFEST_PATH).map(Manifest::read));
    if let Some(Err(ManifestError::Problems(problems))) = &read {
        let printed = problems.list().iter().map(
            |problem| json!({"code": problem.code, "pointer": problem.pointer, "message": problem.message}),
        );
        return Err(printed.collect());
    }
    let (name, version) = match read {
        Some(Ok(manifest)) => (manifest.common.name.to_string(), manifest.common.version.to_string()),
        // Problems are reported below, before the address matters.
        _ => ("core.unknown.pack".to_owned(), "0.0.0".to_owned()),
    };
    let request = PublishRequest {
        name: &name,
        version: &version,
        content_type: None,
        sha256: None,
        signing_method: None,
        body: bytes,
    };
    let accepted = publish::check(&request, &PublishRules::private()).map_err(|error| {
        let pointer = error.details.get("pointer").cloned().unwrap_or_default();
        let mut printed = one(error.code.as_str(), error.message);
        printed[0]["pointer"] = if pointer.is_null() { json!("") } else { pointer };
        printed
    })?;
    let troubles = troubles(&accepted.manifest, bytes);
    if !troubles.is_empty() {
        let printed = troubles.into_iter().map(
            |trouble| json!({"code": trouble.code, "pointer": trouble.pointer, "message": trouble.message}),
        );
        return Err(printed.collect());
    }
    Ok(json!({
        "valid": true, "name": name, "version": version, "kind": accepted.manifest.kind(),
        "integrity": accepted.integrity,
        "signing": accepted.signing_key.map_or_else(|| "unsigned".to_owned(), |key| format!("signed by {key}")),
    }))
}

/// The problem that prevents the pack's module from being served, if it has a module.
fn troubles(manifest: &Manifest, archive: &[u8]) -> Vec<Trouble> {
    let Some(runtime) = manifest.runtime().filter(|runtime| runtime.language == Language::Wasm) else {
        return Vec::new();
    };
    // A pack with only agents has no code to run.
    if manifest.type_ids().is_empty() {
        return Vec::new();
    }
    let archive = Archive::read(archive, &Limits::DEFAULT).ok();
    let module = archive.as_ref().and_then(|archive| archive.file(&runtime.entry));
    module.map(|module| module_check::try_module(manifest, module)).unwrap_or_default()
}
