//! Run options. Version 1 has one flat object with dotted names, version 2 a closed object with groups.

use serde_json::{Map, Value, json};

/// The options with a name in both versions: group and name in version 2, name in version 1.
const OPTIONS: [(&str, &str, &str); 13] = [
    ("run", "recursionLimit", "recursionLimit"),
    ("run", "runTimeoutMs", "runTimeoutMs"),
    ("run", "maxLoopIterations", "maxLoopIterations"),
    ("run", "escalationThreshold", "escalationThreshold"),
    ("ai", "provider", "ai.provider"),
    ("ai", "model", "model"),
    ("ai", "temperature", "temperature"),
    ("ai", "maxTokens", "maxTokens"),
    ("ai", "credentialRef", "ai.credentialRef"),
    ("ai", "promptOverrides", "promptOverrides"),
    ("ai", "mockProvider", "mockProvider"),
    ("ai", "reasoningVerbosity", "reasoningVerbosity"),
    ("ai", "maxRefusals", "ai.maxRefusals"),
];

/// Groups that are the same in both versions.
const SAME: [&str; 2] = ["distillation", "budget"];
/// The organization under which options of a workflow's own schema appear, whose names have no dot.
const WORKFLOW: &str = "workflow";

/// An invalid member of the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`configurable{path}` {problem}")]
pub struct OptionError {
    /// The path below `configurable`.
    pub path: String,
    pub problem: &'static str,
}

fn wrong(path: String, problem: &'static str) -> OptionError {
    OptionError { path, problem }
}

/// The options of version 1. A group or option that is `null`, as typed clients send it, is not set.
///
/// # Errors
/// A member is unknown, or a group is not an object.
pub fn to_v1(options: &Map<String, Value>) -> Result<Map<String, Value>, OptionError> {
    if options.get("version") != Some(&json!(1)) {
        return Err(wrong(".version".to_owned(), "is required and must be 1."));
    }
    let mut flat = Map::new();
    for (group, value) in options.iter().filter(|(group, _)| *group != "version") {
        if value.is_null() && is_group(group) {
            continue;
        }
        let Value::Object(members) = value else {
            return Err(wrong(format!(".{group}"), "must be an object."));
        };
        match group.as_str() {
            "run" | "ai" => {
                for (name, value) in members {
                    let found = OPTIONS.iter().find(|(known, option, _)| known == group && option == name);
                    let Some((_, _, v1)) = found else {
                        return Err(wrong(format!(".{group}.{name}"), "is unknown."));
                    };
                    if !value.is_null() {
                        flat.insert((*v1).to_owned(), verbosity(v1, value, "none", "off"));
                    }
                }
            }
            "extensions" => {
                for (organization, members) in members {
                    let Value::Object(members) = members else {
                        return Err(wrong(format!(".extensions.{organization}"), "must be an object."));
                    };
                    for (name, value) in members {
                        let name = if organization == WORKFLOW {
                            name.clone()
                        } else {
                            format!("{organization}.{name}")
                        };
                        flat.insert(name, value.clone());
                    }
                }
            }
            same if SAME.contains(&same) => {
                flat.insert(same.to_owned(), value.clone());
            }
            unknown => return Err(wrong(format!(".{unknown}"), "is unknown.")),
        }
    }
    Ok(flat)
}

fn is_group(name: &str) -> bool {
    matches!(name, "run" | "ai" | "extensions") || SAME.contains(&name)
}

/// The options of version 2. `None` if there are none.
pub fn to_v2(flat: &Map<String, Value>) -> Option<Map<String, Value>> {
    if flat.is_empty() {
        return None;
    }
    let mut options = Map::from_iter([("version".to_owned(), json!(1))]);
    let mut put = |path: &[&str], value: Value| {
        let mut at = &mut options;
        let Some((last, groups)) = path.split_last() else { return };
        for group in groups {
            let next = at.entry(*group).or_insert_with(|| json!({}));
            let Value::Object(members) = next else { return };
            at = members;
        }
        at.insert((*last).to_owned(), value);
    };
    for (name, value) in flat {
        let known = OPTIONS.iter().find(|(group, option, v1)| {
            v1 == name || name.split_once('.').is_some_and(|dotted| dotted == (*group, *option))
        });
        match (known, name.split_once('.')) {
            (Some((group, option, v1)), _) => put(&[group, option], verbosity(v1, value, "off", "none")),
            (None, _) if SAME.contains(&name.as_str()) => put(&[name], value.clone()),
            // Version 1 also has the options of `ai` as an object.
            (None, None) if name == "ai" && value.is_object() => {
                for (option, value) in value.as_object().into_iter().flatten() {
                    put(&["ai", option], value.clone());
                }
            }
            (None, Some((organization, rest))) => put(&["extensions", organization, rest], value.clone()),
            (None, None) => put(&["extensions", WORKFLOW, name], value.clone()),
        }
    }
    Some(options)
}

/// Reasoning that is not reported is `off` in version 1 and `none` in version 2.
fn verbosity(name: &str, value: &Value, from: &str, to: &str) -> Value {
    if name == "reasoningVerbosity" && value == from { to.into() } else { value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("not an object: {other}"),
        }
    }

    #[test]
    fn options_are_the_same_in_both_versions() {
        let nested = members(json!({
            "version": 1,
            "run": {"recursionLimit": 5, "escalationThreshold": 0.5},
            "ai": {"provider": "mock", "model": "m", "reasoningVerbosity": "none", "credentialRef": "c"},
            "distillation": {"tokenBudget": 10},
            "extensions": {"acme": {"x": 1}},
        }));
        let flat = members(json!({
            "recursionLimit": 5, "escalationThreshold": 0.5, "ai.provider": "mock", "model": "m",
            "reasoningVerbosity": "off", "ai.credentialRef": "c", "distillation": {"tokenBudget": 10}, "acme.x": 1,
        }));
        assert_eq!(to_v1(&nested), Ok(flat.clone()));
        assert_eq!(to_v2(&flat), Some(nested));
        assert_eq!(to_v2(&Map::new()), None);
        let spelled = to_v2(&members(json!({"ai": {"model": "a"}}))).unwrap();
        assert_eq!(Value::Object(spelled), json!({"version": 1, "ai": {"model": "a"}}));
    }

    #[test]
    fn options_that_are_null_are_not_set() {
        let nested = json!({"version": 1, "run": {"recursionLimit": 5, "runTimeoutMs": null}, "ai": null, "budget": null});
        assert_eq!(to_v1(&members(nested)), Ok(members(json!({"recursionLimit": 5}))));
    }

    #[test]
    fn unknown_and_dotted_members_are_refused() {
        for (options, path) in [
            (json!({}), ".version"),
            (json!({"version": 2}), ".version"),
            (json!({"version": 1, "recursionLimit": 5}), ".recursionLimit"),
            (json!({"version": 1, "run": {"model": "m"}}), ".run.model"),
            (json!({"version": 1, "ai.model": {}}), ".ai.model"),
            (json!({"version": 1, "run": 5}), ".run"),
            (json!({"version": 1, "runs": null}), ".runs"),
            (json!({"version": 1, "extensions": {"acme": 1}}), ".extensions.acme"),
        ] {
            assert_eq!(to_v1(&members(options.clone())).unwrap_err().path, path, "{options}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nested_options_come_back(picked in proptest::collection::btree_map(0..OPTIONS.len(), 1..9_u8, 1..9)) {
            let mut nested = json!({"version": 1});
            for (place, value) in &picked {
                let (group, name, _) = OPTIONS[*place];
                nested[group][name] = json!(value);
            }
            let Value::Object(nested) = nested else { unreachable!() };
            proptest::prop_assert_eq!(to_v2(&to_v1(&nested).unwrap()), Some(nested));
        }
    }
}
