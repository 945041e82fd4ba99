//! The section for a caller that resumes, perhaps without any knowledge of the run.

use canon::budget::{self, TRUNCATION_MARKER};

use super::quote::quoted;
use crate::record::budgets::RECOVERY_BYTES;

/// The content of a recovery section, most important first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// A description of the other branches from here, if any.
    pub branches: Option<String>,
    /// The notes of later steps on the preferred branch, newest first, each with a title.
    pub later: Vec<(String, String)>,
    /// The notes on the path to this node, newest first, each with the title of its step.
    pub notes: Vec<(String, String)>,
    /// The functions that the step cites, then those that the notes of other branches call.
    pub functions: Vec<String>,
}

impl Recovery {
    /// The section within its budget: the newest notes are kept, and omitted ones are counted.
    pub(super) fn section(&self) -> Option<String> {
        let mut section = String::from("## Recovery Context");
        let heading = section.len();
        if let Some(branches) = &self.branches {
            push(&mut section, &format!("### Branches\n{branches}"));
        }
        for (title, notes) in &self.later {
            push(&mut section, &format!("### Later notes: {title}\n{}", quoted(notes, "> ")));
        }
        let functions = push_functions(&mut section, &self.functions);
        let mut omitted = 0;
        for (title, notes) in &self.notes {
            // Once one does not fit, older ones are only counted: a hole in the middle would mislead.
            if omitted > 0 || !push(&mut section, &format!("### Notes: {title}\n{}", quoted(notes, "> "))) {
                omitted += 1;
            }
        }
        let words = [(functions, "function definitions"), (omitted, "older notes")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect::<Vec<_>>();
        if !words.is_empty() {
            section.push_str(&format!("{TRUNCATION_MARKER} {} omitted", words.join(" and ")));
        }
        (section.len() > heading).then_some(section)
    }
}

/// The function definitions of a step, within the same budget. Omitted ones are counted.
pub(super) fn definitions(functions: &[String]) -> Option<String> {
    let mut section = String::from("## Functions of this step");
    let omitted = push_functions(&mut section, functions);
    if omitted > 0 {
        section.push_str(&format!("{TRUNCATION_MARKER} {omitted} function definitions omitted"));
    }
    (!functions.is_empty()).then_some(section)
}

/// Adds the definitions that fit, and returns the number of the others.
fn push_functions(section: &mut String, functions: &[String]) -> usize {
    let mut omitted = 0;
    for function in functions {
        omitted += usize::from(!push(section, &format!("### Function\n```\n{function}\n```")));
    }
    omitted
}

/// Room for the marker and the counts.
const RESERVE: usize = 96;

/// Adds a part if it fits. A first part that is too long by itself is truncated.
fn push(section: &mut String, part: &str) -> bool {
    let room = RECOVERY_BYTES - RESERVE;
    if section.len() + part.len() + 2 <= room {
        section.push_str("\n\n");
        section.push_str(part);
        return true;
    }
    if section.lines().count() == 1 {
        section.push_str("\n\n");
        section.push_str(&budget::truncate(part, room - section.len()));
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_notes_are_kept_and_the_rest_counted() {
        let notes = (0..20).map(|index| (format!("step {index}"), "x".repeat(4000))).collect();
        let section = Recovery { notes, ..Recovery::default() }.section().unwrap();
        assert!(section.len() <= RECOVERY_BYTES);
        assert!(section.contains("step 0") && section.contains("step 4") && !section.contains("step 19"));
        assert!(section.ends_with("14 older notes omitted"), "{}", &section[section.len() - 60..]);
        assert_eq!(Recovery::default().section(), None);
    }

    #[test]
    fn function_definitions_that_do_not_fit_are_counted() {
        let functions: Vec<String> =
            (0..9).map(|index| format!("f{index}() = {}", "x".repeat(4000))).collect();
        let notes = vec![("step 1".to_owned(), "y".repeat(4000))];
        let section =
            Recovery { functions: functions.clone(), notes, ..Recovery::default() }.section().unwrap();
        assert!(section.len() <= RECOVERY_BYTES);
        assert!(section.contains("f0()") && !section.contains("f8()"));
        assert!(section.ends_with(" 3 function definitions and 1 older notes omitted"));
        let begun = definitions(&functions).unwrap();
        assert!(begun.len() <= RECOVERY_BYTES && begun.ends_with(" 3 function definitions omitted"));
        assert_eq!(definitions(&[]), None);
    }
}
