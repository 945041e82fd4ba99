//! Problems in a workflow file: where, what is wrong, and how to fix it.
//!
//! A file is read to its end: an author gets every problem at once, one per cause, in the order of their
//! paths, each with a code for programs and a fix for people.

use std::fmt;

use serde::{Deserialize, Serialize};

canon::error_codes! {
    pub enum ProblemCode {
        /// Not JSON or YAML: syntax, encoding, a duplicate key, or a limit of nesting or aliases.
        Unreadable => "SOURCE_UNREADABLE",
        /// The file, or its expanded form, exceeds a limit.
        TooLarge => "SOURCE_TOO_LARGE",
        /// A field has the wrong type.
        WrongType => "WRONG_TYPE",
        /// A required field is missing.
        MissingMember => "MISSING_MEMBER",
        UnknownMember => "UNKNOWN_MEMBER",
        /// A string or a list is too short or too long.
        LengthOutOfRange => "LENGTH_OUT_OF_RANGE",
        /// A number is too small, too large, or not exact.
        NumberOutOfRange => "NUMBER_OUT_OF_RANGE",
        /// A value is not one of a closed set.
        UnknownValue => "UNKNOWN_VALUE",
        /// An id, a name or a key has an invalid spelling.
        InvalidName => "INVALID_NAME",
        /// A workflow id in the reserved namespace.
        ReservedId => "RESERVED_ID",
        /// A version that is not a semantic version.
        InvalidVersion => "INVALID_VERSION",
        /// Something is defined twice.
        DuplicateId => "DUPLICATE_ID",
        /// A step needs exactly one of `prompt`, `promptBlocks` and `templateCall`.
        PromptChoice => "PROMPT_CHOICE",
        EmptyPrompt => "EMPTY_PROMPT",
        InvalidCondition => "INVALID_CONDITION",
        InvalidCriteria => "INVALID_CRITERIA",
        /// An unknown condition id.
        UnknownCondition => "UNKNOWN_CONDITION",
        /// An unknown contract reference.
        UnknownContract => "UNKNOWN_CONTRACT",
        /// An unknown feature id.
        UnknownFeature => "UNKNOWN_FEATURE",
        /// An unknown `wr.refs.…` id.
        UnknownRef => "UNKNOWN_REF",
        /// A ref in a position where its text would hide the instruction.
        MisplacedRef => "MISPLACED_REF",
        /// Refs and features would insert too much text into a step.
        InjectionTooLarge => "INJECTION_TOO_LARGE",
        /// An unknown template id.
        UnknownTemplate => "UNKNOWN_TEMPLATE",
        /// A template call with invalid arguments, or next to fields that are not allowed with it.
        InvalidTemplateCall => "INVALID_TEMPLATE_CALL",
        /// A template calls itself, or calls are nested too deeply.
        TemplateRecursion => "TEMPLATE_RECURSION",
        /// A bundled template is invalid.
        InvalidTemplate => "INVALID_TEMPLATE",
        /// An unknown extension slot.
        UnknownSlot => "UNKNOWN_SLOT",
        /// `{{wr.…}}` that is not replaced by anything.
        ReservedToken => "RESERVED_TOKEN",
        /// An unknown assessment id.
        UnknownAssessment => "UNKNOWN_ASSESSMENT",
        UnknownLevel => "UNKNOWN_LEVEL",
        /// Consequences without assessments, or two for the same level.
        InvalidConsequence => "INVALID_CONSEQUENCE",
        /// No visible function has that name.
        UnknownFunction => "UNKNOWN_FUNCTION",
        /// A call that does not match its function.
        InvalidFunctionCall => "INVALID_FUNCTION_CALL",
        /// A loop without a control, or with fields of another type of loop.
        InvalidLoop => "INVALID_LOOP",
        /// A jump that does not lead back to a step of its list, or crosses another one.
        InvalidJump => "INVALID_JUMP",
        /// A loop waits for a decision that no step of its body makes.
        LoopWithoutDecision => "LOOP_WITHOUT_DECISION",
        /// Loops are nested too deeply.
        LoopTooDeep => "LOOP_TOO_DEEP",
        /// The body of a loop refers to a step that does not exist or is not allowed.
        InvalidBody => "INVALID_BODY",
        /// A condition reads an undeclared context key, in a file that declares others.
        UndeclaredContextKey => "UNDECLARED_CONTEXT_KEY",
        /// A context key is declared with two types.
        ContextKeyConflict => "CONTEXT_KEY_CONFLICT",
        /// No step can ever run.
        NotStartable => "NOT_STARTABLE",
    }
}

/// One problem in a workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    /// The file, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The JSON path in the source, such as `steps[2].prompt`; empty for the whole file.
    pub path: String,
    pub code: ProblemCode,
    pub message: String,
    pub fix: String,
}

impl Problem {
    pub fn new(
        path: impl Into<String>,
        code: ProblemCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { file: None, path: path.into(), code, message: message.into(), fix: fix.into() }
    }

    /// The same problem with the name of its file.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_owned());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} [{}] {}", self.message, self.code, self.fix)
    }
}

/// The maximum number of problems in a report. The last one says how many are omitted.
pub const MAX_PROBLEMS: usize = 200;

/// The maximum number of collected problems. Rejecting a file must not take longer than reading it.
pub(crate) const MAX_COLLECTED: usize = 1000;

/// Sorts problems and removes duplicates.
pub(crate) fn report(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|a, b| {
        path_key(&a.path)
            .cmp(&path_key(&b.path))
            .then_with(|| (a.code, &a.message).cmp(&(b.code, &b.message)))
    });
    problems.dedup();
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!("at least {more} more problems are not shown"),
            format!("Fix the first {MAX_PROBLEMS} and validate again."),
        ));
    }
    problems
}

/// Whether one path is equal to the other or contains it.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The path of a field.
pub(crate) fn member(path: &str, name: &str) -> String {
    let plain = !name.is_empty()
        && name.len() <= 80
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$'));
    match (path.is_empty(), plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{:?}]", quoted(name)),
    }
}

/// The path of a list item.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// The author's text for a message, shortened.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The sort key of a path: numbers are compared as numbers, so `steps[10]` follows `steps[2]`.
fn path_key(path: &str) -> Vec<(u64, &str)> {
    path.split(['.', '[', ']'])
        .filter(|part| !part.is_empty())
        .map(|part| part.parse::<u64>().map_or((u64::MAX, part), |number| (number, "")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_sorted_by_path() {
        let problem = |path: &str| Problem::new(path, ProblemCode::WrongType, "m", "f");
        let paths: Vec<String> =
            report(["steps[10].id", "steps[2].prompt", "name", "", "steps[2]", "name"].map(problem).into())
                .into_iter()
                .map(|problem| problem.path)
                .collect();
        assert_eq!(paths, ["", "name", "steps[2]", "steps[2].prompt", "steps[10].id"]);
    }

    #[test]
    fn a_prefix_path_overlaps_but_a_longer_name_does_not() {
        for (one, other, expected) in [
            ("steps[1]", "steps[1].id", true),
            ("steps[1].id", "steps[1]", true),
            ("steps[1]", "steps[10]", false),
            ("name", "name", true),
            ("name", "names", false),
        ] {
            assert_eq!(overlaps(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn a_report_is_limited_and_says_so() {
        let many = (0..MAX_COLLECTED)
            .map(|index| Problem::new(item("steps", index), ProblemCode::WrongType, "m", "f"));
        let report = report(many.collect());
        assert_eq!(report.len(), MAX_PROBLEMS + 1);
        assert_eq!(report.last().unwrap().message, "at least 800 more problems are not shown");
    }
}
