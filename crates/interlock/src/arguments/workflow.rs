//! What can be typed after `workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Answering;

/// The workflows there are, and writing new ones.
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
    Expand(WorkflowExpand),
}

impl WorkflowCommand {
    pub(crate) const fn answering(&self) -> Answering {
        match self {
            Self::List(arguments) => arguments.answering,
            Self::Show(arguments) => arguments.answering,
            Self::Validate(arguments) => arguments.answering,
            Self::Compile(arguments) => arguments.answering,
            Self::New(arguments) => arguments.answering,
            Self::Expand(arguments) => arguments.answering,
        }
    }
}

/// Where workflows are looked for, besides the user's folder and the attached sources.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkflowSources {
    /// The workspace whose `workflows/` folder counts; the current folder without.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// A further folder of workflow files; may be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,
}

/// List the workflows, where each comes from, and which files were left out and why.
///
/// Of several files with one id the one of the highest source wins: project, then git repositories,
/// configured folders, attached folders, the user's folder, and what comes with the program. A
/// broken file is listed with its reason and never hides the rest.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What can be started here?
    interlock workflow list

  Only what is tagged for reviews, as JSON:
    interlock workflow list --tag review_audit --json

  With a folder that is not configured:
    interlock workflow list --workflows ./drafts")]
pub(crate) struct WorkflowList {
    /// Only workflows with this tag; may be given several times.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,

    #[command(flatten)]
    pub(crate) sources: WorkflowSources,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Show a workflow as a run would be pinned to it: steps, loops, contracts, and where each came from.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Read one before starting it:
    interlock workflow show wr.bug_investigation

  The compiled workflow, whole:
    interlock workflow show project.release --json")]
pub(crate) struct WorkflowShow {
    /// The id of the workflow.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) sources: WorkflowSources,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Check workflow files, and say everything that is wrong with them at once.
///
/// Each problem has the file, the JSON path, the reason and a fix.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  While writing one:
    interlock workflow validate workflows/release.yaml

  In a build, over all of them (exit 1 if anything is wrong):
    interlock workflow validate workflows/*.json workflows/*.yaml

  For an editor:
    interlock workflow validate workflows/release.yaml --json")]
pub(crate) struct WorkflowValidate {
    /// The files: .json, .yaml or .yml.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Compile a workflow file, and print the compiled workflow and its hash.
///
/// The hash is what a run is pinned to. It follows from the file alone: the same file has the same hash
/// on every machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The compiled workflow and its hash, indented:
    interlock workflow compile workflows/release.yaml

  Only the hash:
    interlock workflow compile workflows/release.yaml --json | jq -r .workflowHash

  Which pass of the compiler wrote which line of a prompt?
    interlock workflow compile workflows/release.yaml --explain")]
pub(crate) struct WorkflowCompile {
    /// The file: .json, .yaml or .yml.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Name the pass behind each line instead of printing the compiled workflow; with --json, beside it.
    #[arg(long)]
    pub(crate) explain: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Write a starter for a new workflow: small, valid, and commented where the format allows it.
///
/// Nothing is overwritten. YAML files have comments; JSON files have none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A commented starter, project.release in release.yaml:
    interlock workflow new project.release

  Where this project keeps its workflows:
    interlock workflow new project.release -o workflows/release.yaml

  In JSON, to a pipe:
    interlock workflow new project.release -o - --format json")]
pub(crate) struct WorkflowNew {
    /// The id, `namespace.name`; `wr.` belongs to the program.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The file to write, .json, .yaml or .yml; `-` is standard output. The name of the id and .yaml without.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The format, where the file's name does not tell.
    #[arg(long, value_enum)]
    pub(crate) format: Option<SourceFormat>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Put a chain of an installed pack into a workflow, at a place of your choice.
///
/// A chain is a piece of a workflow with parameters. Its nodes and edges become those of the workflow, with ids
/// of their own, and nothing of the chain is left: the result is a workflow as if it had been written by hand. The
/// signature of the pack is verified first, and every type of node has to be known here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Let somebody look again before an order is shipped (from the folder examples/packs of the source):
    interlock pack install second-look
    interlock workflow expand order.json vendor.acme.second-look --on packed \\
        --parameters '{\"title\": \"Really ship it?\"}' -o careful.json
    interlock run ./careful.json --follow

  Which ids did the nodes get?
    interlock workflow expand order.json vendor.acme.second-look --on packed --parameters p.json --json | jq .idMap

  Only if this key had signed the pack before it was installed, and behind a node instead of into an edge:
    interlock workflow expand order.json vendor.acme.second-look@1.0.0 --after pack --parameters p.json \\
        --key acme.pem.pub

Where it is put:
  --on EDGE       into an edge: A -> B becomes A -> chain -> B. Its condition is asked before the chain,
                  its triggerRule counts behind it
  --after NODE    behind a node
  --before NODE   before a node; together with --after, between the two. Edges that are there stay
  nothing         beside everything: the chain begins with the run

Exit codes:
  0  the expanded workflow was written
  1  it was not: the pack, a type, a parameter, the place or the result was refused
  2  something could not be read or written")]
pub(crate) struct WorkflowExpand {
    /// The workflow: a file with `nodes`, .json, .yaml or .yml. It is not changed, unless -o names it.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The installed pack, with or without a version behind an @; without, the highest.
    #[arg(value_name = "PACK")]
    pub(crate) pack: String,

    /// Which chain of the pack; not needed where it has only one.
    #[arg(long, value_name = "ID")]
    pub(crate) chain: Option<String>,

    /// The parameters of the chain: a JSON object, or a file that holds one.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) parameters: Option<String>,

    /// The edge to put it into, by its id.
    #[arg(long, value_name = "EDGE", conflicts_with_all = ["after", "before"])]
    pub(crate) on: Option<String>,

    /// The node to put it behind, by its id.
    #[arg(long, value_name = "NODE")]
    pub(crate) after: Option<String>,

    /// The node to put it before, by its id.
    #[arg(long, value_name = "NODE")]
    pub(crate) before: Option<String>,

    /// What tells this expansion from others in the same workflow; without, the first of 0001, 0002, … that is free.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// A public key that has to have signed the pack, as PEM. May be given several times; one is enough.
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,

    /// The file to write, .json; standard output without.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// How a workflow file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SourceFormat {
    /// With comments.
    Yaml,
    /// Without comments.
    Json,
}
