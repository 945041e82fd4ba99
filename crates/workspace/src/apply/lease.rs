//! Who has a workspace, since when, and for which plan.

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

/// The last renewal. It is a file of its own because it need not survive a power cut: without it a
/// lease only expires earlier.
pub(super) const RENEWAL: &str = "renewal.json";

/// How long the file of a renewal is, filled up with spaces: an id and three numbers fit.
const RENEWAL_BYTES: usize = 256;

/// The most bytes of a lease that are read. It has fifteen slots at most, twice.
const MAX_BYTES: u64 = 1 << 20;

/// For whom a workspace is prepared. Within one scope a later request takes over; another scope waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum LeaseScope {
    /// A job of a run.
    Run {
        /// Which run.
        run_id: String,
        /// Which job.
        job_run_id: String,
    },
    /// A turn of a session.
    Session {
        /// Which session.
        session_id: String,
        /// Which turn. An earlier turn does not take the workspace from a later one.
        turn_gen: u64,
    },
    /// A plan that names neither run nor session: it is alone in its scope.
    Plan {
        /// Which plan.
        apply_id: String,
    },
}

impl LeaseScope {
    /// The scope of a plan, from the parameters of its rendered files. The turn is not among them: it has gone into
    /// `applyId`, and cannot be read from there.
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

    /// Whether both are of one run and job, or of one session.
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

/// What a lease is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// The plan is being put in place. Only a journal has such a lease.
    Pending,
    /// The plan is in place.
    Active,
    /// Given back.
    Released,
    /// Not renewed in time. Stored only when another lease follows; until then the clock says it.
    Expired,
    /// A later request of the same run or session followed.
    Superseded,
    /// Putting the plan in place failed, and could not be undone.
    Failed,
}

/// The right to a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lease {
    /// The identity of the request.
    pub apply_id: String,
    /// The digest of the plan in place.
    pub plan_digest: String,
    /// For whom.
    pub scope: LeaseScope,
    /// Counts the times that something was put in place in this root.
    pub generation: u64,
    /// Who holds it: a name for people.
    pub holder: String,
    /// What it is at the moment.
    pub state: LeaseState,
    /// When it was made, in milliseconds since 1970.
    pub created_at: u64,
    /// When it was last renewed.
    pub renewed_at: u64,
    /// When it expires unless it is renewed.
    pub expires_at: u64,
    /// The slots that the agent got.
    pub slots: Vec<SlotReport>,
    /// What sources without a fixed revision turned out to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Pinned>,
    /// The name of the index in the state folder.
    pub index_ref: String,
}

/// What is in the file: a lease, and the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LeaseFile {
    pub(super) version: u32,
    pub(super) lease: Lease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Lease>,
}

/// What a renewal writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Renewal {
    apply_id: String,
    generation: u64,
    renewed_at: u64,
    expires_at: u64,
}

impl Lease {
    /// The lease of a workspace, with its last renewal; nothing where there is none.
    ///
    /// # Errors
    /// When the state folder cannot be read, or holds something else.
    pub fn read(root: &Dir) -> Result<Option<Self>, Error> {
        match state::open(root)? {
            Some(state) => Ok(LeaseFile::read(&state)?.map(|file| file.lease)),
            None => Ok(None),
        }
    }

    /// The slots that the agent got, with what it may do there.
    pub fn grants(&self) -> Vec<Grant> {
        let known = |slot: &SlotReport| Some(Grant { slot: Slot::from_path(&slot.path)?, mode: slot.mode });
        self.slots.iter().filter_map(known).collect()
    }

    /// What a scan for drift compares the workspace with.
    pub fn baseline(&self) -> Baseline {
        Baseline { index: self.index_ref.clone(), grants: self.grants() }
    }

    /// What it is at that moment: an active lease that was not renewed is expired.
    pub fn state_at(&self, now_ms: u64) -> LeaseState {
        match self.state {
            LeaseState::Active if now_ms >= self.expires_at => LeaseState::Expired,
            state => state,
        }
    }

    /// Renews it in the state folder.
    pub(super) fn renew(&mut self, state: &Dir, now_ms: u64, ttl_ms: u64) -> Result<(), Error> {
        // A clock that went back takes nothing from anybody.
        self.renewed_at = self.renewed_at.max(now_ms);
        self.expires_at = self.expires_at.max(now_ms.saturating_add(ttl_ms));
        let renewal = Renewal {
            apply_id: self.apply_id.clone(),
            generation: self.generation,
            renewed_at: self.renewed_at,
            expires_at: self.expires_at,
        };
        // Always as long, so that nothing of an earlier renewal stands behind it.
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
        // What cannot be read here was not renewed: a renewal is not synced, and may be cut off.
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

/// What the table of leases says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The plan is in place, unless something has drifted.
    InPlace,
    /// The plan has to be put in place.
    Apply(LeaseReason),
}

/// What is to be done about a request, given the lease that was found.
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
            format!("turn {asked} of the session comes too late: the workspace is at turn {latest}"),
        )
        .detail("turnGen", asked)
        .detail("latest", latest)),
        _ => Ok(Verdict::Apply(LeaseReason::Superseded)),
    }
}

/// The refusal when somebody else has the workspace.
pub(super) fn held(holder: &str, expires_at: Option<u64>) -> Error {
    let error = Error::new(
        Code::LeaseHeld,
        format!("the workspace belongs to `{holder}`, for another run or session"),
    )
    .detail("holder", holder);
    match expires_at {
        Some(at) => error.detail("expiresAt", at),
        None => error,
    }
}
