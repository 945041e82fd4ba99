//! The top level of a workflow file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    context_keys, definitions,
    model::{AcceptedKind, ExtensionPoint, MetricsProfile, RecommendedPreferences, Source},
    names,
    reader::{MAX_ITEMS, Object, Reader, ValueAt},
    steps::{self, Steps},
};
use crate::{
    record::{Autonomy, Capability, RiskPolicy},
    workflow::{
        compiled::{CapabilityNeed, ModelTier, Reference, ResolveFrom},
        ids::{self, IdError, SourceOrigin},
        problem::ProblemCode as Code,
    },
};

pub(super) const MODEL_TIERS: [(&str, ModelTier); 3] =
    [("lightweight", ModelTier::Lightweight), ("mid", ModelTier::Mid), ("heavy", ModelTier::Heavy)];

const CAPABILITIES: [(&str, Capability); 2] =
    [("delegation", Capability::Delegation), ("web_browsing", Capability::WebBrowsing)];

const NEEDS: [(&str, CapabilityNeed); 3] = [
    ("required", CapabilityNeed::Required),
    ("preferred", CapabilityNeed::Preferred),
    ("disabled", CapabilityNeed::Disabled),
];

const AUTONOMY: [(&str, Autonomy); 3] = [
    ("guided", Autonomy::Guided),
    ("full_auto_stop_on_user_deps", Autonomy::FullAutoStopOnUserDeps),
    ("full_auto_never_stop", Autonomy::FullAutoNeverStop),
];

const RISK: [(&str, RiskPolicy); 3] = [
    ("conservative", RiskPolicy::Conservative),
    ("balanced", RiskPolicy::Balanced),
    ("aggressive", RiskPolicy::Aggressive),
];

const METRICS: [(&str, MetricsProfile); 6] = [
    ("coding", MetricsProfile::Coding),
    ("review", MetricsProfile::Review),
    ("research", MetricsProfile::Research),
    ("design", MetricsProfile::Design),
    ("ticket", MetricsProfile::Ticket),
    ("none", MetricsProfile::None),
];

pub(super) fn read(reader: &mut Reader, value: &Value, origin: SourceOrigin) -> Source {
    let mut object = reader.object((value, String::new()));
    let o = &mut object;
    let source = Source {
        id: id(reader, o, origin),
        name: o.need_text(reader, "name", 1..=128),
        description: o.need_text(reader, "description", 1..=512),
        version: version(reader, o),
        inputs: context_keys::read(reader, o, "inputs"),
        steps: match o.need(reader, "steps") {
            Some(found) => steps::read_list(reader, found, &mut Steps::default()),
            None => Vec::new(),
        },
        about: o.text(reader, "about", 1..=4096),
        examples: match o.get("examples") {
            Some(found) => {
                let items = reader.items(found, 1..=6);
                items.into_iter().map(|found| reader.text(found, 10..=120)).collect()
            }
            None => Vec::new(),
        },
        model_tier: o.choice(reader, "modelTier", &MODEL_TIERS),
        preconditions: o.texts(reader, "preconditions", names::SHORT),
        clarification_prompts: o.texts(reader, "clarificationPrompts", names::SHORT),
        meta_guidance: o.texts(reader, "metaGuidance", names::SHORT),
        agent_role: o.text(reader, "agentRole", names::AGENT_ROLE),
        function_definitions: definitions::functions(reader, o),
        recommended_preferences: o.get("recommendedPreferences").map(|found| preferences(reader, found)),
        features: o.texts(reader, "features", names::REGISTRY_ID),
        capabilities: capabilities(reader, o),
        assessments: o.list(reader, "assessments", 0..=MAX_ITEMS, definitions::assessment),
        conditions: o.list(reader, "conditions", 0..=MAX_ITEMS, definitions::condition),
        extension_points: o.list(reader, "extensionPoints", 0..=MAX_ITEMS, extension_point),
        references: o.list(reader, "references", 0..=MAX_ITEMS, reference),
        metrics_profile: o.choice(reader, "metricsProfile", &METRICS),
        validated_against_spec_version: o
            .get("validatedAgainstSpecVersion")
            .map(|found| reader.number(found, 1..=1_000_000)),
    };
    reader.finish(&object);
    source
}

fn id(reader: &mut Reader, object: &mut Object<'_>, origin: SourceOrigin) -> String {
    let before = reader.problems.len();
    let Some(found) = object.need(reader, "id") else { return String::new() };
    let path = found.1.clone();
    let id = reader.text(found, 0..=usize::MAX);
    if reader.problems.len() > before {
        return id;
    }
    if let Err(error) = ids::check(&id, origin) {
        let code = match error {
            IdError::Reserved { .. } => Code::ReservedId,
            IdError::Length { .. } => Code::LengthOutOfRange,
            IdError::Spelling { .. } => Code::InvalidName,
        };
        let suggestion = ids::suggest(&id, origin, b"", |_| false);
        reader.report(&path, code, error.to_string(), format!("Use an id such as `{suggestion}`."));
    }
    id
}

fn version(reader: &mut Reader, object: &mut Object<'_>) -> String {
    let before = reader.problems.len();
    let version = object.need_text(reader, "version", 1..=64);
    if reader.problems.len() == before && !version.is_empty() && !is_semantic(&version) {
        let message = format!("{version:?} is not a semantic version");
        reader.report(
            &object.path_of("version"),
            Code::InvalidVersion,
            message,
            "Write three numbers, as in `1.0.0`.",
        );
    }
    version
}

/// `MAJOR.MINOR.PATCH`, then an optional `-pre.release` and an optional `+build`.
fn is_semantic(version: &str) -> bool {
    let (rest, build) = version.split_once('+').map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    core.split('.').count() == 3
        && core.split('.').all(number)
        && [pre, build].into_iter().flatten().all(|part| part.split('.').all(word))
}

fn preferences(reader: &mut Reader, found: ValueAt<'_>) -> RecommendedPreferences {
    let mut object = reader.object(found);
    let preferences = RecommendedPreferences {
        recommended_autonomy: object.choice(reader, "recommendedAutonomy", &AUTONOMY),
        recommended_risk_policy: object.choice(reader, "recommendedRiskPolicy", &RISK),
    };
    reader.finish(&object);
    preferences
}

fn capabilities(reader: &mut Reader, object: &mut Object<'_>) -> BTreeMap<Capability, CapabilityNeed> {
    let Some(found) = object.get("capabilities") else { return BTreeMap::new() };
    let mut members = reader.object(found);
    let read = CAPABILITIES
        .iter()
        .filter_map(|(name, capability)| Some((*capability, members.choice(reader, name, &NEEDS)?)))
        .collect();
    reader.finish(&members);
    read
}

fn extension_point(reader: &mut Reader, found: ValueAt<'_>) -> ExtensionPoint {
    let mut o = reader.object(found);
    let point = ExtensionPoint {
        slot_id: o.need(reader, "slotId").map(|found| reader.name(found, &names::SLOT)).unwrap_or_default(),
        purpose: o.need_text(reader, "purpose", names::PURPOSE),
        default: o.need_text(reader, "default", names::REGISTRY_ID),
        accepted_kinds: {
            let kinds = [("routine", AcceptedKind::Routine), ("workflow", AcceptedKind::Workflow)];
            let read = o.list(reader, "acceptedKinds", 1..=2, |reader, found| reader.choice(found, &kinds));
            read.into_iter().flatten().collect()
        },
    };
    reader.finish(&o);
    point
}

fn reference(reader: &mut Reader, found: ValueAt<'_>) -> Reference {
    let mut o = reader.object(found);
    let reference = Reference {
        id: o.need(reader, "id").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default(),
        title: o.need_text(reader, "title", names::TITLE),
        source: o.need_text(reader, "source", names::PURPOSE),
        purpose: o.need_text(reader, "purpose", names::PURPOSE),
        authoritative: o.need(reader, "authoritative").is_some_and(|found| reader.flag(found)),
        resolve_from: o
            .choice(
                reader,
                "resolveFrom",
                &[("workspace", ResolveFrom::Workspace), ("package", ResolveFrom::Package)],
            )
            .unwrap_or(ResolveFrom::Workspace),
    };
    reader.finish(&o);
    reference
}
