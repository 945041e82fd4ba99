//! What can be typed after `pack`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Answering;

/// Packs: nodes, agents, chains, prompts and more that others wrote.
#[derive(Debug, Args)]
pub(crate) struct Pack {
    #[command(subcommand)]
    pub(crate) command: PackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    New(PackNew),
    Check(PackCheck),
    Sign(PackSign),
    Verify(PackVerify),
    Install(PackInstall),
    Remove(PackRemove),
    List(PackList),
    Publish(PackPublish),
}

impl PackCommand {
    pub(crate) const fn answering(&self) -> Answering {
        match self {
            Self::New(new) => new.answering,
            Self::Check(check) => check.answering,
            Self::Sign(sign) => sign.answering,
            Self::Verify(verify) => verify.answering,
            Self::Install(install) => install.answering,
            Self::Remove(remove) => remove.answering,
            Self::List(list) => list.answering,
            Self::Publish(publish) => publish.answering,
        }
    }
}

/// The kinds of packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Types of nodes, agents, or both.
    Node,
    /// Pieces of workflows.
    WorkflowChain,
    /// Templates of prompts.
    Prompt,
    /// Types of artifacts.
    ArtifactType,
    /// Cards of a chat.
    Card,
    /// A provider that can be connected to.
    Connection,
    /// Parts of a front end.
    FrontendPlugin,
}

/// Write a pack that can be built upon.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A pack of nodes, in the folder http-tools:
    interlock pack new vendor.acme.http-tools

  A pack of chains, in a folder of your choice, then a look at what is wrong with it:
    interlock pack new vendor.acme.chains --kind workflow-chain my-chains
    interlock pack check my-chains")]
pub(crate) struct PackNew {
    /// The name: a scope and at least two more segments.
    pub(crate) name: String,

    /// The folder; without it one that is named after the last segment.
    pub(crate) dir: Option<PathBuf>,

    /// What the pack holds.
    #[arg(long, value_enum, default_value = "node")]
    pub(crate) kind: Kind,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Say everything that is wrong with a pack.
///
/// A folder is packed first, as `publish` packs it: always into the same bytes. A module of WebAssembly is compiled, asked
/// for its nodes, and run once with nothing, in the sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Look at a folder, and keep the archive when it is fine:
    interlock pack check http-tools --output http-tools.tgz

  Look at an archive of somebody else:
    interlock pack check http-tools.tgz --json

Exit codes:
  0  nothing is wrong
  1  something is; every problem is told with its place in pack.json
  2  it could not be read")]
pub(crate) struct PackCheck {
    /// A folder with pack.json in it, or an archive.
    pub(crate) source: PathBuf,

    /// Write the archive here.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Sign a pack, or make a key to sign with.
///
/// The signature is over the bytes of pack.json as they are; sign again after every change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Make a key; the public half is beside it, in acme.pem.pub:
    interlock pack sign --new-key acme.pem

  Sign a folder:
    interlock pack sign http-tools --key acme.pem")]
pub(crate) struct PackSign {
    /// A folder with pack.json in it.
    #[arg(required_unless_present = "new_key", requires = "key")]
    pub(crate) dir: Option<PathBuf>,

    /// The private key, as PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Make a key and write it here; a file that is there stays.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "dir"])]
    pub(crate) new_key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Verify the signature of a pack.
///
/// Without a key the pack is held to the key that it brings, which proves only that it is whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Was this made by the key that I know?
    interlock pack verify http-tools.tgz --key acme.pem.pub

Exit codes:
  0  it is signed by that key
  1  it is not
  2  something could not be read")]
pub(crate) struct PackVerify {
    /// An archive, or a folder with pack.json in it.
    pub(crate) source: PathBuf,

    /// A public key, as PEM. May be given several times.
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Install a pack into the data directory.
///
/// Everything is verified before anything is written. With --key only packs that are signed by one of the keys are taken.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  An archive that you have:
    interlock pack install http-tools.tgz --key acme.pem.pub

  The highest version in a range, with everything that it needs, from a server or a folder:
    interlock pack install vendor.acme.http-tools@^1.2 --registry http://127.0.0.1:7717
    interlock pack install vendor.acme.http-tools --registry ./registry")]
pub(crate) struct PackInstall {
    /// An archive, a folder, or a name with a range behind an @.
    pub(crate) source: String,

    /// The registry to ask for a name: an address, or a folder.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: Option<String>,

    /// A public key that is trusted, as PEM. May be given several times.
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,

    /// The bytes that are expected: sha256-… as `pack check` says it.
    #[arg(long, value_name = "SHA256")]
    pub(crate) expect: Option<String>,

    /// Write which versions were chosen here.
    #[arg(long, value_name = "FILE")]
    pub(crate) lockfile: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Remove an installed pack.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  One version:
    interlock pack remove vendor.acme.http-tools@1.2.0")]
pub(crate) struct PackRemove {
    /// The name and the version, with an @ between them.
    pub(crate) pack: String,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// List the installed packs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What is there, and who signed it?
    interlock pack list

  Is it still what was installed? Every file is read.
    interlock pack list --verify")]
pub(crate) struct PackList {
    /// Read every file and hold it to what was installed.
    #[arg(long)]
    pub(crate) verify: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Publish a pack to a registry.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  To a server, with the key in INTERLOCK_API_KEY:
    interlock pack publish http-tools.tgz --registry http://127.0.0.1:7717

  To a folder, signed on the way:
    interlock pack publish http-tools --registry ./registry --key acme.pem")]
pub(crate) struct PackPublish {
    /// An archive, or a folder with pack.json in it.
    pub(crate) source: PathBuf,

    /// The registry: an address, or a folder.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: String,

    /// Sign the folder with this private key first.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}
