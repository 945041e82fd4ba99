//! Whether notes keep their criteria, and every reason why not.

use serde_json::{Map, Value};

use super::{super::condition, MAX_DEPTH, dot, pattern, validator};
use crate::workflow::{
    compiled::{Condition, Criteria},
    condition::EvaluationError,
    problem::{item, member, quoted},
};

/// What came of evaluating criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriteriaVerdict {
    /// Every leaf that is in the way, in the order of the text; none when the notes pass.
    pub failures: Vec<CriteriaFailure>,
}

impl CriteriaVerdict {
    /// Whether the notes pass.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One rule that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriteriaFailure {
    /// Where the rule is, below the criteria.
    pub path: String,
    /// How it is in the way.
    pub kind: FailureKind,
    /// What the author says about it.
    pub message: String,
    /// What was found, in words.
    pub detail: String,
}

/// How a rule is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It has to pass, and fails.
    Required,
    /// One of several of which none passes: any of them will do.
    Alternative,
    /// It passes, and must not.
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
/// The criteria cannot be evaluated. No criteria that [`check`](super::check) let pass give one.
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

/// Passed, failed, or took no part.
type Outcome = Option<bool>;

impl Evaluation<'_> {
    /// `kind` is how a leaf below is in the way when it is; leaves that are go to `failures`.
    fn node(
        &self,
        node: &Value,
        path: &str,
        kind: FailureKind,
        depth: usize,
        failures: &mut Vec<CriteriaFailure>,
    ) -> Result<Outcome, EvaluationError> {
        if depth > MAX_DEPTH {
            return Err(malformed(path, "it is nested too deep"));
        }
        let members = node.as_object().ok_or_else(|| malformed(path, "it is no object"))?;
        if members.contains_key("type") {
            return self.rule(members, path, kind, failures);
        }
        for (name, join) in [("and", Join::All), ("or", Join::Any)] {
            if let Some(rules) = members.get(name) {
                let path = member(path, name);
                let rules = rules.as_array().ok_or_else(|| malformed(&path, "it is no list"))?;
                return self.junction(rules, &path, join, kind, depth, failures);
            }
        }
        let inner = members.get("not").ok_or_else(|| malformed(path, "it is no rule"))?;
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
    ) -> Result<Outcome, EvaluationError> {
        // Below a `not` the two junctions change places: `not (a or b)` needs neither.
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
        // Leaves are in the way only when the junction as a whole is.
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
    ) -> Result<Outcome, EvaluationError> {
        if !takes_part(members, self.context)? {
            return Ok(None);
        }
        let text = |key: &str| {
            members
                .get(key)
                .and_then(Value::as_str)
                .ok_or_else(|| malformed(path, &format!("it has no `{key}`")))
        };
        let (passed, detail) = match text("type")? {
            "contains" => (self.notes.contains(text("value")?), "the text was not found".to_owned()),
            "regex" => {
                let flags = members.get("flags").and_then(Value::as_str).unwrap_or_default();
                let pattern = pattern(text("pattern")?, flags).map_err(|reason| malformed(path, &reason))?;
                (pattern.is_match(self.notes), "the pattern matched nowhere".to_owned())
            }
            "length" => {
                let measured = self.notes.chars().count() as u64;
                let bound = |key: &str| members.get(key).and_then(Value::as_u64);
                let passed =
                    measured >= bound("min").unwrap_or(0) && measured <= bound("max").unwrap_or(u64::MAX);
                (passed, format!("the notes have {measured} characters"))
            }
            "schema" => {
                let block = members.get("block").and_then(Value::as_str);
                self.schema(members.get("schema").unwrap_or(&Value::Null), block, path)?
            }
            other => return Err(malformed(path, &format!("there is no type {:?}", quoted(other)))),
        };
        let in_the_way = passed == (kind == FailureKind::Forbidden);
        if in_the_way {
            let detail = if passed { "the rule holds, and must not".to_owned() } else { detail };
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

/// The text of the fenced block of JSON that has a name. Of several the last counts: it corrects the others.
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
        // A fence that nobody closes is none: its end is not known.
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

/// Whether the condition of a rule holds; a rule without one always takes part.
pub(super) fn takes_part(
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
