//! `interlock runs answer`, and the decisions of `interlock approvals`.

use canon::error::Envelope;
use canon::json;
use serde_json::{Map, Value, json as document};

use crate::api::{Api, Interrupt, Run, block_on};
use crate::arguments::{Globals, RunsAnswer};
use crate::commands::confirm;
use crate::contexts::Confirm;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, GOOD, Layout};

pub(super) fn run(arguments: &RunsAnswer, globals: &Globals) -> Result<ExitStatus, Failure> {
    let value = answer(arguments)?;
    let api = Api::connect(&arguments.target, globals)?;
    block_on(async {
        let run = api.find(&arguments.id).await?;
        let node = arguments.node.as_deref().or_else(|| run.interrupt().map(Interrupt::node));
        let node = node.ok_or_else(|| nothing_waits(&run))?;
        if api.confirm() == Confirm::Always {
            confirm::ask(
                arguments.yes,
                &format!("Answer {} in context {}?", run.short_id(), api.name()),
                None,
            )?;
        }
        let reply = api.answer(run.id(), node, &value).await?;
        if arguments.target.answering.json {
            return output::json(&reply, Layout::Compact);
        }
        let verb = if arguments.approve {
            "Approved"
        } else if arguments.reject {
            "Rejected"
        } else {
            "Answered"
        };
        output::text(&done(verb, &run, &api))
    })?;
    Ok(ExitStatus::Success)
}

/// The answer that the options describe.
fn answer(arguments: &RunsAnswer) -> Result<Value, Failure> {
    if arguments.approve || arguments.reject {
        return Ok(decision(arguments.approve, arguments.reason.as_deref()));
    }
    if let Some(text) = &arguments.value {
        return json::read(text.as_bytes(), &json::Limits::default())
            .map_err(|error| error.envelope().into());
    }
    let mut fields = Map::new();
    for field in &arguments.field {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            Envelope::new(CommandErrorCode::InputUnreadable, format!("`{field}` is not NAME=VALUE."))
                .suggest("Write a name, an equals sign and a value: --field environment=staging.")
        })?;
        let value = json::read(value.as_bytes(), &json::Limits::default()).unwrap_or_else(|_| value.into());
        fields.insert(name.to_owned(), value);
    }
    Ok(document!({"answers": fields}))
}

/// The answer to an approval.
fn decision(approve: bool, reason: Option<&str>) -> Value {
    let mut value = document!({"action": if approve { "accept" } else { "reject" }});
    if let Some(reason) = reason {
        value[if approve { "comment" } else { "reason" }] = reason.into();
    }
    value
}

/// Approves or rejects what a run waits for.
pub(crate) async fn decide(
    api: &Api,
    run: &Run,
    approve: bool,
    reason: Option<&str>,
) -> Result<Value, Failure> {
    let interrupt = run.interrupt().filter(|interrupt| interrupt.is_approval());
    let interrupt = interrupt.ok_or_else(|| nothing_waits(run))?;
    api.answer(run.id(), interrupt.node(), &decision(approve, reason)).await
}

/// The line after an answer was recorded.
pub(crate) fn done(verb: &str, run: &Run, api: &Api) -> String {
    let question = run.interrupt().map(Interrupt::question).unwrap_or_default();
    let id = run.short_id();
    format!(
        "{GOOD}{verb}{GOOD:#} \"{question}\" in context {}. The run continues: interlock runs tail {}",
        api.name(),
        id.trim_start_matches('…'),
    )
}

fn nothing_waits(run: &Run) -> Failure {
    let state = run.outcome().word().to_lowercase();
    let message =
        format!("Run {} does not wait for an approval or an answer; it is {state}.", run.short_id());
    Envelope::new(CommandErrorCode::NothingToAnswer, message)
        .suggest("See what waits with `interlock approvals list`.")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_carries_its_reason() {
        assert_eq!(decision(true, None), document!({"action": "accept"}));
        assert_eq!(decision(true, Some("ok")), document!({"action": "accept", "comment": "ok"}));
        assert_eq!(decision(false, Some("no")), document!({"action": "reject", "reason": "no"}));
    }
}
