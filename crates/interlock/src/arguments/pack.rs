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
/// The signature covers pack.json alone. The other files are fixed by the digest of the archive, which is told:
/// compare it with one that you trust, or give it to `pack install --expect`. Without a key the pack is held to
/// the key that it brings, which proves only that pack.json is whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Was its pack.json signed by the key that I know?
    interlock pack verify http-tools.tgz --key acme.pem.pub

Exit codes:
  0  pack.json is signed by that key
  1  it is not
  2  something could not be read")]
pub(crate) struct PackVerify {
    /// An archive, or a folder with pack.json in it.
    pub(crate) source: PathBuf,

    /// A public key, as PEM, and the names that it may sign for; without them, every name. May be given several times.
    #[arg(long = "key", value_name = "FILE[=GLOB]")]
    pub(crate) keys: Vec<String>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// How much a pack has to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trust {
    /// Nothing; but a signature that is there has to hold.
    Open,
    /// One of the keys signed it, and may sign for its name.
    Verified,
    /// As verified, and its name is in a namespace of --allow.
    Allowlist,
    /// Its bytes are those of the lockfile.
    Pinned,
}

/// Install packs into the data directory.
///
/// Everything is verified before anything is written. With --key only packs that are signed by one of the keys are taken.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  An archive that you have:
    interlock pack install http-tools.tgz --key acme.pem.pub

  The highest version in a range, with everything that it needs, from a server or a folder:
    interlock pack install vendor.acme.http-tools@^1.2 --registry https://packs.example
    interlock pack install vendor.acme.http-tools --registry ./registry

  The same, and keep what was chosen; elsewhere, install exactly that:
    interlock pack install vendor.acme.http-tools --registry ./registry --lockfile pack-lock.json
    interlock pack install --locked pack-lock.json --registry ./registry

  A registry of your own first, another one for what it does not have; a key only for the first:
    interlock pack install vendor.acme.http-tools --registry https://packs.acme.example \\
      --registry https://packs.example --api-key packs.key=https://packs.acme.example

  Without the network, and with one version of something that is needed forced:
    interlock pack install vendor.acme.http-tools --registry ./mirror --offline \\
      --override vendor.acme.base=1.4.2

  Only what these namespaces hold, each signed by the key that may sign there:
    interlock pack install vendor.acme.http-tools --registry ./registry --trust allowlist \\
      --allow 'vendor.acme.*' --key 'acme.pem.pub=vendor.acme.*'")]
pub(crate) struct PackInstall {
    /// An archive, a folder, or a name with a range behind an @.
    #[arg(required_unless_present = "locked", conflicts_with = "locked")]
    pub(crate) source: Option<String>,

    /// A registry to ask for a name: an address, or a folder. The first of several that has a pack gives it.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: Vec<String>,

    /// Install exactly what this lockfile says, held to its digests and signatures; also versions that were yanked since.
    /// Without --registry the registries in it are asked.
    #[arg(long, value_name = "FILE")]
    pub(crate) locked: Option<PathBuf>,

    /// Ask no server: only registries that are folders.
    #[arg(long)]
    pub(crate) offline: bool,

    /// Take this version of a pack that is needed, also a yanked one. It has to be in a range of somebody who needs it.
    #[arg(long = "override", value_name = "NAME=VERSION", requires = "registry", conflicts_with = "locked")]
    pub(crate) overrides: Vec<String>,

    /// How much a pack has to prove. Without it: verified with a key, pinned with a lockfile, else open.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) trust: Option<Trust>,

    /// A public key that is trusted, as PEM, and the names that it may sign for; without them, every name.
    #[arg(long = "key", value_name = "FILE[=GLOB]")]
    pub(crate) keys: Vec<String>,

    /// A namespace that packs may be of, such as vendor.acme.*, with --trust allowlist.
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,

    /// The bytes that are expected: sha256-… as `pack check` says it.
    #[arg(long, value_name = "SHA256", conflicts_with = "locked")]
    pub(crate) expect: Option<String>,

    /// A file with the key that a registry wants, and its address where several are asked. What is public needs none.
    #[arg(long = "api-key", value_name = "FILE[=URL]")]
    pub(crate) api_keys: Vec<String>,

    /// Write which versions were chosen here.
    #[arg(long, value_name = "FILE", requires = "registry", conflicts_with = "locked")]
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
///
/// One that cannot be used is listed as damaged, beside the others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What is there, and who signed it?
    interlock pack list

  Is it still what was installed? Every file is read.
    interlock pack list --verify

Exit codes:
  0  nothing is damaged
  1  something is; what is wrong with it is told
  2  the data directory could not be read")]
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
  To the server of this data directory, with the key of this machine:
    interlock pack publish http-tools.tgz --registry http://127.0.0.1:7717

  To another server, with a key that its owner gave you; this machine's own is never sent there:
    interlock pack publish http-tools.tgz --registry https://packs.example --api-key packs.key

  To a folder, signed on the way:
    interlock pack publish http-tools --registry ./registry --key acme.pem")]
pub(crate) struct PackPublish {
    /// An archive, or a folder with pack.json in it.
    pub(crate) source: PathBuf,

    /// The registry: an address, or a folder.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: String,

    /// A file with the key that the server wants. This machine's own server needs none.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key: Option<String>,

    /// Sign the folder with this private key first. An archive is published as it is.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}
