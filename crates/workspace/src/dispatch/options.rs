//! Optional members of a dispatch: models, sub-agents, limits, resumption.

use super::problems::{Problems, is_id};
use crate::compose::member::Member;
use crate::{Code, Error};

/// The model classes of a strategy.
const MODEL_CLASSES: [&str; 5] = ["coding", "review", "creative", "planning", "utility"];

/// The limits of an agent composition, with their maxima.
const COMPOSITION_LIMITS: [(&str, u64); 3] = [("maxDepth", 8), ("maxFanout", 32), ("maxSpawns", 256)];

/// The highest temperature of any provider.
const MAX_TEMPERATURE: f64 = 2.0;

/// The longest snapshot reference, in bytes: a digest or a path.
const MAX_SNAPSHOT_REF_BYTES: usize = 1024;

pub(super) fn check(root: &Member<'_, '_>, problems: &mut Problems) {
    problems.take(root.get("deliverableSpecRef").text_if_any());
    check_env_overlay(&root.get("envOverlay"), problems);
    check_model(&root.get("model"), problems);
    let sub_agents = root.get("subAgents");
    if problems.take(sub_agents.list().map(drop)).is_some() {
        for sub_agent in sub_agents.items() {
            if problems.take(sub_agent.object()).is_some() {
                problems.id(&sub_agent.get("slug"));
                let alias = sub_agent.get("alias");
                if alias.non_null().is_some() {
                    problems.id(&alias);
                }
                check_model(&sub_agent.get("modelOverride"), problems);
            }
        }
    }
    check_composition(&root.get("composition"), problems);
    check_resume_from(root, problems);
    let snapshot_ref = root.get("snapshotRef");
    if let Some(Some(text)) = problems.take(snapshot_ref.text_if_any())
        && (text.is_empty() || text.len() > MAX_SNAPSHOT_REF_BYTES || text.contains(char::is_control))
    {
        problems.add(snapshot_ref.refusal("the name of a snapshot"));
    }
}

/// Names and strings. The environment decides whether a name may be set.
fn check_env_overlay(overlay: &Member<'_, '_>, problems: &mut Problems) {
    if overlay.non_null().is_none() {
        return;
    }
    if let Some(members) = problems.take(overlay.object()) {
        for name in members.keys() {
            problems.take(overlay.get(name).text());
        }
    }
}

fn check_model(model: &Member<'_, '_>, problems: &mut Problems) {
    if model.non_null().is_none() || problems.take(model.object()).is_none() {
        return;
    }
    let kind = model.get("kind");
    match problems.take(kind.text()) {
        Some("strategy") => {
            let class = model.get("modelClass");
            if problems.take(class.text()).is_some_and(|text| !MODEL_CLASSES.contains(&text)) {
                problems.add(class.refusal(&format!("one of {}", MODEL_CLASSES.join(", "))));
            }
        }
        Some("concrete") => {
            let id = model.get("modelId");
            if problems.take(id.text()).is_some_and(str::is_empty) {
                problems.add(id.refusal("a non-empty string"));
            }
            problems.take(model.get("providerSlug").text_if_any());
        }
        Some(_) => problems.add(kind.refusal("`strategy` or `concrete`")),
        None => {}
    }
    let temperature = model.get("temperature");
    if temperature.non_null().is_some()
        && let Some(number) = problems.take(temperature.number())
        && !number.as_f64().is_some_and(|number| (0.0..=MAX_TEMPERATURE).contains(&number))
    {
        problems.add(temperature.refusal("a number from 0 to 2"));
    }
}

fn check_composition(composition: &Member<'_, '_>, problems: &mut Problems) {
    if composition.non_null().is_none() || problems.take(composition.object()).is_none() {
        return;
    }
    let limits = composition.get("limits");
    if limits.non_null().is_some() && problems.take(limits.object()).is_some() {
        for (key, max) in COMPOSITION_LIMITS {
            let limit = limits.get(key);
            if limit.non_null().is_some() {
                problems.integer(&limit, 0..=max);
            }
        }
    }
    let allowed = composition.get("allowedSubAgents");
    if let Some(slugs) = problems.take(allowed.texts())
        && !slugs.into_iter().all(is_id)
    {
        problems.add(allowed.refusal("a list of ids"));
    }
}

/// A run or a session of the same project.
fn check_resume_from(root: &Member<'_, '_>, problems: &mut Problems) {
    let from = root.get("resumeFrom");
    if from.non_null().is_none() || problems.take(from.object()).is_none() {
        return;
    }
    let (run, session, project) = (from.get("runId"), from.get("sessionId"), from.get("projectId"));
    match (run.is_given(), session.is_given()) {
        (true, false) => problems.id(&run),
        (false, true) => problems.id(&session),
        _ => problems.add(from.refusal("an object with one of `runId` and `sessionId`")),
    }
    problems.id(&project);
    if project.raw().is_some_and(|project| Some(project) != root.get("projectId").raw()) {
        let message = "`/resumeFrom` belongs to another project; only the same project can be resumed";
        problems.add(Error::new(Code::DispatchInvalid, message).detail("pointer", "/resumeFrom/projectId"));
    }
}
