//! Arguments of `workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{OutputFormat, Target};

/// List, show, validate, test, draw, compile and create workflows.
#[derive(Debug, Args)]
pub(crate) struct Workflow {
    #[command(subcommand)]
    pub(crate) command: WorkflowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    List(WorkflowList),
    Show(WorkflowShow),
    Validate(WorkflowValidate),
    Compile(WorkflowCompile),
    New(WorkflowNew),
    Register(WorkflowRegister),
    Expand(WorkflowExpand),
    Test(WorkflowTest),
    Preview(WorkflowPreview),
}

impl WorkflowCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(arguments) => arguments.target.answering,
            Self::Show(arguments) => arguments.target.answering,
            Self::Register(arguments) => arguments.target.answering,
            Self::Validate(arguments) => arguments.answering,
            Self::Compile(arguments) => arguments.answering,
            Self::New(arguments) => arguments.answering,
            Self::Expand(arguments) => arguments.answering,
            Self::Test(arguments) => arguments.answering,
            Self::Preview(arguments) => arguments.answering,
        }
    }
}

/// What executes a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkflowKind {
    /// The server executes its `nodes`.
    Run,
    /// An agent is guided through its `steps`.
    Guided,
}

/// Register workflow files, so that they can be started by id.
///
/// A run workflow is registered with the server. A guided workflow is copied into your folder of
/// workflows, from which `interlock mcp` and `interlock serve` load it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Register with the local server, then start it:
    interlock workflow register incident.json
    interlock run incident

  Register with another server:
    interlock workflow register incident.json --context prod")]
pub(crate) struct WorkflowRegister {
    /// The workflow files.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Replace a guided workflow with the same id.
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Workflow sources, in addition to the user's folder and the attached sources.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkflowSources {
    /// The workspace whose `workflows/` folder is used. Default: the current folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// An additional folder of workflow files; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,
}

/// List the workflows, their sources, and the files that were skipped and why.
///
/// If several files have the same id, the source with the highest precedence wins: project, git
/// repositories, configured folders, attached folders, the user's folder, built-in workflows. An
/// invalid file is listed with its problems and does not affect the others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  List all workflows:
    interlock workflow list

  Only workflows with the tag `review_audit`, as JSON:
    interlock workflow list --tag review_audit --json

  Include an additional folder:
    interlock workflow list --workflows ./drafts

  The run workflows of a server:
    interlock workflow list --kind run --context prod")]
pub(crate) struct WorkflowList {
    /// Only workflows with this tag; may be repeated.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,

    #[command(flatten)]
    pub(crate) sources: WorkflowSources,

    /// Only workflows of this kind. Run workflows are listed if a server is running.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<WorkflowKind>,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Show a workflow: a guided workflow as compiled for a new run, or a run workflow as registered.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show a workflow:
    interlock workflow show wr.bug_investigation

  Print the complete compiled workflow:
    interlock workflow show project.release --json")]
pub(crate) struct WorkflowShow {
    /// The workflow id.
    #[arg(value_name = "ID", add = clap_complete::engine::ArgValueCandidates::new(crate::completion::workflows))]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) sources: WorkflowSources,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Validate workflow files and report all problems at once.
///
/// Each problem has the file, the JSON path, the reason and a fix.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Validate one file:
    interlock workflow validate workflows/release.yaml

  Validate all files in a build (exit 1 if any is invalid):
    interlock workflow validate workflows/*.json workflows/*.yaml

  As JSON, for an editor:
    interlock workflow validate workflows/release.yaml --json")]
pub(crate) struct WorkflowValidate {
    /// The files: .json, .yaml or .yml.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Test a guided workflow by playing it with scripted answers.
///
/// The run uses the same service that agents call, in memory; the data directory is neither read nor
/// written. Each call in the script names the step that must be pending and sends notes, artifacts
/// and context. The call must be accepted, or blocked with exactly the given codes. At the end, the
/// run must be complete, or wait at the given step.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Play workflows/release.test.yaml against workflows/release.yaml:
    interlock workflow test workflows/release.yaml

  Play several scripts, in a build:
    interlock workflow test workflows/release.yaml --script tests/happy.yaml --script tests/blocked.json --json

A script:
  goal: Release 1.4
  context: {kind: minor}
  calls:
    - step: look
      notes: Nothing yet.
      blocked: [MISSING_REQUIRED_OUTPUT]
    - step: look
      notes: \"Changed: the parser. Evidence: 12 tests pass.\"
      skips: [migrate]
    - step: decide
      notes: Ship it.
      artifacts: [{kind: wr.review_verdict, verdict: clean, findings: []}]
      context: {approved: true}
  expect: {gaps: 0}         # the run must be complete; with {pending: decide}, wait at that step

Exit codes:
  0  every script matched
  1  a script did not match, or the workflow is invalid; the first difference is printed
  2  a file could not be read")]
pub(crate) struct WorkflowTest {
    /// The workflow file: .json, .yaml or .yml.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// A script: .json, .yaml or .yml; may be repeated. Default: the file next to the workflow with
    /// `.test` in its name, such as release.test.yaml for release.yaml.
    #[arg(long, value_name = "SCRIPT")]
    pub(crate) script: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Draw a guided workflow: steps, loops, conditions, and where a person must decide.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  In the terminal:
    interlock workflow preview workflows/release.yaml

  As an image, and as Mermaid for a Markdown document:
    interlock workflow preview workflows/release.yaml -o release.svg
    interlock workflow preview workflows/release.yaml --format mermaid")]
pub(crate) struct WorkflowPreview {
    /// The workflow file: .json, .yaml or .yml.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The format. Default: from the name of the output file, or text.
    #[arg(long, value_enum)]
    pub(crate) format: Option<PreviewFormat>,

    /// The file to write. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreviewFormat {
    Text,
    Mermaid,
    Svg,
}

/// Compile a workflow file and print the compiled workflow and its hash.
///
/// A run is pinned to this hash. The hash depends only on the file: the same file has the same hash
/// on every machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Print the compiled workflow and its hash, indented:
    interlock workflow compile workflows/release.yaml

  Print only the hash:
    interlock workflow compile workflows/release.yaml --json | jq -r .workflowHash

  Show which compiler pass produced each line:
    interlock workflow compile workflows/release.yaml --explain")]
pub(crate) struct WorkflowCompile {
    /// The file: .json, .yaml or .yml.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Show the compiler pass of each line instead of the compiled workflow; with --json, in
    /// addition to it.
    #[arg(long)]
    pub(crate) explain: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Create a new workflow file: small, valid, and with comments in YAML.
///
/// Existing files are never overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Create project.release in release.yaml, with comments:
    interlock workflow new project.release

  In the workflows folder of this project:
    interlock workflow new project.release -o workflows/release.yaml

  As JSON on standard output:
    interlock workflow new project.release -o - --format json")]
pub(crate) struct WorkflowNew {
    /// The id, `namespace.name`; the namespace `wr` is reserved.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The file to write, .json, .yaml or .yml; `-` is standard output. Default: the name part of
    /// the id with .yaml.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The format, if the file name does not determine it.
    #[arg(long, value_enum)]
    pub(crate) format: Option<SourceFormat>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Insert a chain from an installed pack into a workflow.
///
/// A chain is a workflow fragment with parameters. Its nodes and edges are copied into the workflow
/// with new ids; the result is an ordinary workflow without a reference to the chain. The pack's
/// signature is verified first, and all node types must be known.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Add an approval before an order is shipped (run in examples/packs of the source):
    interlock pack install second-look
    interlock workflow expand order.json vendor.acme.second-look --on packed \\
        --parameters '{\"title\": \"Really ship it?\"}' -o careful.json
    interlock run ./careful.json --follow

  Show the ids of the new nodes:
    interlock workflow expand order.json vendor.acme.second-look --on packed --parameters p.json --json | jq .idMap

  Require a signature by this key, and insert after a node instead of on an edge:
    interlock workflow expand order.json vendor.acme.second-look@1.0.0 --after pack --parameters p.json \\
        --key acme.pem.pub

Insert positions:
  --on EDGE       on an edge: A -> B becomes A -> chain -> B. The edge's condition applies before the
                  chain, its triggerRule after it
  --after NODE    after a node
  --before NODE   before a node; with --after, between the two. Existing edges are kept
  (none)          unconnected: the chain starts with the run

Exit codes:
  0  the expanded workflow was written
  1  nothing was written: the pack, a type, a parameter, the position or the result is invalid
  2  a file could not be read or written")]
pub(crate) struct WorkflowExpand {
    /// The workflow: a file with `nodes`, .json, .yaml or .yml. It is not changed unless -o names
    /// it.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The installed pack, optionally with a version after an @. Default: the highest version.
    #[arg(value_name = "PACK")]
    pub(crate) pack: String,

    /// The chain. Required if the pack has several.
    #[arg(long, value_name = "ID")]
    pub(crate) chain: Option<String>,

    /// The parameters of the chain: a JSON object, or a file with one.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) parameters: Option<String>,

    /// The id of the edge to insert into.
    #[arg(long, value_name = "EDGE", conflicts_with_all = ["after", "before"])]
    pub(crate) on: Option<String>,

    /// The id of the node to insert after.
    #[arg(long, value_name = "NODE")]
    pub(crate) after: Option<String>,

    /// The id of the node to insert before.
    #[arg(long, value_name = "NODE")]
    pub(crate) before: Option<String>,

    /// The id of this expansion, which makes node ids unique. Default: the first free one of 0001,
    /// 0002, …
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// A public key, as PEM, that must have signed the pack; may be repeated, one match is enough.
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,

    /// The file to write, .json. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SourceFormat {
    /// With comments.
    Yaml,
    /// Without comments.
    Json,
}
