//! The changes between two resolved environments.
//!
//! A resume resolves the environment again and compares it with the one of the last start. Warnings
//! are reported and the resume continues; a critical change ends it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::resolved::{ManifestRef, ResolvedEnvironment};
use crate::manifest::vocabulary::closed;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

closed! {
    Severity {
        Critical => "critical",
        Warning => "warning",
    }
}

/// The kinds of drift with their severities, in one table. `Or` is critical depending on what
/// changed.
macro_rules! kinds {
    ($($variant:ident => $text:literal, $severity:ident;)+) => {
        closed! {
            Kind { $($variant => $text,)+ }
        }

        impl Kind {
            /// The severity; `None` if it depends on what changed.
            pub const fn severity(self) -> Option<Severity> {
                match self {
                    $(Self::$variant => kinds!(@ $severity),)+
                }
            }
        }
    };
    (@ Critical) => { Some(Severity::Critical) };
    (@ Warning) => { Some(Severity::Warning) };
    (@ Either) => { None };
}

kinds! {
    AgentChanged => "agent-changed", Critical;
    CredentialKindChanged => "credential-kind-changed", Critical;
    PermissionWidened => "permission-widened", Critical;
    SurfaceIncompatible => "surface-incompatible", Critical;
    // Critical if the credential was required.
    CredentialRemoved => "credential-removed", Either;
    // Critical if the content of a snapshot could no longer be written.
    MountModeChanged => "mount-mode-changed", Either;
    AgentVersionChanged => "agent-version-changed", Warning;
    RoleChanged => "role-changed", Warning;
    StageChanged => "stage-changed", Warning;
    ModelChanged => "model-changed", Warning;
    ManifestVersionChanged => "manifest-version-changed", Warning;
    ManifestContentChanged => "manifest-content-changed", Warning;
    SubagentAdded => "subagent-added", Warning;
    SubagentRemoved => "subagent-removed", Warning;
    SubagentModelChanged => "subagent-model-changed", Warning;
    SkillAdded => "skill-added", Warning;
    SkillRemoved => "skill-removed", Warning;
    SkillVersionChanged => "skill-version-changed", Warning;
    ToolSelectionAdded => "tool-selection-added", Warning;
    ToolSelectionRemoved => "tool-selection-removed", Warning;
    CredentialAdded => "credential-added", Warning;
    CredentialSourceChanged => "credential-source-changed", Warning;
    CredentialUnresolved => "credential-unresolved", Warning;
    EnvVarAdded => "env-var-added", Warning;
    EnvVarRemoved => "env-var-removed", Warning;
    EnvVarChanged => "env-var-changed", Warning;
    PermissionNarrowed => "permission-narrowed", Warning;
    MountAdded => "mount-added", Warning;
    MountRemoved => "mount-removed", Warning;
    PersistenceChanged => "persistence-changed", Warning;
    OutputSurfaceChanged => "output-surface-changed", Warning;
}

closed! {
    /// The result of a comparison.
    Verdict {
        Clean => "clean",
        Warning => "warning",
        Critical => "critical",
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Drift {
    pub kind: Kind,
    pub severity: Severity,
    /// A slug, a name or a slot.
    pub subject: String,
    /// The previous value. Values of variables are digests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Its identity.
    pub snapshot_id: String,
    pub manifest_ref: ManifestRef,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub critical: usize,
    pub warning: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The version of this format.
    pub schema: u32,
    /// When, in RFC 3339.
    pub compared_at: String,
    /// The environment of the last start; `null` at the first start.
    pub baseline: Option<Compared>,
    pub current: Compared,
    /// All changes, sorted by severity, kind and subject.
    pub drifts: Vec<Drift>,
    pub counts: Counts,
    pub verdict: Verdict,
}

impl Report {
    /// Whether a resume may continue.
    ///
    /// # Errors
    /// `DRIFT_CRITICAL` with every critical change.
    pub fn check(&self) -> Result<(), Error> {
        if self.verdict != Verdict::Critical {
            return Ok(());
        }
        let critical = self.drifts.iter().filter(|drift| drift.severity == Severity::Critical);
        let named: Vec<String> =
            critical.map(|drift| format!("{} ({})", drift.kind, drift.subject)).collect();
        let message = format!("the environment changed too much to resume: {}", named.join(", "));
        Err(Error::new(Code::DriftCritical, message).detail("drifts", named))
    }
}

/// Compares two environments. `snapshotted` are the slots in a snapshot of the session.
///
/// # Errors
/// If an environment contains a number without a canonical form.
pub fn compare(
    baseline: Option<&ResolvedEnvironment>,
    current: &ResolvedEnvironment,
    snapshotted: &BTreeSet<Slot>,
    compared_at: &str,
) -> Result<Report, canon::canonical::CanonicalError> {
    let compared = |environment: &ResolvedEnvironment| {
        let manifest_ref = environment.manifest_ref.clone();
        Ok(Compared { snapshot_id: environment.snapshot_id()?, manifest_ref })
    };
    let mut found = DriftCollector::default();
    if let Some(before) = baseline {
        found.identity(before, current);
        found.abilities(before, current);
        found.credentials(before, current);
        found.env(before, current);
        found.workspace(before, current, snapshotted);
    }
    let mut drifts = found.drifts;
    drifts.sort_by(|one, other| {
        let key = |drift: &Drift| (drift.severity, drift.kind.as_str(), drift.subject.clone());
        key(one).cmp(&key(other))
    });
    let critical = drifts.iter().filter(|drift| drift.severity == Severity::Critical).count();
    let counts = Counts { critical, warning: drifts.len() - critical };
    let verdict = match counts {
        Counts { critical: 0, warning: 0 } => Verdict::Clean,
        Counts { critical: 0, .. } => Verdict::Warning,
        Counts { .. } => Verdict::Critical,
    };
    Ok(Report {
        schema: 1,
        compared_at: compared_at.to_owned(),
        baseline: baseline.map(compared).transpose()?,
        current: compared(current)?,
        drifts,
        counts,
        verdict,
    })
}

#[derive(Default)]
struct DriftCollector {
    drifts: Vec<Drift>,
}

/// The two sides of a set member: before, after, or both.
type Pair<'a, T> = (Option<&'a T>, Option<&'a T>);

/// The members of two sets by key.
fn by_key<'a, T, K: Ord>(
    before: &'a [T],
    after: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> BTreeMap<K, Pair<'a, T>> {
    let mut pairs: BTreeMap<K, Pair<'a, T>> = BTreeMap::new();
    for item in before {
        pairs.entry(key(item)).or_default().0 = Some(item);
    }
    for item in after {
        pairs.entry(key(item)).or_default().1 = Some(item);
    }
    pairs
}

fn shown<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

impl DriftCollector {
    /// A change with a fixed severity.
    fn add(&mut self, kind: Kind, subject: &str, before: Option<Value>, after: Option<Value>) {
        self.add_as(kind, kind.severity().unwrap_or(Severity::Warning), subject, before, after);
    }

    fn add_as(
        &mut self,
        kind: Kind,
        severity: Severity,
        subject: &str,
        before: Option<Value>,
        after: Option<Value>,
    ) {
        self.drifts.push(Drift { kind, severity, subject: subject.to_owned(), before, after });
    }

    /// A change of one value, if it changed.
    fn changed<T: Serialize + PartialEq>(&mut self, kind: Kind, subject: &str, before: &T, after: &T) {
        if before != after {
            self.add(kind, subject, Some(shown(before)), Some(shown(after)));
        }
    }

    fn identity(&mut self, before: &ResolvedEnvironment, after: &ResolvedEnvironment) {
        let (old, new) = (&before.agent, &after.agent);
        let agent = new.slug.as_str();
        self.changed(Kind::AgentChanged, agent, &old.slug, &new.slug);
        // Another agent has another version; report this as one change.
        if old.slug == new.slug {
            self.changed(Kind::AgentVersionChanged, agent, &old.version, &new.version);
        }
        self.changed(Kind::RoleChanged, agent, &old.role, &new.role);
        self.changed(Kind::StageChanged, agent, &old.stage, &new.stage);
        self.changed(Kind::ModelChanged, agent, &old.model, &new.model);
        let (old, new) = (&before.manifest_ref, &after.manifest_ref);
        if (&old.slug, &old.version) != (&new.slug, &new.version) {
            self.changed(Kind::ManifestVersionChanged, &new.slug, old, new);
        } else {
            self.changed(Kind::ManifestContentChanged, &new.slug, &old.digest, &new.digest);
        }
        if !after.surface_compat.contains(&before.surface) {
            let (was, now) = (shown(&before.surface), shown(&after.surface_compat));
            self.add(Kind::SurfaceIncompatible, before.surface.as_str(), Some(was), Some(now));
        }
    }

    fn abilities(&mut self, before: &ResolvedEnvironment, after: &ResolvedEnvironment) {
        for (slug, pair) in by_key(&before.sub_agents, &after.sub_agents, |agent| agent.slug.as_str()) {
            match pair {
                (Some(old), Some(new)) => {
                    self.changed(Kind::SubagentModelChanged, slug, &old.model, &new.model);
                }
                (None, Some(new)) => self.add(Kind::SubagentAdded, slug, None, Some(shown(new))),
                (Some(old), None) => self.add(Kind::SubagentRemoved, slug, Some(shown(old)), None),
                (None, None) => {}
            }
        }
        for (slug, pair) in by_key(&before.skills, &after.skills, |skill| skill.slug.as_str()) {
            match pair {
                (Some(old), Some(new)) => {
                    self.changed(Kind::SkillVersionChanged, slug, &old.version, &new.version);
                }
                (None, Some(new)) => self.add(Kind::SkillAdded, slug, None, Some(shown(&new.version))),
                (Some(old), None) => self.add(Kind::SkillRemoved, slug, Some(shown(&old.version)), None),
                (None, None) => {}
            }
        }
        for (selection, pair) in by_key(&before.tool_selection, &after.tool_selection, |selection| selection)
        {
            let subject = canon::canonical::string_of(&shown(selection));
            match pair {
                (None, Some(_)) => self.add(Kind::ToolSelectionAdded, &subject, None, None),
                (Some(_), None) => self.add(Kind::ToolSelectionRemoved, &subject, None, None),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        for (key, pair) in by_key(&before.permissions, &after.permissions, |key| *key) {
            match pair {
                (None, Some(_)) => self.add(Kind::PermissionWidened, key.as_str(), None, None),
                (Some(_), None) => self.add(Kind::PermissionNarrowed, key.as_str(), None, None),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }

    fn credentials(&mut self, before: &ResolvedEnvironment, after: &ResolvedEnvironment) {
        for (name, pair) in
            by_key(&before.credentials, &after.credentials, |credential| credential.name.as_str())
        {
            match pair {
                (Some(old), Some(new)) => {
                    self.changed(Kind::CredentialKindChanged, name, &old.kind, &new.kind);
                    self.changed(Kind::CredentialSourceChanged, name, &old.source_ref, &new.source_ref);
                    if old.resolved && !new.resolved {
                        self.add(Kind::CredentialUnresolved, name, None, None);
                    }
                }
                (None, Some(new)) => self.add(Kind::CredentialAdded, name, None, Some(shown(&new.kind))),
                (Some(old), None) => {
                    let severity = if old.required { Severity::Critical } else { Severity::Warning };
                    self.add_as(Kind::CredentialRemoved, severity, name, Some(shown(&old.kind)), None);
                }
                (None, None) => {}
            }
        }
    }

    /// The plan identity changes with every turn and is not reported.
    fn env(&mut self, before: &ResolvedEnvironment, after: &ResolvedEnvironment) {
        let shown_value = |variable: &super::EnvVariable| match (&variable.digest, &variable.secret_ref) {
            (Some(digest), _) => Value::from(digest.as_str()),
            (None, secret) => json!({ "secretRef": secret }),
        };
        for (name, pair) in by_key(&before.env, &after.env, |variable| variable.name.as_str()) {
            if name == "INTERLOCK_APPLY_ID" {
                continue;
            }
            match pair {
                (Some(old), Some(new)) => {
                    self.changed(Kind::EnvVarChanged, name, &shown_value(old), &shown_value(new));
                }
                (None, Some(new)) => self.add(Kind::EnvVarAdded, name, None, Some(shown_value(new))),
                (Some(old), None) => self.add(Kind::EnvVarRemoved, name, Some(shown_value(old)), None),
                (None, None) => {}
            }
        }
    }

    fn workspace(
        &mut self,
        before: &ResolvedEnvironment,
        after: &ResolvedEnvironment,
        snapshotted: &BTreeSet<Slot>,
    ) {
        for (slot, pair) in by_key(&before.mounts, &after.mounts, |mount| mount.slot.as_str()) {
            match pair {
                (Some(old), Some(new)) if old.mode != new.mode => {
                    let held = Slot::from_key(slot).is_some_and(|slot| snapshotted.contains(&slot));
                    let severity = if held && new.mode == Mode::ReadOnly {
                        Severity::Critical
                    } else {
                        Severity::Warning
                    };
                    let (old, new) = (shown(&old.mode), shown(&new.mode));
                    self.add_as(Kind::MountModeChanged, severity, slot, Some(old), Some(new));
                }
                (None, Some(new)) => self.add(Kind::MountAdded, slot, None, Some(shown(&new.mode))),
                (Some(old), None) => self.add(Kind::MountRemoved, slot, Some(shown(&old.mode)), None),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        let set = |paths: &[String]| paths.iter().cloned().collect::<BTreeSet<_>>();
        let (old, new) = (set(&before.persistence), set(&after.persistence));
        self.changed(Kind::PersistenceChanged, "persistence", &old, &new);
        self.changed(
            Kind::OutputSurfaceChanged,
            "outputSurface",
            &before.output_surface,
            &after.output_surface,
        );
    }
}
