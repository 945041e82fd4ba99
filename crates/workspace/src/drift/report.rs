//! The report of a scan.

use std::time::Duration;

use serde::Serialize;

use super::kind::{Kind, Location, Severity};
use super::{Disrepair, Level};
use crate::index::{self, Header, Line, LineKind};
use crate::rooted::{self, Stat};

/// The most listed drifts. All are counted, and the most severe are listed first.
pub const MAX_LISTED: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of this format, 1.
    pub schema: u32,
    /// The applied plan.
    pub apply_id: String,
    /// The generation of the lease.
    pub generation: u64,
    pub level: Level,
    pub scanned: Scanned,
    /// The drifts, sorted by path.
    pub drifts: Vec<Drift>,
    /// The number of drifts, listed or not.
    pub counts: Counts,
    /// Whether some are not listed. Those are never more severe than listed ones.
    pub truncated: bool,
    pub verdict: Verdict,
    pub duration_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scanned {
    /// Files, links and everything else except directories.
    pub files: u64,
    pub dirs: u64,
    pub bytes: u64,
    /// Files whose bytes were read.
    pub hashed: u64,
}

/// The number of drifts by severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Allowed for the agent.
    pub info: u64,
    /// Worth knowing.
    pub warning: u64,
    /// The workspace does not match the plan.
    pub critical: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The path below the root. Bytes that are not UTF-8 are replaced.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_key: Option<String>,
    pub kind: Kind,
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<EntryFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<EntryFacts>,
}

/// One side of a drift: only the facts that its kind is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryFacts {
    /// `file`, `dir`, `link`, or `other` for devices, pipes and sockets.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub what: Option<&'static str>,
    /// The permission bits, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The hash of the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    /// The target of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The system's error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl EntryFacts {
    pub(super) fn line_kind(line: &Line) -> Self {
        Self { what: Some(line.kind.as_str()), ..Self::default() }
    }

    pub(super) fn stat_kind(stat: &Stat) -> Self {
        let what = match stat.kind {
            rooted::Kind::File => LineKind::File.as_str(),
            rooted::Kind::Dir => LineKind::Dir.as_str(),
            rooted::Kind::Link => LineKind::Link.as_str(),
            rooted::Kind::Other => "other",
        };
        let size = (stat.kind == rooted::Kind::File).then_some(stat.size);
        Self { what: Some(what), size, ..Self::default() }
    }

    pub(super) fn mode(mode: u32) -> Self {
        Self { mode: Some(format!("{mode:04o}")), ..Self::default() }
    }

    pub(super) fn bytes(size: u64, blake3: Option<String>) -> Self {
        Self { size: Some(size), blake3, ..Self::default() }
    }

    pub(super) fn target(target: &[u8]) -> Self {
        Self { target: Some(String::from_utf8_lossy(target).into_owned()), ..Self::default() }
    }

    pub(super) fn error(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// The verdict of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Matches the applied plan.
    Clean,
    /// Some drift, but none critical.
    Dirty,
    Critical,
}

/// Collects drifts as they are found.
pub(super) struct Collector {
    pub(super) scanned: Scanned,
    counts: Counts,
    /// The first of each severity, so that thousands of new files do not hide a critical one.
    info: Vec<Drift>,
    warning: Vec<Drift>,
    critical: Vec<Drift>,
    repair: Option<Disrepair>,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            scanned: Scanned::default(),
            counts: Counts::default(),
            info: Vec::new(),
            warning: Vec::new(),
            critical: Vec::new(),
            repair: None,
        }
    }

    /// A collector that keeps only locations.
    pub(super) fn for_repair() -> Self {
        Self { repair: Some(Disrepair::default()), ..Self::new() }
    }

    pub(super) fn add(
        &mut self,
        place: Location,
        path: &[u8],
        line: Option<&Line>,
        kind: Kind,
        facts: [Option<EntryFacts>; 2],
    ) {
        let path = String::from_utf8_lossy(path);
        if let Some(repair) = &mut self.repair {
            repair.mounts.extend(line.and_then(|line| line.mount_key.clone()));
            repair.slots.extend(index::slot_of(&path));
            return;
        }
        let severity = kind.severity(place);
        let (count, listed) = match severity {
            Severity::Info => (&mut self.counts.info, &mut self.info),
            Severity::Warning => (&mut self.counts.warning, &mut self.warning),
            Severity::Critical => (&mut self.counts.critical, &mut self.critical),
        };
        *count += 1;
        if listed.len() < MAX_LISTED {
            let [expected, actual] = facts;
            let mount_key = line.and_then(|line| line.mount_key.clone());
            listed.push(Drift { path: path.into_owned(), mount_key, kind, severity, expected, actual });
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.counts == Counts::default()
    }

    pub(super) fn finish(self, header: Header, level: Level, took: Duration) -> Report {
        let Counts { info, warning, critical } = self.counts;
        let mut drifts = self.critical;
        for less in [self.warning, self.info] {
            let room = MAX_LISTED - drifts.len();
            drifts.extend(less.into_iter().take(room));
        }
        drifts.sort_by(|left, right| {
            let by_path = index::compare_paths(left.path.as_bytes(), right.path.as_bytes());
            by_path.then(left.kind.cmp(&right.kind))
        });
        Report {
            schema: 1,
            apply_id: header.apply_id,
            generation: header.generation,
            level,
            scanned: self.scanned,
            truncated: info + warning + critical > drifts.len() as u64,
            drifts,
            counts: self.counts,
            verdict: match (critical, info + warning) {
                (0, 0) => Verdict::Clean,
                (0, _) => Verdict::Dirty,
                _ => Verdict::Critical,
            },
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn into_disrepair(self) -> Disrepair {
        self.repair.unwrap_or_default()
    }
}
