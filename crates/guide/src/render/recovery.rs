//! What somebody needs who comes back, perhaps knowing nothing.

use canon::budget::{self, TRUNCATION_MARKER};

use super::quote::quoted;
use crate::record::budgets::RECOVERY_BYTES;

/// The facts behind a recovery section, most important first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Other branches from here; nothing where there are none.
    pub branches: Option<String>,
    /// The notes of the steps that the preferred branch took from here, newest first, each with a title.
    pub later: Vec<(String, String)>,
    /// The notes on the way here, newest first, each with the title of its step.
    pub notes: Vec<(String, String)>,
    /// The functions that the step cites, and behind them those that the notes of other branches call.
    pub functions: Vec<String>,
}

impl Recovery {
    /// The section, within its budget: the newest notes are kept, and what is left out is counted.
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
            // Once one does not fit, older ones are only counted: a gap in the middle would mislead.
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
            section.push_str(&format!("{TRUNCATION_MARKER} {} left out", words.join(" and ")));
        }
        (section.len() > heading).then_some(section)
    }
}

/// The definitions for somebody who comes to a step, within the same budget and counted in the same way.
pub(super) fn definitions(functions: &[String]) -> Option<String> {
    let mut section = String::from("## Functions of this step");
    let omitted = push_functions(&mut section, functions);
    if omitted > 0 {
        section.push_str(&format!("{TRUNCATION_MARKER} {omitted} function definitions left out"));
    }
    (!functions.is_empty()).then_some(section)
}

/// Adds the definitions that fit, and counts those that do not.
fn push_functions(section: &mut String, functions: &[String]) -> usize {
    let mut omitted = 0;
    for function in functions {
        omitted += usize::from(!push(section, &format!("### Function\n```\n{function}\n```")));
    }
    omitted
}

/// Room for the marker and the counts.
const RESERVE: usize = 96;

/// Adds a part if it fits; a first part that is too long by itself is cut.
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
        assert!(section.ends_with("14 older notes left out"), "{}", &section[section.len() - 60..]);
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
        assert!(section.ends_with(" 3 function definitions and 1 older notes left out"));
        let begun = definitions(&functions).unwrap();
        assert!(begun.len() <= RECOVERY_BYTES && begun.ends_with(" 3 function definitions left out"));
        assert_eq!(definitions(&[]), None);
    }
}
