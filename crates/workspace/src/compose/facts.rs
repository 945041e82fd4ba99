//! The facts of a request, checked in a fixed order: surface, run-only members, role, spec ref,
//! mounts.

use std::fmt;

use canon::nearest::nearest;
use serde_json::{Number, Value};

use super::member::Member;
use super::reference::quoted;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// The longest name that occurs in every entry: organisation, project, agent, group, role. Without
/// a limit, the plan could grow with the square of the request.
const MAX_SHARED_NAME_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Facts<'v, 'p> {
    pub(super) root: &'p Member<'v, 'p>,
    pub(super) context: Member<'v, 'p>,
    pub(super) scope: Scope<'v>,
    pub(super) org_id: &'v str,
    pub(super) project_id: &'v str,
    pub(super) manifest: Manifest<'v>,
    pub(super) agent_slug: &'v str,
    pub(super) group_key: &'v str,
    pub(super) role: &'v str,
    /// The spec of the deliverables; `null` if the context says so and nothing overrides it.
    pub(super) deliverable_spec_ref: Option<&'v Value>,
    /// The enabled mounts, in manifest order.
    pub(super) enabled: Vec<(Slot, Mode)>,
}

/// The manifest, for messages and the identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manifest<'v> {
    pub(super) slug: &'v str,
    pub(super) version: &'v str,
}

impl fmt::Display for Manifest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.slug.escape_debug(), self.version.escape_debug())
    }
}

/// The purpose of the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'v> {
    /// A job of a workflow run.
    Run { run_id: &'v str, job_run_id: &'v str },
    /// An interactive session.
    Session { session_id: &'v str, turn_gen: Option<&'v Number> },
}

impl<'v> Scope<'v> {
    pub(super) const fn is_run(&self) -> bool {
        matches!(self, Self::Run { .. })
    }

    /// Exactly one of the two fields. Null counts as given, and names no surface.
    fn read(root: &Member<'v, '_>) -> Result<Self, Error> {
        let (run, session) = (root.get("workflowRun"), root.get("interactive"));
        match (run.is_given(), session.is_given()) {
            (true, false) if run.non_null().is_some() => {
                run.object()?;
                let (run_id, job_run_id) = (run.get("runId").text()?, run.get("jobRunId").text()?);
                Ok(Self::Run { run_id, job_run_id })
            }
            (false, true) if session.non_null().is_some() => {
                session.object()?;
                let turn_gen = session.get("turnGen");
                let turn_gen = turn_gen.non_null().map(|_| turn_gen.number()).transpose()?;
                Ok(Self::Session { session_id: session.get("sessionId").text()?, turn_gen })
            }
            (run, session) => {
                let given = |given| if given { "given" } else { "absent" };
                let (run, session) = (given(run), given(session));
                let message = format!(
                    "a request must have exactly one of `workflowRun` and `interactive`, as an object; \
                     `workflowRun` is {run}, `interactive` is {session}"
                );
                Err(Error::new(Code::ComposeSurfaceXor, message))
            }
        }
    }
}

impl<'v, 'p> Facts<'v, 'p> {
    /// Reads the facts and makes the checks that precede the mounts.
    pub(super) fn read(root: &'p Member<'v, 'p>, mounts: &[String]) -> Result<Self, Error> {
        root.object()?;
        let scope = Scope::read(root)?;
        let context = root.get("agentContext");
        context.object()?;
        let manifest = root.get("manifest");
        manifest.object()?;
        let agent = manifest.get("agent");
        agent.object()?;
        let overrides = root.get("agentOverrides");
        if overrides.non_null().is_some() {
            overrides.object()?;
        }

        let spec_refs = [overrides.get("deliverableSpecRef"), agent.get("deliverableSpecRef")];
        if !scope.is_run() {
            refuse_what_only_runs_have(&context, &spec_refs)?;
        }
        let role = overrides.get("role");
        if role.non_null().is_none() {
            let message =
                "`agentOverrides.role` is required; the role of the manifest is not used as a default";
            return Err(Error::new(Code::ComposeRoleRequired, message));
        }
        let spec_ref_of_context = context.get("deliverableSpecRef");
        let spec_ref =
            spec_refs.iter().find(|spec_ref| spec_ref.non_null().is_some()).unwrap_or(&spec_ref_of_context);
        spec_ref.text_if_any()?;
        let deliverable_spec_ref = spec_ref.raw();

        let name = |member: Member<'v, '_>| {
            let text = member.text()?;
            if text.len() > MAX_SHARED_NAME_BYTES {
                let limit = Error::limit("bytes of a name", MAX_SHARED_NAME_BYTES as u64, text.len() as u64);
                return Err(limit.detail("pointer", member.pointer()));
            }
            Ok(text)
        };
        let identity =
            Manifest { slug: name(manifest.get("slug"))?, version: name(manifest.get("version"))? };
        Ok(Self {
            root,
            context,
            scope,
            org_id: name(root.get("orgId"))?,
            project_id: name(root.get("projectId"))?,
            manifest: identity,
            agent_slug: name(agent.get("slug"))?,
            group_key: name(agent.get("groupKey"))?,
            role: name(role)?,
            deliverable_spec_ref,
            enabled: enabled_mounts(&manifest, mounts, identity)?,
        })
    }

    /// The slot with this name, if the manifest enables it.
    pub(super) fn enabled_slot(&self, slot_key: &str) -> Option<Slot> {
        self.enabled.iter().map(|(slot, _)| *slot).find(|slot| slot.key() == slot_key)
    }
}

/// Workflow data must not leak into a session, so its mere presence is an error.
fn refuse_what_only_runs_have(context: &Member<'_, '_>, spec_refs: &[Member<'_, '_>]) -> Result<(), Error> {
    if context.get("inputArtifacts").list()?.len() > 0 {
        let message = "a session cannot have input artifacts, but `agentContext.inputArtifacts` is not empty";
        return Err(Error::new(Code::ComposeWorkflowOnlyInputArtifacts, message));
    }
    let of_context = [context.get("deliverableSpecRef"), context.get("deliverablesRef")];
    if let Some(given) = of_context.iter().chain(spec_refs).find(|member| member.is_given()) {
        let pointer = given.pointer();
        let message = format!("a session cannot have deliverables, but `{pointer}` is present");
        return Err(Error::new(Code::ComposeWorkflowOnlyDeliverables, message).detail("pointer", pointer));
    }
    Ok(())
}

fn enabled_mounts(
    manifest: &Member<'_, '_>,
    keys: &[String],
    identity: Manifest<'_>,
) -> Result<Vec<(Slot, Mode)>, Error> {
    let mounts = manifest.get("mounts");
    mounts.object()?;
    let mut enabled = Vec::new();
    for key in keys {
        let mount = mounts.get(key);
        mount.object()?;
        let flag = mount.get("enabled");
        match flag.raw() {
            Some(Value::Bool(true)) => {}
            None | Some(Value::Null | Value::Bool(false)) => continue,
            Some(_) => return Err(flag.refusal("a boolean")),
        }
        let slot = Slot::from_key(key).ok_or_else(|| unknown_slot(key, "rendered.mounts", identity))?;
        let mode = mount.get("mode");
        let mode = match mode.text_if_any()? {
            None => slot.default_mode(),
            Some("read-only") => Mode::ReadOnly,
            Some("read-write") => Mode::ReadWrite,
            Some(_) => return Err(mode.refusal("`read-only` or `read-write`")),
        };
        enabled.push((slot, mode));
    }
    Ok(enabled)
}

/// The error for an unknown slot, with its location and a suggestion.
pub(super) fn unknown_slot(key: &str, site: &'static str, manifest: Manifest<'_>) -> Error {
    let shown = quoted(key);
    let guess =
        nearest(&shown, Slot::ALL.map(Slot::key), 1).first().map(|near| format!("; did you mean `{near}`?"));
    let message =
        format!("unknown slot {shown:?} ({site} of the manifest {manifest}){}", guess.unwrap_or_default());
    Error::new(Code::UnknownSlot, message)
        .detail("slotKey", shown)
        .detail("site", site)
        .detail("manifestSlug", manifest.slug)
        .detail("manifestVersion", manifest.version)
}
