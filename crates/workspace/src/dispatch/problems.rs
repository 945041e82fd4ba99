//! Collects the problems of a dispatch.

use std::ops::RangeInclusive;

use canon::budget;

use super::MAX_ID_BYTES;
use crate::compose::member::Member;
use crate::{Code, Error};

/// The problems so far. Problems of form get the code of a dispatch.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<Error>,
}

impl Problems {
    pub(super) fn add(&mut self, problem: Error) {
        self.found.push(match problem.code() {
            Code::ValidationError => coded(Code::DispatchInvalid, &problem),
            _ => problem,
        });
    }

    /// Adds several problems, each with its own code.
    pub(super) fn add_all(&mut self, problem: Error) {
        let causes = problem.causes().to_vec();
        self.found.push(problem);
        self.found.extend(causes);
    }

    /// The valid value; an error is recorded.
    pub(super) fn take<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problem) => {
                self.add(problem);
                None
            }
        }
    }

    /// A string that can be joined with `:` and displayed.
    pub(super) fn id(&mut self, member: &Member<'_, '_>) {
        if let Some(text) = self.take(member.text())
            && !is_id(text)
        {
            let pointer = member.pointer();
            let message = format!(
                "`{pointer}` must be an id of 1 to {MAX_ID_BYTES} bytes without `:` and control characters"
            );
            self.add(Error::new(Code::DispatchInvalid, message).detail("pointer", pointer));
        }
    }

    pub(super) fn integer(&mut self, member: &Member<'_, '_>, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.take(member.number())?.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            let pointer = member.pointer();
            let message = format!("`{pointer}` must be an integer from {} to {}", range.start(), range.end());
            self.add(Error::new(Code::DispatchInvalid, message).detail("pointer", pointer));
        }
        number
    }

    /// A list with a limited length; `None` if it is longer, so that its items are not checked.
    pub(super) fn list<'m, 'v, 'p>(
        &mut self,
        member: &'m Member<'v, 'p>,
        limit: &'static str,
        max: usize,
    ) -> Option<&'m Member<'v, 'p>> {
        let list = self.take(member.list())?;
        if list.len() > max {
            let pointer = member.pointer();
            let message = format!("{limit}: the limit is {max}, but there are {}", list.len());
            self.add(Error::new(Code::DispatchInvalid, message).detail("pointer", pointer));
            return None;
        }
        Some(list)
    }

    pub(super) fn into_error(self) -> Option<Error> {
        Error::first_of(self.found)
    }
}

pub(super) fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
        && !text.contains(|character: char| character == ':' || character.is_control())
}

/// The same problem under another code.
pub(super) fn coded(code: Code, problem: &Error) -> Error {
    let with_detail =
        |error: Error, (key, value): (&String, &serde_json::Value)| error.detail(key, value.clone());
    problem.details().iter().fold(Error::new(code, problem.message()), with_detail)
}

/// Untrusted text, truncated for a message.
pub(super) fn quoted(text: &str) -> String {
    budget::truncate(text, 120).into_owned()
}
