//! What can be typed after `interlock hook`.

use clap::{Args, ValueEnum};

/// Keep an agent on the path of its guided run; called by the agent's client.
///
/// Reads one event of the client from standard input and answers as that client expects. When the agent stops, it
/// is sent back while a step of this workspace's run is pending, unless the run waits for a person or the place was
/// bookmarked. Before a tool call, edits are refused while the pending step is read-only. When a conversation starts,
/// the open run is handed over. Nothing is ever changed, and a hook that cannot answer stays silent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  In .claude/settings.json, for each of the events Stop, PreToolUse and SessionStart:
    {\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"/usr/local/bin/interlock hook claude-code\"}]}]}}

  docs/how-to/hooks.md has the settings file of each client.

Exit codes:
  0  always: what the client should do is in the answer")]
pub(crate) struct Hook {
    /// The client that calls.
    #[arg(value_enum)]
    pub(crate) client: HookClient,
}

/// A client whose hooks are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookClient {
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Codex.
    Codex,
}
