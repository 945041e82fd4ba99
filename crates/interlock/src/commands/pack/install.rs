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
use super::{locked, now, source, trust_policy, usage};
use crate::arguments::{PackInstall, PackList, PackRemove};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, Layout, Table, WARNING};
use crate::settings::Settings;

pub(super) const FOLDER: &str = "packs";

/// The verification that applies to everything a command installs.
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

    /// Checks one archive, including its expected digest if given.
    fn one(&self, archive: &[u8], expected: Option<Integrity>) -> Result<InstalledRecord, PackError> {
        Ok(self.packs.install(&self.request(archive, expected))?.record)
    }

    /// Checks an archive from a registry as if `first` were installed, without writing anything.
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

    /// Installs an archive from a registry.
    pub(super) fn one_of(&self, pack: &LockedPack, archive: &[u8]) -> Result<InstalledRecord, PackError> {
        let request = self.request(archive, Some(pack.integrity));
        Ok(self.packs.install_as(&pack.name, &pack.version, &request)?.record)
    }
}

pub(super) fn install(arguments: &PackInstall, settings: &Settings) -> Result<ExitStatus, Failure> {
    if arguments.locked.is_none() && arguments.registry.is_empty() && !arguments.api_keys.is_empty() {
        return Err(usage("--api-key requires a registry; name one with --registry"));
    }
    let lock = arguments.locked.as_deref().map(locked::read).transpose()?;
    let policy = trust_policy::policy(arguments, lock.as_ref())?;
    let expected = arguments
        .expect
        .as_deref()
        .map(Integrity::parse_header)
        .transpose()
        .map_err(|error| usage(&error.to_string()))?;
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    // Only the server that runs the packs knows its capabilities; it checks again when it loads
    // them.
    let host = executors::installed::host_facts(settings.plugins_listen.value.is_some());
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
                format!("Installed {GOOD}{name}@{version}{GOOD:#}, {}.", proof(record).0)
            })
            .collect();
        let plugins = records.iter().filter(|record| record.kind == PackKind::FrontendPlugin);
        lines.extend(plugins.map(|InstalledRecord { name, .. }| {
            format!(
                "{WARNING}warning{WARNING:#}: plugins of {name} can send the data they read to any address through WebRTC, regardless of \
                 `connectSrc`. Use only plugins that you trust with that data; see docs/concepts/ui-plugins.md."
            )
        }));
        output::text(&lines.join("\n"))?;
    }
    Ok(ExitStatus::Success)
}

/// Reads the named archive. A pack name that is not a file requires a registry.
fn archive(source: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(source);
    if wanted(source).is_some() && !path.exists() {
        return Err(usage(&format!(
            "file `{source}` not found; if it is a pack name, name a registry with --registry URL|DIR"
        )));
    }
    source::archive(path)
}

pub(super) fn list(arguments: &PackList, settings: &Settings) -> Result<ExitStatus, Failure> {
    let installed = InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?;
    // A damaged pack is listed and does not hide the others.
    let (records, unreadable) = installed.survey()?;
    let mut changed = Vec::new();
    for InstalledRecord { name, version, .. } in records.iter().filter(|_| arguments.verify) {
        if let Err(error) = installed.load(name, version, true) {
            changed.push(DamagedPack { name: name.clone(), version: version.clone(), error });
        }
    }
    let damaged = || unreadable.iter().chain(&changed);
    let answer = ExitStatus::success_if(damaged().next().is_none());
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
        output::text(&"No packs installed. Install one with `interlock pack install`.")?;
        return Ok(answer);
    }
    let mut words = table(&records, &unreadable).to_string();
    for DamagedPack { error, .. } in damaged() {
        words.push_str(&format!("\n{BAD}damaged{BAD:#}: {}", output::clean(error.message())));
    }
    output::text(&words)?;
    Ok(answer)
}

/// The installed packs by name and version, including unreadable ones.
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

pub(super) fn remove(arguments: &PackRemove, settings: &Settings) -> Result<ExitStatus, Failure> {
    let parts = arguments.pack.split_once('@');
    let parsed =
        parts.and_then(|(name, number)| Some((PackName::parse(name).ok()?, version::parse(number)?)));
    let Some((name, number)) = parsed else {
        return Err(usage(&format!(
            "`{}` is not a pack name and version, such as vendor.acme.tools@1.2.0",
            arguments.pack
        )));
    };
    InstalledPacks::open(&settings.data_dir.value.join(FOLDER))?.remove(&name, &number)?;
    if arguments.answering.json {
        output::json(&json!({"removed": format!("{name}@{number}")}), Layout::Compact)?;
    } else {
        output::text(&format!("Removed {name}@{number}."))?;
    }
    Ok(ExitStatus::Success)
}

fn summary(record: &InstalledRecord) -> serde_json::Value {
    json!({
        "name": record.name, "version": record.version, "kind": record.kind, "integrity": record.integrity,
        "proof": record.proof, "installedAt": record.installed_at, "degraded": record.degraded, "files": record.files.len(),
    })
}

/// The verification result as text.
fn proof(record: &InstalledRecord) -> (String, anstyle::Style) {
    match &record.proof {
        Proof::Signed { key_id } => (format!("signed by {key_id}"), GOOD),
        Proof::SelfSigned { fingerprint } => (format!("signed by its own key {fingerprint}"), WARNING),
        Proof::Unsigned => ("not signed".to_owned(), DIM),
    }
}
