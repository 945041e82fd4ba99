//! `interlock pack install`, `list` and `remove`.

use std::collections::BTreeSet;
use std::path::Path;

use packs::archive::Limits;
use packs::install::{Install, InstalledPacks, InstalledRecord};
use packs::integrity::Integrity;
use packs::lock::{LockedPack, Lockfile};
use packs::name::PackName;
use packs::resolve::{self, Request, Sources};
use packs::trust::{Proof, TrustPolicy};
use packs::{PackError, PackErrorCode, version};
use serde_json::json;

use super::registry::{Asked, wanted};
use super::{now, sign, source};
use crate::arguments::{PackInstall, PackList, PackRemove};
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, Layout, Overwrite, Table, WARNING};
use crate::settings::Settings;

/// The folder of installed packs in the data directory.
pub(super) const FOLDER: &str = "packs";

pub(super) fn install(arguments: &PackInstall, settings: &Settings) -> Result<Answer, Failure> {
    let keys = sign::trusted(&arguments.keys)?;
    let policy = if keys.is_empty() { TrustPolicy::open() } else { TrustPolicy::verified(keys) };
    let expected = arguments
        .expect
        .as_deref()
        .map(Integrity::parse_header)
        .transpose()
        .map_err(|error| usage(&error.to_string()))?;
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    // Which capabilities there are only the server knows that runs the packs; it judges again when it loads them.
    let host = host::hands::installed::host_facts(settings.plugins_listen.value.is_some());
    let one = |archive: &[u8], expected: Option<Integrity>| -> Result<InstalledRecord, PackError> {
        let request =
            Install { archive, expected, policy: &policy, host: &host, limits: Limits::DEFAULT, now: now() };
        Ok(installed.install(&request)?.record)
    };
    let path = Path::new(&arguments.source);
    let records = match &arguments.registry {
        None => vec![one(&source::archive(path)?, expected)?],
        Some(registry) => {
            let Some((name, range)) = wanted(&arguments.source) else {
                return Err(usage(&format!(
                    "`{}` is no name with a range, such as vendor.acme.tools@^1.2",
                    arguments.source
                )));
            };
            let asked = Asked::open(registry, settings)?;
            let request = Request { wanted: [(name, range)].into(), ..Request::default() };
            let lock = resolve::resolve(&request, &Sources(vec![&asked]), now())?;
            let records = from_lock(&lock, &asked, &one)?;
            if let Some(path) = &arguments.lockfile {
                output::write_file(path, &lock.write(), Overwrite::Replace)?;
            }
            records
        }
    };
    if arguments.answering.json {
        output::json(
            &json!({"installed": records.iter().map(summary).collect::<Vec<_>>()}),
            Layout::Compact,
        )?;
    } else {
        let lines: Vec<String> = records
            .iter()
            .map(|record| {
                let lacks = match record.degraded.as_slice() {
                    [] => String::new(),
                    missing => format!("; without {}, which this host does not give", missing.join(", ")),
                };
                format!(
                    "{GOOD}{}@{}{GOOD:#} is installed, {}{lacks}.",
                    record.name,
                    record.version,
                    proof(record).0
                )
            })
            .collect();
        output::text(&lines.join("\n"))?;
    }
    Ok(Answer::Yes)
}

/// Installs one archive, of the bytes that were announced where somebody did.
type InstallOne<'a> = dyn Fn(&[u8], Option<Integrity>) -> Result<InstalledRecord, PackError> + 'a;

/// Everything that was locked, each with the bytes that were.
fn from_lock(lock: &Lockfile, asked: &Asked, one: &InstallOne<'_>) -> Result<Vec<InstalledRecord>, Failure> {
    let mut records = Vec::new();
    for pack in needed_first(lock) {
        let archive = asked.archive(&pack.name, &pack.version)?;
        records.push(one(&archive, Some(pack.integrity))?);
    }
    Ok(records)
}

/// The locked packs, each after those that it needs. There is no circle in a lock that was resolved.
fn needed_first(lock: &Lockfile) -> Vec<&LockedPack> {
    let mut done: BTreeSet<&PackName> = BTreeSet::new();
    let mut ordered = Vec::new();
    while ordered.len() < lock.packs.len() {
        let before = ordered.len();
        for pack in &lock.packs {
            let ready = pack.dependencies.keys().all(|name| done.contains(name));
            if ready && done.insert(&pack.name) {
                ordered.push(pack);
            }
        }
        if ordered.len() == before {
            break;
        }
    }
    ordered
}

pub(super) fn list(arguments: &PackList, settings: &Settings) -> Result<Answer, Failure> {
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    let records = installed.list()?;
    let mut damaged = Vec::new();
    for record in records.iter().filter(|_| arguments.verify) {
        match installed.load(&record.name, &record.version, true) {
            Ok(_) => {}
            Err(error) if error.code() == PackErrorCode::LoadFailure => {
                damaged.push((format!("{}@{}", record.name, record.version), error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let answer = Answer::yes_if(damaged.is_empty());
    if arguments.answering.json {
        let damaged: Vec<_> =
            damaged.iter().map(|(pack, message)| json!({"pack": pack, "message": message})).collect();
        let records: Vec<_> = records.iter().map(summary).collect();
        output::json(&json!({"packs": records, "damaged": damaged}), Layout::Compact)?;
        return Ok(answer);
    }
    if records.is_empty() {
        output::text(
            &"No pack is installed. `interlock pack install` takes an archive, or a name and a registry.",
        )?;
        return Ok(answer);
    }
    let mut table = Table::new(&["pack", "version", "kind", "signed", "files"]);
    for record in &records {
        let (words, style) = proof(record);
        table.row([
            record.name.as_str().into(),
            record.version.to_string().into(),
            record.kind.as_str().into(),
            Cell::styled(words, style),
            record.files.len().to_string().into(),
        ]);
    }
    let mut words = table.to_string();
    for (_, message) in damaged {
        words.push_str(&format!("\n{BAD}damaged{BAD:#}: {}", output::clean(&message)));
    }
    output::text(&words)?;
    Ok(answer)
}

pub(super) fn remove(arguments: &PackRemove, settings: &Settings) -> Result<Answer, Failure> {
    let parts = arguments.pack.split_once('@');
    let parsed =
        parts.and_then(|(name, number)| Some((PackName::parse(name).ok()?, version::parse(number)?)));
    let Some((name, number)) = parsed else {
        return Err(usage(&format!(
            "`{}` is no name and version, such as vendor.acme.tools@1.2.0",
            arguments.pack
        )));
    };
    InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?.remove(&name, &number)?;
    if arguments.answering.json {
        output::json(&json!({"removed": format!("{name}@{number}")}), Layout::Compact)?;
    } else {
        output::text(&format!("{name}@{number} is removed."))?;
    }
    Ok(Answer::Yes)
}

fn summary(record: &InstalledRecord) -> serde_json::Value {
    json!({
        "name": record.name, "version": record.version, "kind": record.kind, "integrity": record.integrity,
        "proof": record.proof, "installedAt": record.installed_at, "degraded": record.degraded, "files": record.files.len(),
    })
}

/// What a pack proved, in words.
fn proof(record: &InstalledRecord) -> (String, anstyle::Style) {
    match &record.proof {
        Proof::Signed { key_id } => (format!("signed by {key_id}"), GOOD),
        Proof::SelfSigned { fingerprint } => (format!("signed by its own key {fingerprint}"), WARNING),
        Proof::Unsigned => ("not signed".to_owned(), DIM),
    }
}

fn usage(message: &str) -> Failure {
    canon::error::Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("See `interlock help pack install` for examples.")
        .into()
}
