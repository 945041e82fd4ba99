//! `interlock demo`: the whole path, on a data directory of its own.
//!
//! The host is the one that `serve` runs, in this process. Everything else is a client of it, as anybody's would be: the run is created
//! over HTTP, the stand-in agent connects over MCP with the key that the run hands out, and a person, or this command in their place,
//! answers the approval.

mod agent;
mod example;

use std::path::Path;

use console::SignInLinks;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::arguments::{Demo, Globals, Serve};
use crate::client::{Client, refused};
use crate::commands::serve::{self, Greeting, Opened};
use crate::failure::{Answer, Failure};
use crate::output::{self, BAD, DIM, GOOD, HEADING, WARNING};

/// The nodes of the example that this command speaks of.
const REVIEW: &str = "review";
const APPROVE: &str = "approve";

pub(crate) fn run(arguments: &Demo, globals: &Globals) -> Result<Answer, Failure> {
    let folder = TempDir::with_prefix("interlock-demo-")
        .map_err(|cause| Failure::Unwritable { name: "a temporary folder".to_owned(), cause })?;
    let workflows = folder.path().join("release-review");
    example::write(&workflows)?;
    let serve =
        Serve { listen: arguments.listen, workflows: vec![workflows], public_url: None, new_database: false };
    let data_dir = globals.data_dir.clone().unwrap_or_else(|| folder.path().join("data"));
    let opened = serve::open(&serve, &Globals { data_dir: Some(data_dir), config: globals.config.clone() })?;
    serve::runtime()?.block_on(async {
        let (end, ended) = oneshot::channel::<()>();
        let host = serve::serve(&serve, &opened, Greeting::Demo, async { drop(ended.await) });
        tokio::pin!(host);
        let answer = tokio::select! {
            served = &mut host => return served,
            answer = show(arguments, globals, &opened) => answer,
        };
        // What was under way is recorded, then the folder goes.
        drop(end);
        host.await?;
        answer
    })
}

/// The path, and then the server for as long as somebody looks at what it left.
async fn show(arguments: &Demo, globals: &Globals, opened: &Opened) -> Result<Answer, Failure> {
    let stopped = serve::stop_signal();
    tokio::pin!(stopped);
    let answer = tokio::select! {
        answer = walk(arguments, opened) => answer?,
        () = &mut stopped => return Ok(Answer::No),
    };
    if !arguments.approve {
        // The person who decided is about to see the result in their browser.
        let data = match &globals.data_dir {
            None => "deletes its data".to_owned(),
            Some(folder) => format!("leaves its data in {}", folder.display()),
        };
        let console = format!("{HEADING}{}{HEADING:#}", opened.url);
        output::text(&format!("\nLook around at {console}. Ctrl-C stops the server and {data}."))?;
        stopped.await;
    }
    Ok(answer)
}

async fn walk(arguments: &Demo, opened: &Opened) -> Result<Answer, Failure> {
    let client = opened.client_once_served().await?;
    let created = client.post("/v1/runs", &json!({"workflowId": "release-review"})).await?;
    let run = Run { client: &client, id: text(&created["runId"]) };
    said("1", &format!("A run of {HEADING}release-review{HEADING:#} was created: {}", run.id))?;

    let waiting = run.waits_at(REVIEW).await?;
    let connect = &waiting["interrupt"]["connect"];
    said("2", "It equipped an agent with a workspace, and waits for it:")?;
    fact("workspace", &text(&connect["workspaceRoot"]))?;
    fact("session", &text(&waiting["interrupt"]["session"]["sessionId"]))?;
    fact("agents connect", &format!("{} with a key for this session alone", text(&connect["endpoint"])))?;
    agent::walk(connect).await?;

    let waiting = run.waits_at(APPROVE).await?;
    said("3", &format!("It waits for a person: {}", text(&waiting["interrupt"]["data"]["title"])))?;
    if arguments.approve {
        let accept =
            json!({"resumeValue": {"action": "accept", "comment": "Approved by interlock demo --approve"}});
        client.post(&format!("/v1/runs/{}/interrupts/{APPROVE}", run.id), &accept).await?;
    } else {
        let link = opened.sign_in_link(client.key(), &format!("/approvals/{}", run.id))?;
        fact("decide here", &format!("{HEADING}{link}{HEADING:#}"))?;
        fact("", &format!("signs you in, once, within {} minutes", SignInLinks::LIFETIME_MINUTES))?;
    }

    let ended = run.ended().await?;
    if ended["status"] != "completed" {
        said("4", &format!("{BAD}It ended as {}.{BAD:#} Nothing was published.", text(&ended["status"])))?;
        return Ok(Answer::No);
    }
    said("4", &format!("{GOOD}It completed{GOOD:#}, and published the notes:"))?;
    output::text(&format!("\n{}", indented(&text(&ended["variables"]["published"]))))?;
    Ok(Answer::Yes)
}

/// A run, watched from outside.
struct Run<'a> {
    client: &'a Client,
    id: String,
}

impl Run<'_> {
    /// The run once it waits at a node.
    async fn waits_at(&self, node: &str) -> Result<Value, Failure> {
        let run = self.until(|run| run["currentNodeId"] == node && run["interrupt"].is_object()).await?;
        match run["interrupt"].is_object() {
            true => Ok(run),
            false => Err(refused(&format!("the run ended as {} before `{node}`", text(&run["status"])))),
        }
    }

    async fn ended(&self) -> Result<Value, Failure> {
        self.until(|_| false).await
    }

    /// The run once it is as wanted, or over. Between two looks it waits for an event.
    async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        let mut last = -1;
        loop {
            let run = self.client.get(&format!("/v1/runs/{}", self.id)).await?;
            let is_over =
                ["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap_or(""));
            if is_over || wanted(&run) {
                return Ok(run);
            }
            let poll = format!("/v1/runs/{}/events/poll?lastSequence={last}&timeout=20", self.id);
            let polled = self.client.get(&poll).await?;
            let newest = polled["events"].as_array().and_then(|events| events.last()?["sequence"].as_i64());
            last = newest.unwrap_or(last);
        }
    }
}

fn said(number: &str, text: &str) -> Result<(), Failure> {
    output::text(&format!("\n{DIM}{number}.{DIM:#} {text}"))
}

fn fact(name: &str, value: &str) -> Result<(), Failure> {
    output::text(&format!("   {DIM}{name:<15}{DIM:#} {value}"))
}

fn refusal(text: &str) -> Result<(), Failure> {
    output::text(&format!("   {DIM}{:<15}{DIM:#} {WARNING}{text}{WARNING:#}", ""))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   {line}\n")).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The workspace of a run, as the host names it.
fn folder(connect: &Value) -> &Path {
    Path::new(connect["workspaceRoot"].as_str().unwrap_or_default())
}
