//! `interlock webhooks`.

use serde_json::{Value, json};

use crate::api::{Api, block_on};
use crate::arguments::{Globals, WebhooksCommand, WebhooksNew};
use crate::commands::confirm;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Column, DIM, Field, GOOD, HEADING, Layout, Listing};

pub(crate) fn run(command: &WebhooksCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    let json = command.answering().json;
    match command {
        WebhooksCommand::List(arguments) => {
            let api = Api::connect(&arguments.target, globals)?;
            list(&block_on(api.webhooks())?, json)?;
        }
        WebhooksCommand::New(arguments) => new(arguments, &Api::connect(&arguments.target, globals)?)?,
        WebhooksCommand::Deliveries(arguments) => {
            let api = Api::connect(&arguments.target, globals)?;
            deliveries(&block_on(api.dead_letters(&arguments.id))?, json)?;
        }
        WebhooksCommand::Redeliver(arguments) => {
            let api = Api::connect(&arguments.target, globals)?;
            let reply = block_on(api.redeliver(&arguments.id, &arguments.delivery))?;
            said(json, &reply, &format!("{GOOD}Queued{GOOD:#} {} again.", arguments.delivery))?;
        }
        WebhooksCommand::Delete(arguments) => {
            let api = Api::connect(&arguments.target, globals)?;
            let question = format!("Delete webhook {} in context {}?", arguments.id, api.name());
            confirm::ask(arguments.yes, &question, None)?;
            block_on(api.delete_webhook(&arguments.id))?;
            let reply = json!({"webhookId": arguments.id, "deleted": true});
            said(json, &reply, &format!("{GOOD}Deleted{GOOD:#} {}.", arguments.id))?;
        }
    }
    Ok(ExitStatus::Success)
}

fn said(json: bool, reply: &Value, words: &str) -> Result<(), Failure> {
    if json { output::json(reply, Layout::Compact) } else { output::text(&words) }
}

fn text<'v>(document: &'v Value, name: &str) -> &'v str {
    document[name].as_str().unwrap_or_default()
}

fn list(webhooks: &[Value], json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&json!({"webhooks": webhooks}), Layout::Compact);
    }
    let mut listing = Listing::new([
        Column::fixed("STATUS", 1),
        Column::text("URL", 0, 20),
        Column::text("EVENTS", 2, 12),
        Column::fixed("WEBHOOK", 0),
    ]);
    for webhook in webhooks {
        let events: Vec<_> =
            webhook["events"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let status = text(webhook, "status");
        let style = if status == "active" { GOOD } else { BAD };
        listing.row([
            Field::new(status, status, style),
            text(webhook, "url").into(),
            events.join(",").into(),
            text(webhook, "webhookId").into(),
        ]);
    }
    let hint = "Failed deliveries: interlock webhooks deliveries WEBHOOK";
    listing.print(&format!("{DIM}{hint}{DIM:#}"))
}

fn new(arguments: &WebhooksNew, api: &Api) -> Result<(), Failure> {
    let mut body = json!({"url": arguments.url, "events": arguments.events});
    if !arguments.tags.is_empty() {
        body["tags"] = json!(arguments.tags);
    }
    let reply = block_on(api.new_webhook(&body))?;
    let words = format!(
        "{GOOD}Created{GOOD:#} {}\n{HEADING}{}{HEADING:#}\nThis is the secret that deliveries are signed with. It is shown once.",
        text(&reply, "webhookId"),
        text(&reply, "secret"),
    );
    said(arguments.target.answering.json, &reply, &words)
}

fn deliveries(letters: &[Value], json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&json!({"deliveries": letters}), Layout::Compact);
    }
    let mut listing = Listing::new([
        Column::fixed("GIVEN UP", 1),
        Column::fixed("EVENT", 0),
        Column::number("ATTEMPTS", 3),
        Column::text("WHY", 2, 16),
        Column::fixed("DELIVERY", 0),
    ]);
    for letter in letters {
        listing.row([
            text(letter, "deadLetteredAt").into(),
            text(letter, "eventType").into(),
            letter["attempts"].to_string().into(),
            text(letter, "message").into(),
            text(letter, "deliveryId").into(),
        ]);
    }
    let hint = if letters.is_empty() {
        "No failed deliveries."
    } else {
        "Retry one: interlock webhooks redeliver WEBHOOK DELIVERY"
    };
    listing.print(&format!("{DIM}{hint}{DIM:#}"))
}
