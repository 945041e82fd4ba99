//! The arguments, environment and files that an agent process is started with.

use std::path::PathBuf;

use canon::time::Timestamp;
use guided::INHERITED;
use serde_json::json;
use workspace::environment::{Scrubber, Secret};
use zeroize::Zeroizing;

use super::record::{FOLDER, MCP_CONFIG};
use super::{AgentCommand, AgentOptions};
use crate::{GuidedNodes, Job, Trouble, failure, session_id};

/// The placeholders that an argument may contain in braces. None of them is replaced by a secret.
pub const PLACEHOLDERS: [&str; 7] =
    ["endpoint", "mcp_config", "node_id", "prompt", "run_id", "session_id", "workspace"];

/// How long the key of an agent stays valid after the timeout of its process, in milliseconds.
const KEY_MARGIN_MS: u64 = 60 * 60 * 1000;

/// A process to start.
pub(super) struct Launch {
    pub(super) argv: Vec<String>,
    pub(super) root: PathBuf,
    /// The complete environment. All values are treated as secrets.
    pub(super) env: Vec<(String, Secret)>,
    /// The standard input of the process.
    pub(super) prompt: String,
    /// The content of the configuration file for MCP clients.
    pub(super) mcp_config: Zeroizing<Vec<u8>>,
}

impl GuidedNodes {
    /// The token with which an agent continues its session.
    pub(super) async fn continue_token(&self, job: &Job) -> Result<Option<String>, Trouble> {
        let session = job.guide.session_id.as_str();
        let reply = self.guided(&job.tenant).await?.rejoin(&session_id(session)?).await;
        let reply = reply.map_err(|refusal| failure::of_session(session, &refusal))?;
        Ok(reply.continue_token)
    }

    /// Prepares the launch of an agent, and the scrubber that removes its secrets from its output. The session key is
    /// issued for this process.
    pub(super) fn launch(
        &self,
        options: &AgentOptions,
        command: &AgentCommand,
        job: &Job,
        continue_token: Option<String>,
        now: Timestamp,
    ) -> Result<(Launch, Scrubber), Trouble> {
        let session = job.guide.session_id.as_str();
        let root = self.workspace(&job.run_id, &job.guide.node_id);
        let lifetime = u64::try_from(command.timeout.as_millis()).unwrap_or(u64::MAX);
        let expires_at = now.plus(lifetime.saturating_add(KEY_MARGIN_MS));
        let key = Zeroizing::new(self.inner.options.keys.mint(&job.tenant, session, expires_at));

        let mut secrets = vec![Secret::new("session key", key.clone())];
        let mut env: Vec<(String, Secret)> = Vec::new();
        let mut set = |name: &str, value: Zeroizing<String>| {
            env.retain(|(other, _)| other != name);
            env.push((name.to_owned(), Secret::new(name, value)));
        };
        for name in INHERITED {
            if let Ok(value) = std::env::var(name) {
                set(name, Zeroizing::new(value));
            }
        }
        for name in &command.env {
            if let Ok(value) = std::env::var(name) {
                let value = Zeroizing::new(value);
                secrets.push(Secret::new(name.as_str(), value.clone()));
                set(name, value);
            }
        }
        for (name, value) in self.variables(job, &command.env)? {
            secrets.push(value.clone());
            set(&name, Zeroizing::new(value.expose().to_owned()));
        }
        let config = format!("{FOLDER}/{session}/{MCP_CONFIG}");
        let config = options.root.join(config).display().to_string();
        let workspace = root.display().to_string();
        let own = [
            ("INTERLOCK_MCP_URL", options.endpoint.clone()),
            ("INTERLOCK_MCP_CONFIG", config.clone()),
            ("INTERLOCK_SESSION_ID", session.to_owned()),
            ("INTERLOCK_RUN_ID", job.run_id.to_string()),
            ("INTERLOCK_NODE_ID", job.guide.node_id.to_string()),
            ("INTERLOCK_WORKSPACE", workspace.clone()),
        ];
        for (name, value) in own {
            set(name, Zeroizing::new(value));
        }
        if let Some(token) = continue_token {
            secrets.push(Secret::new("continue token", Zeroizing::new(token.clone())));
            set("INTERLOCK_CONTINUE_TOKEN", Zeroizing::new(token));
        }
        set("INTERLOCK_SESSION_KEY", key.clone());

        let prompt = prompt(&job.guide.goal, &workspace, session);
        let value_of = |name: &str| match name {
            "endpoint" => Some(options.endpoint.as_str()),
            "mcp_config" => Some(config.as_str()),
            "node_id" => Some(job.guide.node_id.as_str()),
            "prompt" => Some(prompt.as_str()),
            "run_id" => Some(job.run_id.as_str()),
            "session_id" => Some(session),
            "workspace" => Some(workspace.as_str()),
            _ => None,
        };
        let argv = command.argv.iter().map(|part| filled(part, value_of)).collect();
        let server = json!({
            "type": "http", "url": options.endpoint,
            "headers": {"Authorization": format!("Bearer {}", key.as_str())},
        });
        let mcp_config = json!({"mcpServers": {"interlock": server}}).to_string().into_bytes();
        let scrubber = Scrubber::new(&secrets);
        Ok((Launch { argv, root, env, prompt, mcp_config: Zeroizing::new(mcp_config) }, scrubber))
    }
}

fn prompt(goal: &str, workspace: &str, session: &str) -> String {
    format!(
        "Interlock guides you through a task, step by step.\n\n\
         Goal: {goal}\n\
         Workspace: {workspace}\n\n\
         1. Use the tools of the MCP server `interlock`. Call `resume_session` with `{{\"sessionId\": \"{session}\"}}`: your key \
         opens this session only.\n\
         2. Make the call in `nextCall` of the candidate. The reply shows the pending step.\n\
         3. Do the step in the workspace. Then call `continue_workflow` with the `continueToken` of the last reply, `intent` set to \
         \"advance\", and your `output`.\n\
         4. Repeat this until a reply has `isComplete: true`, then stop. Do not stop before. If a step needs the user, end your work: \
         you are started again when the user has answered.\n"
    )
}

/// Splits an argument into text and placeholders.
fn pieces(argument: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = argument;
    while let Some(open) = rest.find('{') {
        let after = &rest[open + 1..];
        let length = after.bytes().take_while(|byte| matches!(byte, b'a'..=b'z' | b'_')).count();
        if length > 0 && after.as_bytes().get(length) == Some(&b'}') {
            pieces.push(Piece::Text(&rest[..open]));
            pieces.push(Piece::Name(&after[..length]));
            rest = &after[length + 1..];
        } else {
            pieces.push(Piece::Text(&rest[..=open]));
            rest = after;
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// The first unknown placeholder of an argument.
pub fn unknown_placeholder(argument: &str) -> Option<&str> {
    pieces(argument).into_iter().find_map(|piece| match piece {
        Piece::Name(name) if !PLACEHOLDERS.contains(&name) => Some(name),
        Piece::Name(_) | Piece::Text(_) => None,
    })
}

/// Replaces the placeholders of an argument. Inserted values are not expanded again.
fn filled<'v>(argument: &str, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut filled = String::with_capacity(argument.len());
    for piece in pieces(argument) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name(name) => match value_of(name) {
                Some(value) => filled.push_str(value),
                None => filled.push_str(&format!("{{{name}}}")),
            },
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_once() {
        let value_of = |name: &str| match name {
            "prompt" => Some("do {workspace}"),
            "workspace" => Some("/w"),
            _ => None,
        };
        let cases = [
            ("-p", "-p", None),
            ("{prompt}", "do {workspace}", None),
            ("--dir={workspace}/src", "--dir=/w/src", None),
            ("{\"a\": {workspace}}", "{\"a\": /w}", None),
            ("{}", "{}", None),
            ("{{prompt}}", "{do {workspace}}", None),
            ("{key}", "{key}", Some("key")),
            ("{", "{", None),
            ("ü{workspace", "ü{workspace", None),
        ];
        for (argument, wanted, unknown) in cases {
            assert_eq!(filled(argument, value_of), wanted, "{argument}");
            assert_eq!(unknown_placeholder(argument), unknown, "{argument}");
        }
    }
}
