//! `interlock pack install`, `list` and `remove`.

use std::path::Path;

use packs::archive::Limits;
use packs::install::{DamagedPack, HostFacts, Install, InstalledPacks, InstalledRecord};
use packs::integrity::Integrity;
use packs::kind::PackKind;
use packs::lock::LockedPack;
use packs::name::PackName;
use packs::trust::{Proof, TrustPolicy};
use packs::{PackError, version};
use serde_json::json;

use super::registry::wanted;
use super::{locked, now, source, trusted, usage};
use crate::arguments::{PackInstall, PackList, PackRemove};
use crate::failure::{Answer, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, Layout, Table, WARNING};
use crate::settings::Settings;

/// The folder of installed packs in the data directory.
pub(super) const FOLDER: &str = "packs";

/// What everything that a command installs is judged by.
pub(super) struct Installing<'a> {
    packs: &'a InstalledPacks,
    policy: &'a TrustPolicy,
    host: &'a HostFacts,
}

impl Installing<'_> {
    fn request<'r>(&'r self, archive: &'r [u8], expected: Option<Integrity>) -> Install<'r> {
        let Self { policy, host, .. } = self;
        Install { archive, expected, policy, host, limits: Limits::DEFAULT, now: now() }
    }

    /// One archive, of the bytes that were announced where somebody did.
    fn one(&self, archive: &[u8], expected: Option<Integrity>) -> Result<InstalledRecord, PackError> {
        Ok(self.packs.install(&self.request(archive, expected))?.record)
    }

    /// Judges an archive that a registry gave for a pack that was chosen, as if those of `first` were installed, and writes nothing.
    pub(super) fn judge(
        &self,
        pack: &LockedPack,
        first: &[&LockedPack],
        archive: &[u8],
    ) -> Result<(), PackError> {
        let first: Vec<_> = first.iter().map(|pack| (&pack.name, &pack.version)).collect();
        let request = self.request(archive, Some(pack.integrity));
        self.packs.judge_after(&first, &pack.name, &pack.version, &request)
    }

    /// Installs an archive that a registry gave for a pack that was chosen.
    pub(super) fn one_of(&self, pack: &LockedPack, archive: &[u8]) -> Result<InstalledRecord, PackError> {
        let request = self.request(archive, Some(pack.integrity));
        Ok(self.packs.install_as(&pack.name, &pack.version, &request)?.record)
    }
}

pub(super) fn install(arguments: &PackInstall, settings: &Settings) -> Result<Answer, Failure> {
    if arguments.locked.is_none() && arguments.registry.is_empty() && !arguments.api_keys.is_empty() {
        return Err(usage("a key is given, and no registry that it could be for; name one with --registry"));
    }
    let lock = arguments.locked.as_deref().map(locked::read).transpose()?;
    let policy = trusted::policy(arguments, lock.as_ref())?;
    let expected = arguments
        .expect
        .as_deref()
        .map(Integrity::parse_header)
        .transpose()
        .map_err(|error| usage(&error.to_string()))?;
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    // Which capabilities there are only the server knows that runs the packs; it judges again when it loads them.
    let host = host::hands::installed::host_facts(settings.plugins_listen.value.is_some());
    let installing = Installing { packs: &installed, policy: &policy, host: &host };
    let source = arguments.source.as_deref().unwrap_or_default();
    let records = match &lock {
        Some(lock) => locked::exactly(lock, arguments, settings, &installing)?,
        None if arguments.registry.is_empty() => vec![installing.one(&archive(source)?, expected)?],
        None => locked::resolved(source, expected, arguments, settings, &installing)?,
    };
    if arguments.answering.json {
        output::json(
            &json!({"installed": records.iter().map(summary).collect::<Vec<_>>()}),
            Layout::Compact,
        )?;
    } else {
        let mut lines: Vec<String> = records
            .iter()
            .map(|record| {
                let (name, version) = (&record.name, &record.version);
                format!("{GOOD}{name}@{version}{GOOD:#} is installed, {}.", proof(record).0)
            })
            .collect();
        let plugins = records.iter().filter(|record| record.kind == PackKind::FrontendPlugin);
        lines.extend(plugins.map(|InstalledRecord { name, .. }| {
            format!(
                "{WARNING}warning{WARNING:#}: plugins of {name} can send what they read to any address, through WebRTC, whatever \
                 `connectSrc` lists. Use only plugins that you trust with that data; see docs/concepts/ui-plugins.md."
            )
        }));
        output::text(&lines.join("\n"))?;
    }
    Ok(Answer::Yes)
}

/// The archive that is named. A name of a pack that is no file needs somebody who is asked for it.
fn archive(source: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(source);
    if wanted(source).is_some() && !path.exists() {
        return Err(usage(&format!(
            "there is no file `{source}`; where it is a name, say who is asked for it with --registry URL|DIR"
        )));
    }
    source::archive(path)
}

pub(super) fn list(arguments: &PackList, settings: &Settings) -> Result<Answer, Failure> {
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    // One that cannot be used hides neither the others nor itself.
    let (records, unreadable) = installed.survey()?;
    let mut changed = Vec::new();
    for InstalledRecord { name, version, .. } in records.iter().filter(|_| arguments.verify) {
        if let Err(error) = installed.load(name, version, true) {
            changed.push(DamagedPack { name: name.clone(), version: version.clone(), error });
        }
    }
    let damaged = || unreadable.iter().chain(&changed);
    let answer = Answer::yes_if(damaged().next().is_none());
    if arguments.answering.json {
        let damaged: Vec<_> = damaged()
            .map(|DamagedPack { name, version, error }| {
                let pack = format!("{name}@{version}");
                json!({"pack": pack, "code": error.code().as_str(), "message": error.message()})
            })
            .collect();
        let records: Vec<_> = records.iter().map(summary).collect();
        output::json(&json!({"packs": records, "damaged": damaged}), Layout::Compact)?;
        return Ok(answer);
    }
    if records.is_empty() && unreadable.is_empty() {
        output::text(
            &"No pack is installed. `interlock pack install` takes an archive, or a name and a registry.",
        )?;
        return Ok(answer);
    }
    let mut words = table(&records, &unreadable).to_string();
    for DamagedPack { error, .. } in damaged() {
        words.push_str(&format!("\n{BAD}damaged{BAD:#}: {}", output::clean(error.message())));
    }
    output::text(&words)?;
    Ok(answer)
}

/// What is installed, by name and version, with those of which nothing more is known.
fn table(records: &[InstalledRecord], unreadable: &[DamagedPack]) -> Table {
    let known = records.iter().map(|record| {
        let (words, style) = proof(record);
        let cells =
            [record.kind.as_str().into(), Cell::styled(words, style), record.files.len().to_string().into()];
        (&record.name, &record.version, cells)
    });
    let unknown = unreadable
        .iter()
        .map(|pack| (&pack.name, &pack.version, ["".into(), Cell::styled("damaged", BAD), "".into()]));
    let mut rows: Vec<_> = known.chain(unknown).collect();
    rows.sort_by_key(|(name, version, _)| (*name, *version));
    let mut table = Table::new(&["pack", "version", "kind", "signed", "files"]);
    for (name, version, cells) in rows {
        table.row([name.as_str().into(), version.to_string().into()].into_iter().chain(cells));
    }
    table
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
