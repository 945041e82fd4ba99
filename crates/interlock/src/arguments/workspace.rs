//! What can be typed after `workspace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Answering;

/// The workspaces of agents: plan one, put it in place, see whether it still is what was declared.
///
/// A plan says what an agent's workspace holds and where each byte comes from. Applying it is all or
/// nothing; what the agent may not write stays as it was declared, and what it wrote is kept.
#[derive(Debug, Args)]
#[command(after_help = "\
A round trip, with the example that comes with the source:
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
    pub(crate) const fn answering(&self) -> Answering {
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

/// A manifest, and what it is bound with. `-` is standard input.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestInput {
    /// The manifest, YAML or JSON: what the agent needs.
    #[arg(long, value_name = "FILE", requires = "context")]
    pub(crate) manifest: PathBuf,

    /// The inputs of the manifest, a JSON object; none without.
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) inputs: Option<PathBuf>,

    /// The request without its `manifest`, JSON: organisation, project, role, run or session, context.
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) context: PathBuf,
}

/// Say what a workspace would hold and where each byte would come from. Nothing is fetched or written.
///
/// Either a manifest with its inputs and the context of one run or session, or a whole request. The plan
/// is a pure function of them, apart from the templates of the library.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What would appear? (from the folder examples/workspace of the source)
    interlock workspace plan --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library

  The same, and keep the plan for `apply`:
    interlock workspace plan --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library -o /tmp/plan.json

  A request that somebody else bound; the JSON is what `apply --plan` reads:
    interlock workspace plan --request request.json --json > /tmp/session-plan.json

A plan is printed as composed. What `apply` would refuse is told below the tree, and does not
change the exit code.

Exit codes:
  0  there is a plan
  1  there is none: the manifest, its inputs or the request are refused, and why
  2  a file could not be read, or is no JSON")]
pub(crate) struct WorkspacePlan {
    /// The whole request, JSON, its manifest compiled and bound.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manifest", "inputs", "context"],
          required_unless_present = "manifest")]
    pub(crate) request: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) input: Option<ManifestInput>,

    /// The folder that has templates, skills and base manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,

    /// Write the plan to a file too; show the tree.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the file if it exists.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// What every command that puts a plan in place takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkspaceTarget {
    /// The plan, as `workspace plan --json` prints it; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,

    /// The folder that the bytes come from.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: PathBuf,

    /// The root of the workspace, what the agent sees as /workspace; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// The turn of the session that the plan is for. An earlier turn never takes over from a later one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) turn: u64,

    /// As whom the agent runs: `other` lets equal read-only files be one file, which is faster, and safe only if
    /// the agent is another user without special rights.
    #[arg(long, value_enum, value_name = "USER", default_value_t = AgentUser::Same)]
    pub(crate) agent_user: AgentUser,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Put a plan in place, all or nothing.
///
/// Everything is fetched and checked first. A failure up to there changes nothing, one later is undone,
/// and after a crash the next call puts things right. A plan that is in place already costs next to nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Put it in place (from the folder examples/workspace of the source):
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws

  Again: nothing is done, unless something drifted; look at every byte to know:
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws --verify hash

  Begin anew, and throw away what the agent wrote:
    interlock workspace apply --plan /tmp/plan.json --library library --root /tmp/ws --rw reset

Exit codes:
  0  the plan is in place
  1  it is not: the plan, a source or the lease says no, and the workspace is as it was
  2  a file could not be read, or the disk failed")]
pub(crate) struct WorkspaceApply {
    #[command(flatten)]
    pub(crate) target: WorkspaceTarget,

    /// Unpack this snapshot over the read-write slots, before anything is put in place.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// How closely to look before saying that the plan is in place already.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = VerifyLevel::Stat)]
    pub(crate) verify: VerifyLevel,

    /// What happens to what the agent wrote.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = RwPolicy::Preserve)]
    pub(crate) rw: RwPolicy,
}

/// Put a plan in place together with what a snapshot kept.
///
/// It is `apply --snapshot`: the read-only slots come from the plan, the read-write ones from the
/// snapshot, and both are there or neither is. The snapshot is checked byte by byte before anything is touched.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Bring a workspace back, here or on another machine:
    interlock workspace restore --root /tmp/ws2 --snapshot /tmp/ws.snapshot --plan /tmp/plan.json \\
      --library library

Exit codes:
  0  the workspace is back
  1  it is not: the snapshot or the plan is refused, and the workspace is as it was
  2  a file could not be read, or the disk failed")]
pub(crate) struct WorkspaceRestore {
    #[command(flatten)]
    pub(crate) target: WorkspaceTarget,

    /// The snapshot. Its hash is in the file beside it, FILE.sha256.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: PathBuf,
}

/// Compare a workspace with what was applied.
///
/// What the agent wrote where it may write is `info`, and makes the verdict `dirty`; anything else that
/// is not as applied is worse. Nothing is changed but the times in the index.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Is it still what was declared?
    interlock workspace drift --root /tmp/ws

  Trust no time stamp, read every byte:
    interlock workspace drift --root /tmp/ws --level hash

  How much an agent changed where it may not, for a script:
    interlock workspace drift --root /tmp/ws --json | jq .counts.critical

Exit codes:
  0  clean
  1  dirty or critical; or nothing was ever applied here
  2  the disk could not be read")]
pub(crate) struct WorkspaceDrift {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// How closely to look.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = DriftLevel::Stat)]
    pub(crate) level: DriftLevel,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Pack what the agent wrote into one file.
///
/// The read-write slots go into a tar that zstd packed, with its hash in a file beside it. The same
/// workspace gives the same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Keep what was done:
    interlock workspace snapshot --root /tmp/ws -o /tmp/ws.snapshot

  Without what can be made again:
    interlock workspace snapshot --root /tmp/ws -o /tmp/small.snapshot --exclude deliverables/build

  What is in it, with the tools of the system:
    zstd -dc /tmp/ws.snapshot | tar -t && (cd /tmp && sha256sum -c ws.snapshot.sha256)

Exit codes:
  0  it is packed
  1  nothing was applied here, a file kept changing, or there is too much
  2  the disk failed")]
pub(crate) struct WorkspaceSnapshot {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Leave out this path below the root, with everything in it; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) exclude: Vec<String>,

    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Show the environment of an agent, or start a program in it. Secrets are never printed.
///
/// Variables come from the base manifest, the manifest, the overlay and the platform, later ones
/// winning. Credentials are fetched from where `sourceRef` says, `env:NAME` or `file:PATH`, and exist only in
/// memory and in the environment of the program that is started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Which variables would the agent have, and who set them? (from examples/workspace)
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library

  With a variable of this call:
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library --overlay LOG_LEVEL=debug

  Start a program in it; secrets go to it and to nobody else:
    interlock workspace env --manifest manifest.yaml --inputs inputs.json --context context.json \\
      --library library --exec -- sh -c 'echo \"releasing $RELEASE_VERSION\"'

Exit codes:
  0  it can be resolved
  1  it cannot: required credentials are missing, or a name is reserved
  2  a file could not be read, or the program could not be started
  with --exec, the exit code of the program")]
pub(crate) struct WorkspaceEnv {
    #[command(flatten)]
    pub(crate) input: ManifestInput,

    /// The folder that has templates, skills and base manifests.
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,

    /// A variable of this call; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) overlay: Vec<(String, String)>,

    /// Start the program that follows `--` in this environment, instead of showing it.
    #[arg(long, requires = "program", conflicts_with = "json")]
    pub(crate) exec: bool,

    /// The root of the workspace, where it is not at /workspace: the program starts there, with TMPDIR and
    /// INTERLOCK_WORKSPACE below it.
    #[arg(long, value_name = "DIR", requires = "exec")]
    pub(crate) root: Option<PathBuf>,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", requires = "exec")]
    pub(crate) program: Vec<OsString>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Give a workspace back, so that another run or session may have it. What is in it stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The work is done:
    interlock workspace release --root /tmp/ws

Exit codes:
  0  it is free
  1  nothing was applied here
  2  the disk failed")]
pub(crate) struct WorkspaceRelease {
    /// The root of the workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// How closely an apply looks at a plan that is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyLevel {
    /// The lease is believed.
    None,
    /// What the file system knows, and the bytes of what looks different.
    Stat,
    /// All bytes of the read-only slots.
    Hash,
}

/// How closely drift is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriftLevel {
    /// What the file system knows, and the bytes of what looks different.
    Stat,
    /// All bytes.
    Hash,
}

/// What happens to what the agent wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RwPolicy {
    /// It is kept, and the plan is merged around it.
    Preserve,
    /// It is thrown away.
    Reset,
}

/// As whom the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentUser {
    /// As the user of this program, or as one who may do anything.
    Same,
    /// As another, ordinary user.
    Other,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
