//! Arguments of `workspace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFormat;

/// Plan, apply and check workspaces for agents.
///
/// A plan lists every file of a workspace and its source. It is applied as a whole or not at all.
/// Read-only files stay as declared, and files written by the agent are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
A complete example, in the source tree:
  cd examples/workspace
  interlock workspace plan --manifest manifest.yaml --inputs inputs.json --context context.json \\
    --library library -o /tmp/plan.json
  interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws
  interlock workspace drift --root /tmp/ws")]
pub(crate) struct Workspace {
    #[command(subcommand)]
    pub(crate) command: WorkspaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    Plan(WorkspacePlan),
    Apply(WorkspaceApply),
    Drift(WorkspaceDrift),
    Snapshot(WorkspaceSnapshot),
    Restore(WorkspaceRestore),
    Env(WorkspaceEnv),
    Release(WorkspaceRelease),
}

impl WorkspaceCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::Plan(arguments) => arguments.answering,
            Self::Apply(arguments) => arguments.target.answering,
            Self::Drift(arguments) => arguments.answering,
            Self::Snapshot(arguments) => arguments.answering,
            Self::Restore(arguments) => arguments.target.answering,
            Self::Env(arguments) => arguments.answering,
            Self::Release(arguments) => arguments.answering,
        }
    }
}

/// A manifest and its bindings. `-` is standard input.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestInput {
    /// The manifest, YAML or JSON.
    #[arg(long, value_name = "FILE", requires = "context")]
    pub(crate) manifest: PathBuf,

    /// The inputs of the manifest, a JSON object. Default: none.
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) inputs: Option<PathBuf>,

    /// The rest of the request, JSON: organisation, project, role, run or session, context.
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) context: PathBuf,
}

/// Show what a workspace would contain and the source of each file. Nothing is fetched or written.
///
/// Takes either a manifest with its inputs and the context of a run or session, or a complete
/// request. The plan is a pure function of these and of the library's templates.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show the tree (run in examples/workspace of the source):
    interlock workspace plan --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library

  Save the plan for `apply`:
    interlock workspace plan --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library -o /tmp/plan.json

  Plan a complete request; `apply --plan` reads the JSON:
    interlock workspace plan --request request.json --json > /tmp/session-plan.json

The plan is printed as composed. Problems that `apply` would reject are listed below the tree and do not
change the exit code.

Exit codes:
  0  the plan was composed
  1  the manifest, its inputs or the request are invalid
  2  a file could not be read, or is not valid JSON")]
pub(crate) struct WorkspacePlan {
    /// The complete request, JSON, with a compiled and bound manifest.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manifest", "inputs", "context"],
          required_unless_present = "manifest")]
    pub(crate) request: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) input: Option<ManifestInput>,

    /// The folder with templates, skills and base manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,

    /// Also write the plan to a file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Arguments of commands that apply a plan.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkspaceTarget {
    /// The plan, as printed by `workspace plan --json`; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,

    /// The folder that contains the source files.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: PathBuf,

    /// The root of the workspace, which the agent sees as /workspace; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// The turn of the session that the plan is for. An earlier turn never replaces a later one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) turn: u64,

    /// The user that the agent runs as. `other` shares identical read-only files between
    /// workspaces, which is faster, and is safe only if the agent is another, unprivileged user.
    #[arg(long, value_enum, value_name = "USER", default_value_t = AgentUser::Same)]
    pub(crate) agent_user: AgentUser,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Apply a plan, as a whole or not at all.
///
/// Everything is fetched and checked before the first change, and a later failure is rolled back.
/// After a crash, the next `apply` recovers. Applying an unchanged plan again costs almost nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Apply a plan (run in examples/workspace of the source):
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws

  Apply it again and verify every byte; only drifted files change:
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws --verify hash

  Start over and delete what the agent wrote:
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws --rw reset

Exit codes:
  0  the plan is applied
  1  the plan, a source or the lease was rejected; the workspace is unchanged
  2  a file could not be read, or the disk failed")]
pub(crate) struct WorkspaceApply {
    #[command(flatten)]
    pub(crate) target: WorkspaceTarget,

    /// Unpack this snapshot into the read-write slots first.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// How thoroughly to check whether the plan is already applied.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = VerifyLevel::Stat)]
    pub(crate) verify: VerifyLevel,

    /// What to do with files written by the agent.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = RwPolicy::Preserve)]
    pub(crate) rw: RwPolicy,
}

/// Apply a plan together with a snapshot.
///
/// Same as `apply --snapshot`: read-only slots come from the plan, read-write slots from the
/// snapshot, and both are applied or neither is. Every byte of the snapshot is verified first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Restore a workspace, here or on another machine:
    interlock workspace restore --root /tmp/ws2 --snapshot /tmp/ws.snapshot --plan /tmp/plan.json \\
      --library library

Exit codes:
  0  the workspace is restored
  1  the snapshot or the plan was rejected; the workspace is unchanged
  2  a file could not be read, or the disk failed")]
pub(crate) struct WorkspaceRestore {
    #[command(flatten)]
    pub(crate) target: WorkspaceTarget,

    /// The snapshot. Its hash is in FILE.sha256.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: PathBuf,
}

/// Compare a workspace with the applied plan.
///
/// Changes to writable files are `info` and give the verdict `dirty`; all other differences are
/// more severe. Only timestamps in the index are updated.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Check for drift:
    interlock workspace drift --root /tmp/ws

  Read every byte instead of trusting timestamps:
    interlock workspace drift --root /tmp/ws --level hash

  Print the number of critical changes, for a script:
    interlock workspace drift --root /tmp/ws --json | jq .counts.critical

Exit codes:
  0  clean
  1  dirty or critical, or no plan was applied
  2  the disk could not be read")]
pub(crate) struct WorkspaceDrift {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// How thoroughly to check.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = DriftLevel::Stat)]
    pub(crate) level: DriftLevel,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Pack the files written by the agent into a snapshot.
///
/// The read-write slots are packed into a tar archive compressed with zstd, with its hash in a
/// second file. The same workspace always gives the same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Create a snapshot:
    interlock workspace snapshot --root /tmp/ws -o /tmp/ws.snapshot

  Exclude generated files:
    interlock workspace snapshot --root /tmp/ws -o /tmp/small.snapshot --exclude deliverables/build

  List its contents with system tools:
    zstd -dc /tmp/ws.snapshot | tar -t && (cd /tmp && sha256sum -c ws.snapshot.sha256)

Exit codes:
  0  the snapshot was written
  1  no plan was applied, a file kept changing, or a limit was exceeded
  2  the disk failed")]
pub(crate) struct WorkspaceSnapshot {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Exclude this path below the root and everything in it; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub(crate) exclude: Vec<String>,

    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Show the environment of an agent, or start a program in it. Secrets are never printed.
///
/// Variables come from the base manifest, the manifest, the overlay and the platform; later sources
/// take precedence. Credentials are fetched from `sourceRef`, `env:NAME` or `file:PATH`, and exist
/// only in memory and in the environment of the started program.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show the variables and their sources (run in examples/workspace):
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library

  Set an additional variable:
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library --overlay LOG_LEVEL=debug

  Start a program in this environment; only it receives the secrets:
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library --exec -- sh -c 'echo \"releasing $RELEASE_VERSION\"'

Exit codes:
  0  the environment was resolved
  1  required credentials are missing, or a name is reserved
  2  a file could not be read, or the program could not be started
  with --exec, the exit code of the program")]
pub(crate) struct WorkspaceEnv {
    #[command(flatten)]
    pub(crate) input: ManifestInput,

    /// The folder with templates, skills and base manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,

    /// A variable, NAME=VALUE; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) overlay: Vec<(String, String)>,

    /// Start the program after `--` in this environment instead of showing it.
    #[arg(long, requires = "program", conflicts_with = "json")]
    pub(crate) exec: bool,

    /// The root of the workspace, if it is not /workspace: the program starts there, with TMPDIR
    /// and INTERLOCK_WORKSPACE below it.
    #[arg(long, value_name = "DIR", requires = "exec")]
    pub(crate) root: Option<PathBuf>,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", requires = "exec")]
    pub(crate) program: Vec<OsString>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Release a workspace so that another run or session can use it. The files stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Release a workspace:
    interlock workspace release --root /tmp/ws

Exit codes:
  0  the workspace is free
  1  no plan was applied
  2  the disk failed")]
pub(crate) struct WorkspaceRelease {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// How thoroughly `apply` checks a plan that is already applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyLevel {
    /// Check no files; trust the record of the last apply.
    None,
    /// Compare file metadata, and the bytes of files that look different.
    Stat,
    /// Compare all bytes of the read-only slots.
    Hash,
}

/// How thoroughly drift is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriftLevel {
    /// Compare file metadata, and the bytes of files that look different.
    Stat,
    /// Compare all bytes.
    Hash,
}

/// What happens to files written by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RwPolicy {
    /// Keep them and merge the plan around them.
    Preserve,
    /// Delete them.
    Reset,
}

/// The user that the agent runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentUser {
    /// The user of this program, or a privileged user.
    Same,
    /// Another, unprivileged user.
    Other,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
