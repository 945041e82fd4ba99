//! The lease of a workspace: its owner, times and plan.

use serde::{Deserialize, Serialize};

use super::report::{LeaseReason, Pinned, SlotReport};
use super::state;
use crate::drift::Baseline;
use crate::plan::{Grant, Source, ValidPlan};
use crate::rooted::Dir;
use crate::slot::Slot;
use crate::{Code, Error};

/// The name of the lease in the state folder.
pub(super) const FILE_NAME: &str = "lease.json";

/// The last renewal. It is a separate file because it need not survive a power failure: without it,
/// the lease only expires earlier.
pub(super) const RENEWAL: &str = "renewal.json";

/// The fixed length of a renewal file, padded with spaces: an id and three numbers fit.
const RENEWAL_BYTES: usize = 256;

/// The largest lease, in bytes. It has at most fifteen slots, twice.
const MAX_BYTES: u64 = 1 << 20;

/// The owner of a workspace. Within one scope, a later request takes over; another scope must wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum LeaseScope {
    /// A job of a run.
    Run { run_id: String, job_run_id: String },
    /// A turn of a session.
    Session {
        session_id: String,
        /// The turn. An earlier turn does not take the workspace from a later one.
        turn_gen: u64,
    },
    /// A plan that names neither a run nor a session: it is alone in its scope.
    Plan { apply_id: String },
}

impl LeaseScope {
    /// The scope of a plan, from the parameters of its rendered files. They do not contain the
    /// turn: it is part of `applyId`, but cannot be read from it.
    pub fn of(plan: &ValidPlan, turn_gen: u64) -> Self {
        let params = plan.entries().iter().find_map(|entry| match &entry.source {
            Source::RenderedAgentsMd(params)
            | Source::RenderedContextJson(params)
            | Source::RenderedSystemOverlay(params) => Some(params),
            _ => None,
        });
        match params.map(|params| (&params.session_id, &params.run_id, &params.job_run_id)) {
            Some((Some(session_id), ..)) => Self::Session { session_id: session_id.clone(), turn_gen },
            Some((None, Some(run_id), Some(job_run_id))) => {
                Self::Run { run_id: run_id.clone(), job_run_id: job_run_id.clone() }
            }
            _ => Self::Plan { apply_id: plan.apply_id().to_owned() },
        }
    }

    /// Whether both belong to one run and job, or to one session.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Session { session_id: left, .. }, Self::Session { session_id: right, .. }) => {
                left == right
            }
            (left, right) => left == right,
        }
    }

    fn turn(&self) -> Option<u64> {
        match self {
            Self::Session { turn_gen, .. } => Some(*turn_gen),
            Self::Run { .. } | Self::Plan { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// The plan is being applied. Only a journal has such a lease.
    Pending,
    /// The plan is applied.
    Active,
    /// Released.
    Released,
    /// Not renewed in time. Stored only when another lease follows; until then it follows from the
    /// clock.
    Expired,
    /// Replaced by a later request of the same run or session.
    Superseded,
    /// Applying failed and could not be rolled back.
    Failed,
}

/// The right to use a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lease {
    /// The identity of the request.
    pub apply_id: String,
    /// The digest of the applied plan.
    pub plan_digest: String,
    pub scope: LeaseScope,
    /// Counts the plans applied in this root.
    pub generation: u64,
    /// The holder's name, for people.
    pub holder: String,
    pub state: LeaseState,
    /// Creation time, in milliseconds since 1970.
    pub created_at: u64,
    pub renewed_at: u64,
    pub expires_at: u64,
    /// The granted slots.
    pub slots: Vec<SlotReport>,
    /// Resolved revisions of sources without a fixed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Pinned>,
    /// The name of the index in the state folder.
    pub index_ref: String,
}

/// The file contents: a lease and the previous one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LeaseFile {
    pub(super) version: u32,
    pub(super) lease: Lease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Lease>,
}

/// The contents of a renewal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Renewal {
    apply_id: String,
    generation: u64,
    renewed_at: u64,
    expires_at: u64,
}

impl Lease {
    /// The lease of a workspace with its last renewal; `None` if there is none.
    ///
    /// # Errors
    /// If the state folder cannot be read or is invalid.
    pub fn read(root: &Dir) -> Result<Option<Self>, Error> {
        match state::open(root)? {
            Some(state) => Ok(LeaseFile::read(&state)?.map(|file| file.lease)),
            None => Ok(None),
        }
    }

    /// The granted slots with their access modes.
    pub fn grants(&self) -> Vec<Grant> {
        let known = |slot: &SlotReport| Some(Grant { slot: Slot::from_path(&slot.path)?, mode: slot.mode });
        self.slots.iter().filter_map(known).collect()
    }

    /// The reference for a drift scan.
    pub fn baseline(&self) -> Baseline {
        Baseline { index: self.index_ref.clone(), grants: self.grants() }
    }

    /// The current state: an active lease that was not renewed is expired.
    pub fn state_at(&self, now_ms: u64) -> LeaseState {
        match self.state {
            LeaseState::Active if now_ms >= self.expires_at => LeaseState::Expired,
            state => state,
        }
    }

    /// Renews the lease in the state folder.
    pub(super) fn renew(&mut self, state: &Dir, now_ms: u64, ttl_ms: u64) -> Result<(), Error> {
        // A clock that went back does not shorten the lease.
        self.renewed_at = self.renewed_at.max(now_ms);
        self.expires_at = self.expires_at.max(now_ms.saturating_add(ttl_ms));
        let renewal = Renewal {
            apply_id: self.apply_id.clone(),
            generation: self.generation,
            renewed_at: self.renewed_at,
            expires_at: self.expires_at,
        };
        // Fixed length, so that nothing of an earlier renewal remains.
        let mut bytes = state::json(&renewal);
        bytes.resize(RENEWAL_BYTES.max(bytes.len()), b' ');
        state.write_over(RENEWAL, &bytes).map_err(state::failed("write", RENEWAL))
    }
}

impl LeaseFile {
    pub(super) fn read(state: &Dir) -> Result<Option<Self>, Error> {
        let Some(mut file) = state::read_json::<Self>(state, FILE_NAME, MAX_BYTES)? else {
            return Ok(None);
        };
        state::check_version(FILE_NAME, file.version)?;
        // An unreadable renewal counts as none: renewals are not synced and may be truncated.
        let renewal = state::read_json::<Renewal>(state, RENEWAL, MAX_BYTES).ok().flatten();
        if let Some(renewal) = renewal {
            let lease = &mut file.lease;
            if renewal.apply_id == lease.apply_id && renewal.generation == lease.generation {
                lease.renewed_at = lease.renewed_at.max(renewal.renewed_at);
                lease.expires_at = lease.expires_at.max(renewal.expires_at);
            }
        }
        Ok(Some(file))
    }

    pub(super) fn write(&self, state: &Dir) -> Result<(), Error> {
        state::write(state, FILE_NAME, &state::json(self), state::Durable::Yes)
    }
}

/// The decision of the lease table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The plan is already applied, unless it drifted.
    InPlace,
    /// The plan must be applied.
    Apply(LeaseReason),
}

/// Decides how to handle a request, given the current lease.
pub(super) fn judge(
    found: Option<&Lease>,
    plan: &ValidPlan,
    scope: &LeaseScope,
    now_ms: u64,
) -> Result<Verdict, Error> {
    let Some(found) = found else {
        return Ok(Verdict::Apply(LeaseReason::New));
    };
    match found.state_at(now_ms) {
        LeaseState::Released => return Ok(Verdict::Apply(LeaseReason::Released)),
        LeaseState::Expired => return Ok(Verdict::Apply(LeaseReason::Expired)),
        LeaseState::Failed | LeaseState::Pending => return Ok(Verdict::Apply(LeaseReason::Failed)),
        LeaseState::Superseded => return Ok(Verdict::Apply(LeaseReason::Superseded)),
        LeaseState::Active => {}
    }
    if found.apply_id == plan.apply_id() {
        return Ok(if found.plan_digest == plan.digest() {
            Verdict::InPlace
        } else {
            Verdict::Apply(LeaseReason::PlanChanged)
        });
    }
    if !found.scope.is_same(scope) {
        return Err(held(&found.holder, Some(found.expires_at)));
    }
    match (found.scope.turn(), scope.turn()) {
        (Some(latest), Some(asked)) if asked < latest => Err(Error::new(
            Code::LeaseStaleGeneration,
            format!("turn {asked} of the session is too old; the workspace is at turn {latest}"),
        )
        .detail("turnGen", asked)
        .detail("latest", latest)),
        _ => Ok(Verdict::Apply(LeaseReason::Superseded)),
    }
}

/// The refusal if another owner holds the workspace.
pub(super) fn held(holder: &str, expires_at: Option<u64>) -> Error {
    let error = Error::new(
        Code::LeaseHeld,
        format!("the workspace is held by `{holder}` for another run or session"),
    )
    .detail("holder", holder);
    match expires_at {
        Some(at) => error.detail("expiresAt", at),
        None => error,
    }
}
