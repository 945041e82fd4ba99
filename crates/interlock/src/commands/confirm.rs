//! Asks before something that cannot be undone, or that affects much.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use canon::error::Envelope;

use crate::failure::{CommandErrorCode, Failure};

/// Above this many runs, the number has to be typed.
pub(crate) const TYPED: usize = 100;

/// Asks on a terminal. Elsewhere `--yes` is required.
///
/// # Errors
/// If the answer is no, or there is no terminal to ask on.
pub(crate) fn ask(yes: bool, question: &str, number: Option<usize>) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(refused(
            question,
            "This command asks for confirmation. Pass --yes to run it in a script.",
        ));
    }
    let prompt = match number {
        Some(number) => format!("Type {number} to continue: "),
        None => "Continue? [y/N] ".to_owned(),
    };
    let mut stderr = anstream::stderr().lock();
    // If the question cannot be shown, the answer is no.
    let asked = write!(stderr, "{question}\n{prompt}").and_then(|()| stderr.flush());
    drop(stderr);
    let mut answer = String::new();
    if asked.is_ok() && std::io::stdin().lock().read_line(&mut answer).is_ok() && agrees(&answer, number) {
        return Ok(());
    }
    Err(refused(question, "Nothing was changed."))
}

fn agrees(answer: &str, number: Option<usize>) -> bool {
    let answer = answer.trim();
    match number {
        Some(number) => answer == number.to_string(),
        None => answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"),
    }
}

fn refused(question: &str, help: &str) -> Failure {
    let first = question.lines().next().unwrap_or_default();
    Envelope::new(CommandErrorCode::ConfirmationRequired, format!("Not confirmed: {first}"))
        .suggest(help)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_need_their_number() {
        for (answer, number, expected) in [
            ("y\n", None, true),
            ("YES\n", None, true),
            ("\n", None, false),
            ("no\n", None, false),
            ("118\n", Some(118), true),
            ("y\n", Some(118), false),
            ("117\n", Some(118), false),
        ] {
            assert_eq!(agrees(answer, number), expected, "{answer:?}");
        }
    }
}
