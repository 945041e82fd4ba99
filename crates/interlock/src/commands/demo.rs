//! `interlock demo`: a complete example in a temporary data directory.
//!
//! The host is the same as in `serve`, in this process. Everything else is an ordinary client: the
//! run is created over HTTP, the scripted agent connects over MCP with the key that the run issued,
//! and a person, or this command with `--approve`, answers the approval.

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
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, DIM, GOOD, HEADING, WARNING};

/// The nodes of the example that the output mentions.
const REVIEW: &str = "review";
const APPROVE: &str = "approve";

pub(crate) fn run(arguments: &Demo, globals: &Globals) -> Result<ExitStatus, Failure> {
    if arguments.agent {
        serve::runtime()?.block_on(agent::run())?;
        return Ok(ExitStatus::Success);
    }
    let folder = TempDir::with_prefix("interlock-demo-")
        .map_err(|cause| Failure::Unwritable { name: "a temporary folder".to_owned(), cause })?;
    let workflows = folder.path().join("release-review");
    example::write(&workflows)?;
    let serve = Serve {
        listen: arguments.listen,
        workflows: vec![workflows],
        public_url: None,
        database: None,
        new_database: false,
        mcp_without_key: false,
    };
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
        // Drain the server, then delete the folder.
        drop(end);
        host.await?;
        answer
    })
}

/// The example, and then the server until the user stops it.
async fn show(arguments: &Demo, globals: &Globals, opened: &Opened) -> Result<ExitStatus, Failure> {
    let stopped = serve::stop_signal();
    tokio::pin!(stopped);
    let answer = tokio::select! {
        answer = walk(arguments, opened) => answer?,
        () = &mut stopped => return Ok(ExitStatus::Negative),
    };
    if !arguments.approve {
        // The person who decided is about to see the result in the browser.
        let data = match &globals.data_dir {
            None => "deletes its data".to_owned(),
            Some(folder) => format!("leaves its data in {}", folder.display()),
        };
        let console = format!("{HEADING}{}{HEADING:#}", opened.url);
        output::text(&format!("\nExplore the console at {console}. Ctrl-C stops the server and {data}."))?;
        stopped.await;
    }
    Ok(answer)
}

async fn walk(arguments: &Demo, opened: &Opened) -> Result<ExitStatus, Failure> {
    let client = opened.client_once_served().await?;
    let created = client.post("/v1/runs", &json!({"workflowId": "release-review"})).await?;
    let run = Run { client: &client, id: text(&created["runId"]) };
    said("1", &format!("Created a run of {HEADING}release-review{HEADING:#}: {}", run.id))?;

    let waiting = run.waits_at(REVIEW).await?;
    let connect = &waiting["interrupt"]["connect"];
    said("2", "The run prepared a workspace and waits for an agent:")?;
    fact("workspace", &text(&connect["workspaceRoot"]))?;
    fact("session", &text(&waiting["interrupt"]["session"]["sessionId"]))?;
    fact("agents connect", &format!("{} with a key for this session only", text(&connect["endpoint"])))?;
    agent::walk(connect).await?;

    let waiting = run.waits_at(APPROVE).await?;
    said("3", &format!("The run waits for approval: {}", text(&waiting["interrupt"]["data"]["title"])))?;
    if arguments.approve {
        let accept =
            json!({"resumeValue": {"action": "accept", "comment": "Approved by interlock demo --approve"}});
        client.post(&format!("/v1/runs/{}/interrupts/{APPROVE}", run.id), &accept).await?;
    } else {
        let link = opened.sign_in_link(client.key(), &format!("/approvals/{}", run.id))?;
        fact("decide here", &format!("{HEADING}{link}{HEADING:#}"))?;
        fact("", &format!("single use, valid for {} minutes", SignInLinks::LIFETIME_MINUTES))?;
    }

    let ended = run.ended().await?;
    if ended["status"] != "completed" {
        said("4", &format!("{BAD}The run ended: {}.{BAD:#} Nothing was published.", text(&ended["status"])))?;
        return Ok(ExitStatus::Negative);
    }
    said("4", &format!("{GOOD}The run completed{GOOD:#} and published the notes:"))?;
    output::text(&format!("\n{}", indented(&text(&ended["variables"]["published"]))))?;
    Ok(ExitStatus::Success)
}

/// A run, observed through the API.
struct Run<'a> {
    client: &'a Client,
    id: String,
}

impl Run<'_> {
    /// The run when it waits at a node.
    async fn waits_at(&self, node: &str) -> Result<Value, Failure> {
        let run = self.until(|run| run["currentNodeId"] == node && run["interrupt"].is_object()).await?;
        match run["interrupt"].is_object() {
            true => Ok(run),
            false => {
                Err(refused(&format!("the run ended with status {} before `{node}`", text(&run["status"]))))
            }
        }
    }

    async fn ended(&self) -> Result<Value, Failure> {
        self.until(|_| false).await
    }

    /// The run when it reaches the wanted state or ends. Waits for events in between.
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

/// The workspace folder of a run, as named by the host.
fn folder(connect: &Value) -> &Path {
    Path::new(connect["workspaceRoot"].as_str().unwrap_or_default())
}
