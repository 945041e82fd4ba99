//! Arguments of `hook`.

use clap::{Args, ValueEnum};

/// Keep an agent on the steps of its guided run; called by hooks of the agent's client.
///
/// Reads one hook event from standard input and prints the response that the client expects. If the
/// agent stops while a step of this workspace's run is pending, it is asked to continue, unless the
/// run waits for a person or has a checkpoint. Edits are denied while the pending step is read-only.
/// When a conversation starts, the agent receives the open run, so that it can continue. The hook
/// changes nothing, and prints nothing if it has no instruction for the client.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  In .claude/settings.json, for each of the events Stop, PreToolUse and SessionStart:
    {\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"/usr/local/bin/interlock hook claude-code\"}]}]}}

  See docs/how-to/hooks.md for the settings file of each client.

Exit codes:
  0  always; the response contains the client's instruction")]
pub(crate) struct Hook {
    /// The client that calls the hook.
    #[arg(value_enum)]
    pub(crate) client: HookClient,
}

/// A supported client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookClient {
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Codex.
    Codex,
}
