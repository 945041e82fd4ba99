//! The effect of each layer.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use workspace::Code;
use workspace::environment::resolved::{self, AgentFacts, Invocation, SubAgentLayer, Tier};
use workspace::manifest::{Permissions, Skill, SubAgent, Surface, ToolKey};

use super::{Rows, bound, credential, resolve, table};

fn sub_agents(value: Value) -> Vec<SubAgent> {
    serde_json::from_value(value).unwrap()
}

fn skills(slugs: &[&str]) -> Vec<Skill> {
    serde_json::from_value(json!(slugs.iter().map(|slug| json!({ "slug": slug })).collect::<Vec<_>>()))
        .unwrap()
}

#[test]
fn a_later_layer_only_adds_agents_and_changes_models() {
    let intrinsic =
        sub_agents(json!([{"slug": "qa", "alias": "q", "defaultModel": "one"}, {"slug": "docs"}]));
    let manifest =
        sub_agents(json!([{"slug": "qa", "alias": "renamed", "defaultModel": "two"}, {"slug": "ops"}]));
    let invocation =
        sub_agents(json!([{"slug": "ops", "defaultModel": "three"}, {"slug": "qa"}, {"slug": "new"}]));
    let resolved = resolved::sub_agents(&intrinsic, &manifest, &invocation);
    let shown: Vec<(&str, Option<&str>, Option<&str>, SubAgentLayer)> = resolved
        .iter()
        .map(|agent| {
            (
                agent.slug.as_str(),
                agent.alias.as_deref(),
                agent.model.as_ref().and_then(Value::as_str),
                agent.layer,
            )
        })
        .collect();
    let expected = [
        ("qa", Some("q"), Some("two"), SubAgentLayer::Intrinsic),
        ("docs", None, None, SubAgentLayer::Intrinsic),
        ("ops", None, Some("three"), SubAgentLayer::Manifest),
        ("new", None, None, SubAgentLayer::Invocation),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn everything_is_resolved_from_its_layers() {
    let tool = |id: &str| json!({"kind": "provider", "providerKind": "catalog", "resourceId": id});
    let bound = bound(json!({
        "mounts": {"repos": true, "references": true, "inputs": false},
        "skills": [{"slug": "b"}, {"slug": "sys"}],
        "toolSelection": [tool("manifest")],
        "permissions": {"tools": {"deny": ["exec"]}},
        "credentials": [credential("T", "1", false)],
        "persistence": {"paths": ["p"]},
        "outputSurface": {"kind": "web", "port": 3000},
    }));
    let outcome = resolve(&bound, &[], table(&[])).unwrap();
    let facts = AgentFacts {
        version: Some("3".to_owned()),
        model: Some(json!("m-agent")),
        skills: skills(&["a"]),
        system_skills: skills(&["sys"]),
        grant: [ToolKey::Read, ToolKey::Exec].into(),
        ..AgentFacts::default()
    };
    let rows = Rows(vec![
        ("sys", "1.0.0", Tier::System),
        ("a", "2.0.0", Tier::Org),
        ("b", "1.1.0", Tier::User),
        ("s", "1.0.0", Tier::Project),
    ]);
    let session: Vec<_> = serde_json::from_value(json!([tool("session")])).unwrap();
    let briefcase: Vec<_> = serde_json::from_value(json!([tool("session"), tool("case")])).unwrap();
    let invocation = Invocation {
        skills: skills(&["s", "a"]),
        tools: Some(session),
        mcp_tools: briefcase,
        ..Invocation::default()
    };
    let resolved =
        resolved::resolve(&bound, Surface::ALL, &facts, &invocation, &outcome, &rows, "2026-01-01T00:00:00Z")
            .unwrap();
    let written = serde_json::to_value(&resolved).unwrap();
    assert_eq!(
        written["skills"],
        json!([
            {"slug": "sys", "version": "1.0.0", "tier": "system", "layer": "system"},
            {"slug": "a", "version": "2.0.0", "tier": "org", "layer": "agent"},
            {"slug": "b", "version": "1.1.0", "tier": "user", "layer": "manifest"},
            {"slug": "s", "version": "1.0.0", "tier": "project", "layer": "session"},
        ])
    );
    let tools: Vec<&Value> =
        written["toolSelection"].as_array().unwrap().iter().map(|tool| &tool["resourceId"]).collect();
    assert_eq!(tools, ["session", "case"]);
    assert_eq!(written["permissions"], json!(["read"]));
    assert_eq!(
        written["mounts"],
        json!([{"slot": "references", "mode": "read-only"}, {"slot": "repos", "mode": "read-write"}])
    );
    assert_eq!(written["credentials"][0]["resolved"], false);
    assert_eq!(
        written["outputSurface"],
        json!({"kind": "web", "port": 3000, "healthPath": "/", "autoOpen": false})
    );
    let reread: resolved::ResolvedEnvironment = serde_json::from_value(written).unwrap();
    assert_eq!(reread, resolved, "the stored copy is read as it was written");
    let models =
        [(Some("call"), Some("node"), "call"), (None, Some("node"), "node"), (None, None, "m-manifest")];
    for (call, node, expected) in models {
        let invocation = Invocation {
            model: call.map(Value::from),
            node_model: node.map(Value::from),
            ..Invocation::default()
        };
        let resolved =
            resolved::resolve(&bound, Surface::ALL, &facts, &invocation, &outcome, &rows, "").unwrap();
        assert_eq!(resolved.agent.model, Some(expected.into()));
    }
    let error =
        resolved::resolve(&bound, Surface::ALL, &facts, &Invocation::default(), &outcome, &Rows(vec![]), "")
            .unwrap_err();
    assert_eq!(
        (error.code(), error.causes().len()),
        (Code::SkillVersionUnsatisfied, 2),
        "all of them together"
    );
}

proptest! {
    #[test]
    fn permissions_only_shrink(grant in keys(), allow in prop::option::of(keys()), deny in keys(), call in prop::option::of(keys())) {
        let manifest = permissions_of(allow.as_ref(), &deny);
        let permitted = resolved::permissions(&grant, &manifest, call.as_ref());
        let expected: Vec<ToolKey> = grant.iter().copied()
            .filter(|key| allow.as_ref().is_none_or(|allow| allow.contains(key)))
            .filter(|key| !deny.contains(key))
            .filter(|key| call.as_ref().is_none_or(|call| call.contains(key)))
            .collect();
        prop_assert!(permitted.iter().all(|key| grant.contains(key)));
        prop_assert_eq!(permitted, expected);
    }
}

fn keys() -> impl Strategy<Value = BTreeSet<ToolKey>> {
    prop::collection::btree_set(prop::sample::select(ToolKey::ALL), 0..6)
}

/// Permissions come only from a manifest.
fn permissions_of(allow: Option<&BTreeSet<ToolKey>>, deny: &BTreeSet<ToolKey>) -> Permissions {
    let mut tools = json!({ "deny": deny });
    if let Some(allow) = allow {
        tools["allow"] = json!(allow);
    }
    bound(json!({"permissions": {"tools": tools}})).permissions
}
