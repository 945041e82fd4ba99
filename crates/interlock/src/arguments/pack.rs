//! Arguments of `pack`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFormat;

/// Create, check, sign, install and publish packs of nodes, agents, chains, prompts and more.
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
    pub(crate) const fn answering(&self) -> OutputFormat {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Node types, agents, or both.
    Node,
    /// Workflow fragments.
    WorkflowChain,
    /// Prompt templates.
    Prompt,
    /// Artifact types.
    ArtifactType,
    /// Chat cards.
    Card,
    /// A connection provider.
    Connection,
    /// UI plugins for the console.
    FrontendPlugin,
}

/// Create a new pack from a template.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A pack of nodes, in the folder http-tools:
    interlock pack new vendor.acme.http-tools

  A pack of chains in a given folder, then check it:
    interlock pack new vendor.acme.chains --kind workflow-chain my-chains
    interlock pack check my-chains")]
pub(crate) struct PackNew {
    /// The pack name: a scope and at least two more segments.
    pub(crate) name: String,

    /// The folder. Default: the last segment of the name.
    pub(crate) dir: Option<PathBuf>,

    /// The kind of pack.
    #[arg(long, value_enum, default_value = "node")]
    pub(crate) kind: Kind,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Check a pack and report every problem.
///
/// A folder is packed first, exactly as `publish` does; the same files always give the same bytes.
/// A WebAssembly module is compiled, asked for its nodes, and run once with empty input in the
/// sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Check a folder, and write the archive if it is valid:
    interlock pack check http-tools --output http-tools.tgz

  Check an archive:
    interlock pack check http-tools.tgz --json

Exit codes:
  0  no problems
  1  problems found; each is printed with its location in pack.json
  2  the pack could not be read")]
pub(crate) struct PackCheck {
    /// A folder with pack.json, or an archive.
    pub(crate) source: PathBuf,

    /// Write the archive to this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Sign a pack, or create a signing key.
///
/// The signature covers the exact bytes of pack.json; sign again after every change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Create a key; the public key is written to acme.pem.pub:
    interlock pack sign --new-key acme.pem

  Sign a folder:
    interlock pack sign http-tools --key acme.pem")]
pub(crate) struct PackSign {
    /// A folder with pack.json.
    #[arg(required_unless_present = "new_key", requires = "key")]
    pub(crate) dir: Option<PathBuf>,

    /// The private key, as PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Create a key and write it to this file; an existing file is never overwritten.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "dir"])]
    pub(crate) new_key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Verify the signature of a pack.
///
/// The signature covers only pack.json. The digest of the archive covers the other files; it is
/// printed, so that you can compare it with one you trust or pass it to `pack install --expect`.
/// Without --key, the pack is verified with the key it contains, which only proves that pack.json
/// is unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Verify that pack.json is signed by a known key:
    interlock pack verify http-tools.tgz --key acme.pem.pub

Exit codes:
  0  the signature is valid
  1  the signature is missing or invalid
  2  a file could not be read")]
pub(crate) struct PackVerify {
    /// An archive, or a folder with pack.json.
    pub(crate) source: PathBuf,

    /// A public key, as PEM, and the pack names that it may sign; default: all names. May be
    /// repeated.
    #[arg(long = "key", value_name = "FILE[=GLOB]")]
    pub(crate) keys: Vec<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// The verification required for a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trust {
    /// None; an existing signature must still be valid.
    Open,
    /// Signed by one of the given keys, which must be allowed to sign for its name.
    Verified,
    /// As `verified`, and the name is in a namespace given with --allow.
    Allowlist,
    /// The bytes match the lockfile.
    Pinned,
}

/// Install packs into the data directory.
///
/// Everything is verified before anything is written. With --key, only packs signed by one of the
/// keys are installed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Install an archive:
    interlock pack install http-tools.tgz --key acme.pem.pub

  Install the highest version in a range, with its dependencies, from a server or a folder:
    interlock pack install vendor.acme.http-tools@^1.2 --registry https://packs.example
    interlock pack install vendor.acme.http-tools --registry ./registry

  Write a lockfile, and install exactly the same versions elsewhere:
    interlock pack install vendor.acme.http-tools --registry ./registry --lockfile pack-lock.json
    interlock pack install --locked pack-lock.json --registry ./registry

  Use your registry first and another as fallback, with a key for the first only:
    interlock pack install vendor.acme.http-tools --registry https://packs.acme.example \\
      --registry https://packs.example --api-key packs.key=https://packs.acme.example

  Install offline, with the version of a dependency overridden:
    interlock pack install vendor.acme.http-tools --registry ./mirror --offline \\
      --override vendor.acme.base=1.4.2

  Allow only one namespace, signed with its key:
    interlock pack install vendor.acme.http-tools --registry ./registry --trust allowlist \\
      --allow 'vendor.acme.*' --key 'acme.pem.pub=vendor.acme.*'")]
pub(crate) struct PackInstall {
    /// An archive, a folder, or a name with a version range after an @.
    #[arg(required_unless_present = "locked", conflicts_with = "locked")]
    pub(crate) source: Option<String>,

    /// A registry: a URL or a folder; may be repeated. The first one that has a pack provides it.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: Vec<String>,

    /// Install exactly the versions in this lockfile and verify their digests and signatures;
    /// yanked versions are allowed. Default registries: those in the lockfile.
    #[arg(long, value_name = "FILE")]
    pub(crate) locked: Option<PathBuf>,

    /// Do not use the network; use only registries that are folders.
    #[arg(long)]
    pub(crate) offline: bool,

    /// Use this version of a dependency, even if it is yanked. It must satisfy at least one of the
    /// ranges that require it.
    #[arg(long = "override", value_name = "NAME=VERSION", requires = "registry", conflicts_with = "locked")]
    pub(crate) overrides: Vec<String>,

    /// The required verification. Default: `verified` with a key, `pinned` with a lockfile,
    /// otherwise `open`.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) trust: Option<Trust>,

    /// A trusted public key, as PEM, and the pack names that it may sign; default: all names.
    #[arg(long = "key", value_name = "FILE[=GLOB]")]
    pub(crate) keys: Vec<String>,

    /// An allowed namespace, such as vendor.acme.*, for --trust allowlist.
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,

    /// The expected digest, sha256-…, as printed by `pack check`.
    #[arg(long, value_name = "SHA256", conflicts_with = "locked")]
    pub(crate) expect: Option<String>,

    /// A file with the API key of a registry, and the registry's URL if there are several. Public
    /// packs need no key.
    #[arg(long = "api-key", value_name = "FILE[=URL]")]
    pub(crate) api_keys: Vec<String>,

    /// Write a lockfile with the chosen versions.
    #[arg(long, value_name = "FILE", requires = "registry", conflicts_with = "locked")]
    pub(crate) lockfile: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Remove an installed pack.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Remove one version:
    interlock pack remove vendor.acme.http-tools@1.2.0")]
pub(crate) struct PackRemove {
    /// The name and version, separated by an @.
    pub(crate) pack: String,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// List the installed packs.
///
/// Packs that cannot be used are listed as damaged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  List the packs and their signers:
    interlock pack list

  Verify every file of every pack:
    interlock pack list --verify

Exit codes:
  0  no damage
  1  at least one pack is damaged; the reason is printed
  2  the data directory could not be read")]
pub(crate) struct PackList {
    /// Read every file and compare it with what was installed.
    #[arg(long)]
    pub(crate) verify: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Publish a pack to a registry.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Publish to the server of this data directory, with its local key:
    interlock pack publish http-tools.tgz --registry http://127.0.0.1:7717

  Publish to another server with its API key; the local key is never sent there:
    interlock pack publish http-tools.tgz --registry https://packs.example --api-key packs.key

  Sign and publish to a folder:
    interlock pack publish http-tools --registry ./registry --key acme.pem")]
pub(crate) struct PackPublish {
    /// An archive, or a folder with pack.json.
    pub(crate) source: PathBuf,

    /// The registry: a URL or a folder.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) registry: String,

    /// A file with the server's API key. The local server needs none.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key: Option<String>,

    /// Sign the folder with this private key first. Archives are published unchanged.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
