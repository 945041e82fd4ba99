//! Validates a dispatch completely before anything is started.
//!
//! Composing is lenient, because existing plans must compose identically. A dispatch is new, so it
//! is validated strictly: [`DispatchRequest::check`] reports all problems together, and a valid
//! dispatch is never refused for its form later.
//!
//! A caller that does not know whether its dispatch arrived repeats it with the same key;
//! [`settle`] distinguishes a repetition from a different request with the same key.

mod briefcase;
mod context;
mod idempotency;
mod options;
mod problems;
mod reference;
mod roles;

use canon::json;
use canon::nearest::nearest;
use serde_json::{Map, Value};

pub use self::idempotency::{Settled, settle};
use self::problems::Problems;
pub use self::roles::takes;
use crate::compose::member::Member;
use crate::manifest::{Role, Surface};
use crate::{Code, Error};

pub const MAX_ID_BYTES: usize = 128;

/// The shortest and longest deadline: one second and one week.
pub const DEADLINE_MS: std::ops::RangeInclusive<u64> = 1_000..=604_800_000;

/// The members of a dispatch.
const MEMBERS: [&str; 24] = [
    "agentContext",
    "agentRef",
    "agentSession",
    "allowAgentToolInquiries",
    "briefcase",
    "composition",
    "deadlineMs",
    "deliverableSpecRef",
    "envOverlay",
    "idempotencyKey",
    "inputs",
    "interactive",
    "manifestRef",
    "model",
    "orgId",
    "projectId",
    "resumeFrom",
    "role",
    "snapshotRef",
    "subAgents",
    "surface",
    "toolInquiryPolicy",
    "toolInquiryRecipients",
    "workflowRun",
];

/// Checks inputs against a manifest.
pub type InputCheck = dyn Fn(&Map<String, Value>) -> Result<(), Error>;

/// What is known of the manifest.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The supported surfaces.
    pub surface_compat: &'a [Surface],
    /// Whether the manifest accepts these inputs.
    pub check_inputs: &'a InputCheck,
}

/// A valid dispatch. Only [`DispatchRequest::check`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchRequest {
    idempotency_key: String,
    digest: String,
    surface: Surface,
    role: Role,
    deadline_ms: u64,
    body: Value,
}

impl DispatchRequest {
    /// Validates a dispatch and collects all problems.
    ///
    /// # Errors
    /// The first problem in the order of the checks, with the others as causes: `DISPATCH_INVALID`,
    /// `DISPATCH_BAD_CONTEXT`, `DISPATCH_ROLE_SURFACE`, `SURFACE_INCOMPATIBLE`, or problems of the
    /// inputs.
    pub fn check(body: &Value, target: &Target<'_>) -> Result<Self, Error> {
        if !json::within_depth(body, json::MAX_DEPTH) {
            let seen = json::depth_of(body) as u64;
            return Err(Error::limit("levels of nesting in a dispatch", json::MAX_DEPTH as u64, seen));
        }
        let root = Member::root(body);
        let members = root.object().map_err(|problem| problems::coded(Code::DispatchInvalid, &problem))?;
        let mut problems = Problems::default();

        check_ids(&root, &mut problems);
        let surface = check_surface(&root, target, &mut problems);
        let role = check_role(&root, surface, &mut problems);
        check_inputs(&root, target, &mut problems);
        if surface == Some(Surface::AgentSession) {
            refuse_what_only_runs_have(&root, &mut problems);
        }
        context::check(&root.get("agentContext"), &mut problems);
        briefcase::check(&root.get("briefcase"), &mut problems);
        options::check(&root, &mut problems);
        let deadline_ms = check_deadline(&root.get("deadlineMs"), &mut problems);
        for key in members.keys().filter(|key| !MEMBERS.contains(&key.as_str())) {
            problems.add(unknown_member(key));
        }

        match (problems.into_error(), surface, role, deadline_ms) {
            (None, Some(surface), Some(role), Some(deadline_ms)) => Ok(Self {
                idempotency_key: root.get("idempotencyKey").text()?.to_owned(),
                digest: idempotency::digest_of(body),
                surface,
                role,
                deadline_ms,
                body: body.clone(),
            }),
            (first, ..) => Err(first.expect("a missing part has a problem")),
        }
    }

    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The digest of the canonical body, 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// The deadline, in milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    /// The request as received.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// The request for composing, without its manifest: the same names, the role override, and the
    /// members that composing reads.
    pub fn compose_request(&self) -> Value {
        let mut request = Map::new();
        for key in ["orgId", "projectId", "workflowRun", "interactive", "agentContext", "briefcase"] {
            if let Some(value) = self.body.get(key) {
                request.insert(key.to_owned(), value.clone());
            }
        }
        let mut overrides = Map::new();
        overrides.insert("role".into(), self.role.as_str().into());
        if let Some(spec_ref) = self.body.get("deliverableSpecRef").filter(|spec_ref| !spec_ref.is_null()) {
            overrides.insert("deliverableSpecRef".into(), spec_ref.clone());
        }
        request.insert("agentOverrides".into(), Value::Object(overrides));
        Value::Object(request)
    }
}

fn check_ids(root: &Member<'_, '_>, problems: &mut Problems) {
    for key in ["idempotencyKey", "orgId", "projectId"] {
        problems.id(&root.get(key));
    }
    let agent_ref = root.get("agentRef");
    if let Some(text) = problems.take(agent_ref.text())
        && !is_versioned_ref(text)
    {
        problems.add(agent_ref.refusal("`<slug>` or `<slug>@<version>`"));
    }
    let manifest_ref = root.get("manifestRef");
    if let Some(Some(text)) = problems.take(manifest_ref.text_if_any())
        && !(is_versioned_ref(text) && text.contains('@'))
    {
        problems.add(manifest_ref.refusal("`<slug>@<version>`"));
    }
}

/// `<slug>` or `<slug>@<version>`, each part an id.
fn is_versioned_ref(text: &str) -> bool {
    let mut parts = text.splitn(2, '@');
    parts.all(|part| problems::is_id(part) && !part.contains('@'))
}

/// The named surface, if exactly its fields are present.
fn check_surface(root: &Member<'_, '_>, target: &Target<'_>, problems: &mut Problems) -> Option<Surface> {
    let named = root.get("surface");
    let surface = problems.take(named.text()).and_then(|text| {
        let surface = Surface::parse(text);
        if surface.is_none() {
            problems.add(named.refusal("`workflow` or `agent-session`"));
        }
        surface
    });
    let (run, session) = (root.get("workflowRun"), root.get("interactive"));
    if run.is_given() == session.is_given() {
        let message = "a dispatch must have exactly one of `workflowRun` and `interactive`";
        problems.add(Error::new(Code::DispatchInvalid, message));
    }
    if run.is_given() && problems.take(run.object()).is_some() {
        problems.id(&run.get("runId"));
        problems.id(&run.get("jobRunId"));
    }
    if session.is_given() && problems.take(session.object()).is_some() {
        problems.id(&session.get("sessionId"));
        let turn_gen = session.get("turnGen");
        if turn_gen.non_null().is_some() {
            problems.integer(&turn_gen, 0..=u64::from(u32::MAX));
        }
    }
    let surface = surface?;
    let fits = match surface {
        Surface::Workflow => run.is_given(),
        Surface::AgentSession => session.is_given(),
    };
    if !fits && run.is_given() != session.is_given() {
        let message =
            format!("the surface is `{surface}`, but the given member belongs to the other surface");
        problems.add(Error::new(Code::DispatchInvalid, message).detail("pointer", "/surface"));
    }
    if !target.surface_compat.contains(&surface) {
        let message = format!("the manifest does not support the surface `{surface}`");
        problems.add(Error::new(Code::SurfaceIncompatible, message).detail("surface", surface.as_str()));
    }
    Some(surface)
}

fn check_role(root: &Member<'_, '_>, surface: Option<Surface>, problems: &mut Problems) -> Option<Role> {
    let named = root.get("role");
    let text = problems.take(named.text())?;
    let Some(role) = Role::parse(text) else {
        let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        problems.add(named.refusal(&format!("one of {}", roles.join(", "))));
        return None;
    };
    if let Some(surface) = surface.filter(|surface| !takes(*surface, role)) {
        let taken: Vec<&str> =
            Role::ALL.iter().filter(|role| takes(surface, **role)).map(|role| role.as_str()).collect();
        let message = format!(
            "the role `{role}` is not allowed on the surface `{surface}`; allowed roles: {}",
            taken.join(", ")
        );
        let refusal = Error::new(Code::DispatchRoleSurface, message);
        problems.add(refusal.detail("role", role.as_str()).detail("surface", surface.as_str()));
    }
    Some(role)
}

fn check_inputs(root: &Member<'_, '_>, target: &Target<'_>, problems: &mut Problems) {
    let inputs = root.get("inputs");
    let none = Map::new();
    let given = if inputs.non_null().is_some() { problems.take(inputs.object()) } else { Some(&none) };
    if let Some(Err(problem)) = given.map(target.check_inputs) {
        problems.add_all(problem);
    }
}

fn refuse_what_only_runs_have(root: &Member<'_, '_>, problems: &mut Problems) {
    let context = root.get("agentContext");
    if context.get("inputArtifacts").len() > 0 {
        problems.add(only_for_runs(&context.get("inputArtifacts")));
    }
    // As in composing, presence counts; only the contract member itself may be null.
    let spec_ref = root.get("deliverableSpecRef");
    if spec_ref.non_null().is_some() {
        problems.add(only_for_runs(&spec_ref));
    }
    for key in ["deliverableSpecRef", "deliverablesRef"] {
        let member = context.get(key);
        if member.is_given() {
            problems.add(only_for_runs(&member));
        }
    }
}

fn only_for_runs(member: &Member<'_, '_>) -> Error {
    let pointer = member.pointer();
    let message = format!("`{pointer}` is only allowed for workflow runs, but this is a session");
    Error::new(Code::DispatchInvalid, message).detail("pointer", pointer)
}

fn check_deadline(deadline: &Member<'_, '_>, problems: &mut Problems) -> Option<u64> {
    problems.integer(deadline, DEADLINE_MS)
}

fn unknown_member(key: &str) -> Error {
    let shown = problems::quoted(key);
    let guess = nearest(&shown, MEMBERS, 1);
    let guess = guess.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let message = format!("unknown member {shown:?}{guess}");
    Error::new(Code::DispatchInvalid, message).detail("member", shown)
}
