//! Evaluates criteria, and reports every failed rule.

use serde_json::{Map, Value};

use super::{super::condition, MAX_DEPTH, dot, pattern, validator};
use crate::workflow::{
    compiled::{Condition, Criteria},
    condition::EvaluationError,
    problem::{item, member, quoted},
};

/// What is said of a text or a pattern that the notes lack. The author's message says which.
const NOT_FOUND: &str = "not found in the notes";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriteriaVerdict {
    /// All failed rules, in the order of the text; empty if the notes pass.
    pub failures: Vec<CriteriaFailure>,
}

impl CriteriaVerdict {
    /// Whether the notes pass.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One failed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriteriaFailure {
    /// The path of the rule, below the criteria.
    pub path: String,
    /// How it failed.
    pub kind: FailureKind,
    /// The author's message.
    pub message: String,
    /// What was found.
    pub detail: String,
}

/// How a rule failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It must pass, but does not.
    Required,
    /// It is one of several alternatives, and none passes.
    Alternative,
    /// It passes, but must not.
    Forbidden,
}

impl FailureKind {
    const fn negated(self) -> Self {
        match self {
            Self::Required | Self::Alternative => Self::Forbidden,
            Self::Forbidden => Self::Required,
        }
    }
}

/// Evaluates criteria against notes.
///
/// # Errors
/// The criteria cannot be evaluated. This cannot happen for criteria that [`check`](super::check) accepted.
pub fn evaluate(
    criteria: &Criteria,
    notes: &str,
    context: &Map<String, Value>,
) -> Result<CriteriaVerdict, EvaluationError> {
    let evaluation = Evaluation { notes, context };
    let mut failures = Vec::new();
    match &criteria.0 {
        Value::Array(rules) => {
            evaluation.junction(rules, "", Join::All, FailureKind::Required, 1, &mut failures)?;
        }
        node => {
            evaluation.node(node, "", FailureKind::Required, 1, &mut failures)?;
        }
    }
    Ok(CriteriaVerdict { failures })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    All,
    Any,
}

struct Evaluation<'e> {
    notes: &'e str,
    context: &'e Map<String, Value>,
}

/// Passed, failed, or ignored.
type RuleResult = Option<bool>;

impl Evaluation<'_> {
    /// `kind` is how a rule below counts as failed. Failed rules are added to `failures`.
    fn node(
        &self,
        node: &Value,
        path: &str,
        kind: FailureKind,
        depth: usize,
        failures: &mut Vec<CriteriaFailure>,
    ) -> Result<RuleResult, EvaluationError> {
        if depth > MAX_DEPTH {
            return Err(malformed(path, "it is nested too deeply"));
        }
        let members = node.as_object().ok_or_else(|| malformed(path, "it is not an object"))?;
        if members.contains_key("type") {
            return self.rule(members, path, kind, failures);
        }
        for (name, join) in [("and", Join::All), ("or", Join::Any)] {
            if let Some(rules) = members.get(name) {
                let path = member(path, name);
                let rules = rules.as_array().ok_or_else(|| malformed(&path, "it is not a list"))?;
                return self.junction(rules, &path, join, kind, depth, failures);
            }
        }
        let inner = members.get("not").ok_or_else(|| malformed(path, "it is not a rule"))?;
        let outcome = self.node(inner, &member(path, "not"), kind.negated(), depth + 1, failures)?;
        Ok(outcome.map(|passed| !passed))
    }

    fn junction(
        &self,
        rules: &[Value],
        path: &str,
        join: Join,
        kind: FailureKind,
        depth: usize,
        failures: &mut Vec<CriteriaFailure>,
    ) -> Result<RuleResult, EvaluationError> {
        // Below a `not`, `and` and `or` are exchanged: `not (a or b)` requires that neither passes.
        let forbidden = kind == FailureKind::Forbidden;
        let below = match (join, forbidden) {
            (Join::Any, false) => FailureKind::Alternative,
            _ => kind,
        };
        let mut found = Vec::new();
        let mut outcome = None;
        for (index, rule) in rules.iter().enumerate() {
            let passed = self.node(rule, &item(path, index), below, depth + 1, &mut found)?;
            outcome = match (outcome, passed, join) {
                (None, other, _) | (other, None, _) => other,
                (Some(a), Some(b), Join::All) => Some(a && b),
                (Some(a), Some(b), Join::Any) => Some(a || b),
            };
        }
        // Report the rules only if the junction as a whole fails.
        if outcome == Some(forbidden) {
            failures.append(&mut found);
        }
        Ok(outcome)
    }

    fn rule(
        &self,
        members: &Map<String, Value>,
        path: &str,
        kind: FailureKind,
        failures: &mut Vec<CriteriaFailure>,
    ) -> Result<RuleResult, EvaluationError> {
        if !applies(members, self.context)? {
            return Ok(None);
        }
        let text = |key: &str| {
            members
                .get(key)
                .and_then(Value::as_str)
                .ok_or_else(|| malformed(path, &format!("it has no `{key}`")))
        };
        let (passed, detail) = match text("type")? {
            "contains" => (self.notes.contains(text("value")?), NOT_FOUND.to_owned()),
            "regex" => {
                let flags = members.get("flags").and_then(Value::as_str).unwrap_or_default();
                let pattern = pattern(text("pattern")?, flags).map_err(|reason| malformed(path, &reason))?;
                (pattern.is_match(self.notes), NOT_FOUND.to_owned())
            }
            "length" => {
                let measured = self.notes.chars().count() as u64;
                let bound = |key: &str| members.get(key).and_then(Value::as_u64);
                let (least, most) = (bound("min").unwrap_or(0), bound("max").unwrap_or(u64::MAX));
                let limit = if measured < least {
                    format!("at least {least} are required")
                } else {
                    format!("at most {most} are allowed")
                };
                let detail = format!("the notes have {measured} characters; {limit}");
                ((least..=most).contains(&measured), detail)
            }
            "schema" => {
                let block = members.get("block").and_then(Value::as_str);
                self.schema(members.get("schema").unwrap_or(&Value::Null), block, path)?
            }
            other => return Err(malformed(path, &format!("unknown type {:?}", quoted(other)))),
        };
        let is_failure = passed == (kind == FailureKind::Forbidden);
        if is_failure {
            let detail = if passed { "the rule matches but must not".to_owned() } else { detail };
            let message = text("message").unwrap_or_default().to_owned();
            failures.push(CriteriaFailure { path: path.to_owned(), kind, message, detail });
        }
        Ok(Some(passed))
    }

    fn schema(
        &self,
        schema: &Value,
        block: Option<&str>,
        path: &str,
    ) -> Result<(bool, String), EvaluationError> {
        let validator = validator(schema).map_err(|reason| malformed(path, &reason))?;
        let (text, what) = match block {
            None => (self.notes.to_owned(), "the notes are".to_owned()),
            Some(name) => match json_block(self.notes, name) {
                Some(text) => (text, format!("the block ```json {name} is")),
                None => return Ok((false, format!("the notes have no fenced block ```json {name}"))),
            },
        };
        let value = match canon::json::read(text.as_bytes(), &canon::json::Limits::default().max_depth(64)) {
            Ok(value) => value,
            Err(error) => return Ok((false, format!("{what} not JSON: {error}"))),
        };
        let reasons: Vec<String> = validator
            .iter_errors(&value)
            .take(5)
            .map(|error| {
                let place = error.instance_path().to_string();
                format!("{}: {}", if place.is_empty() { "/" } else { &place }, quoted(&error.to_string()))
            })
            .collect();
        Ok((reasons.is_empty(), reasons.join("; ")))
    }
}

/// The text of the fenced JSON block with a name. If there are several, the last counts as a correction.
fn json_block(notes: &str, name: &str) -> Option<String> {
    let mut found = None;
    let mut lines = notes.lines();
    while let Some(line) = lines.next() {
        let opening = line.trim_start();
        let fence = opening.bytes().take_while(|byte| *byte == b'`').count();
        if fence < 3 {
            continue;
        }
        let is_named = opening[fence..].split_whitespace().eq(["json", name]);
        let closes = |line: &str| {
            let line = line.trim();
            line.len() >= fence && line.bytes().all(|byte| byte == b'`')
        };
        // Ignore a fence that is not closed, because its end is unknown.
        let mut block = String::new();
        let mut closed = false;
        for line in lines.by_ref() {
            if closes(line) {
                closed = true;
                break;
            }
            block.push_str(line);
            block.push('\n');
        }
        if is_named && closed {
            found = Some(block);
        }
    }
    found
}

/// Whether the condition of a rule holds; a rule without one always applies.
pub(super) fn applies(
    members: &Map<String, Value>,
    context: &Map<String, Value>,
) -> Result<bool, EvaluationError> {
    match members.get("condition") {
        Some(condition) => condition::evaluate(&Condition(condition.clone()), context),
        None => Ok(true),
    }
}

fn malformed(path: &str, reason: &str) -> EvaluationError {
    EvaluationError { what: format!("validationCriteria{}{path}", dot(path)), reason: reason.to_owned() }
}
