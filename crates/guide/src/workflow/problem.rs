//! What is wrong with a workflow file, where, and what to do about it.
//!
//! A file is read to its end: an author gets every problem at once, one per cause, in the
//! order of their paths, each with a code for programs and a fix for people.

use std::fmt;

use serde::{Deserialize, Serialize};

canon::error_codes! {
    /// The kinds of problem.
    pub enum ProblemCode {
        /// The bytes are not JSON or YAML: syntax, encoding, a key twice, nesting or aliases beyond their bound.
        Unreadable => "SOURCE_UNREADABLE",
        /// The file, or what it expands to, is beyond a bound.
        TooLarge => "SOURCE_TOO_LARGE",
        /// A member is of another type.
        WrongType => "WRONG_TYPE",
        /// A member that has to be there is not.
        MissingMember => "MISSING_MEMBER",
        /// A member that nothing reads.
        UnknownMember => "UNKNOWN_MEMBER",
        /// A text or a list is too short or too long.
        LengthOutOfRange => "LENGTH_OUT_OF_RANGE",
        /// A number is too small, too large, or not exact.
        NumberOutOfRange => "NUMBER_OUT_OF_RANGE",
        /// A value is not one of a closed set.
        UnknownValue => "UNKNOWN_VALUE",
        /// An id, a name or a key is not spelt as such names are.
        InvalidName => "INVALID_NAME",
        /// A workflow id in a namespace that belongs to the program.
        ReservedId => "RESERVED_ID",
        /// A version that is no semantic version.
        InvalidVersion => "INVALID_VERSION",
        /// Something is defined twice.
        DuplicateId => "DUPLICATE_ID",
        /// A step has none, or more than one, of `prompt`, `promptBlocks` and `templateCall`.
        PromptChoice => "PROMPT_CHOICE",
        /// A prompt says nothing.
        EmptyPrompt => "EMPTY_PROMPT",
        /// A condition is outside of its grammar.
        InvalidCondition => "INVALID_CONDITION",
        /// Criteria are outside of their grammar.
        InvalidCriteria => "INVALID_CRITERIA",
        /// No condition has that id.
        UnknownCondition => "UNKNOWN_CONDITION",
        /// No contract has that reference.
        UnknownContract => "UNKNOWN_CONTRACT",
        /// No feature has that id.
        UnknownFeature => "UNKNOWN_FEATURE",
        /// No text has that `wr.refs.…` id.
        UnknownRef => "UNKNOWN_REF",
        /// A ref stands where its text would bury the instruction.
        MisplacedRef => "MISPLACED_REF",
        /// Refs and features would put more text into a step than a prompt can carry.
        InjectionTooLarge => "INJECTION_TOO_LARGE",
        /// No template has that id.
        UnknownTemplate => "UNKNOWN_TEMPLATE",
        /// A template call with arguments, or beside members, that do not go with it.
        InvalidTemplateCall => "INVALID_TEMPLATE_CALL",
        /// A template calls itself, or calls go too deep.
        TemplateRecursion => "TEMPLATE_RECURSION",
        /// A template that comes with the program is itself broken.
        InvalidTemplate => "INVALID_TEMPLATE",
        /// No extension point has that slot.
        UnknownSlot => "UNKNOWN_SLOT",
        /// `{{wr.…}}` where nothing replaces it.
        ReservedToken => "RESERVED_TOKEN",
        /// No assessment has that id.
        UnknownAssessment => "UNKNOWN_ASSESSMENT",
        /// No dimension has that level.
        UnknownLevel => "UNKNOWN_LEVEL",
        /// Consequences without assessments, or two for the same level.
        InvalidConsequence => "INVALID_CONSEQUENCE",
        /// No function of that name is visible.
        UnknownFunction => "UNKNOWN_FUNCTION",
        /// A call that does not fit its function.
        InvalidFunctionCall => "INVALID_FUNCTION_CALL",
        /// A loop without what decides it, or with what does not go with its type.
        InvalidLoop => "INVALID_LOOP",
        /// A jump that does not lead back to a step of its list, or crosses another one.
        InvalidJump => "INVALID_JUMP",
        /// A loop that waits for a decision which no step of its body makes.
        LoopWithoutDecision => "LOOP_WITHOUT_DECISION",
        /// Loops within loops beyond the bound.
        LoopTooDeep => "LOOP_TOO_DEEP",
        /// A loop's body names a step that is not there, or that cannot be a body.
        InvalidBody => "INVALID_BODY",
        /// A condition reads a context key that no step declares, in a file that declares others.
        UndeclaredContextKey => "UNDECLARED_CONTEXT_KEY",
        /// A context key is declared with two types.
        ContextKeyConflict => "CONTEXT_KEY_CONFLICT",
        /// No step can ever run.
        NotStartable => "NOT_STARTABLE",
    }
}

/// One thing that is wrong with a workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    /// The file, when whoever read it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where: a JSON path of the source such as `steps[2].prompt`; empty for the whole file.
    pub path: String,
    pub code: ProblemCode,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl Problem {
    /// A problem at a path.
    pub fn new(
        path: impl Into<String>,
        code: ProblemCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { file: None, path: path.into(), code, message: message.into(), fix: fix.into() }
    }

    /// The same problem, of this file.
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

/// How many problems a report holds. More are not read; the last one says how many there are.
pub const MAX_PROBLEMS: usize = 200;

/// How many problems are collected. A file of noise must not take longer to refuse than to read.
pub(crate) const MAX_COLLECTED: usize = 1000;

/// Puts problems into the order in which they are reported, without repetitions.
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

/// Whether one path is the other, or a part of it.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A member below a path.
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

/// An item below a path.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Text of the author's in a message: short, so that a report stays readable.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `steps[10]` comes after `steps[2]`: numbers in paths are compared as numbers.
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
    fn problems_come_in_the_order_of_their_paths() {
        let problem = |path: &str| Problem::new(path, ProblemCode::WrongType, "m", "f");
        let paths: Vec<String> =
            report(["steps[10].id", "steps[2].prompt", "name", "", "steps[2]", "name"].map(problem).into())
                .into_iter()
                .map(|problem| problem.path)
                .collect();
        assert_eq!(paths, ["", "name", "steps[2]", "steps[2].prompt", "steps[10].id"]);
    }

    #[test]
    fn a_part_of_a_path_overlaps_it_and_a_longer_name_does_not() {
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
    fn a_report_is_bounded_and_says_so() {
        let many = (0..MAX_COLLECTED)
            .map(|index| Problem::new(item("steps", index), ProblemCode::WrongType, "m", "f"));
        let report = report(many.collect());
        assert_eq!(report.len(), MAX_PROBLEMS + 1);
        assert_eq!(report.last().unwrap().message, "at least 800 more problems are not shown");
    }
}
