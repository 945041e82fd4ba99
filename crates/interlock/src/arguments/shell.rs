//! Arguments of `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

/// Print the completion script of a shell.
///
/// The script completes commands, options and values: contexts, workflows, states and runs. Source
/// it when the shell starts, so that it always matches the installed version.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Bash, in ~/.bashrc:
    source <(interlock completions bash)

  Zsh, in ~/.zshrc:
    source <(interlock completions zsh)

  Fish, in ~/.config/fish/completions/interlock.fish:
    interlock completions fish | source")]
pub(crate) struct Completions {
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Write manual pages, one per command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock man ~/.local/share/man/man1
  man interlock-runs-list")]
pub(crate) struct Man {
    /// The folder for the pages. It is created if missing; existing pages are replaced.
    pub(crate) dir: PathBuf,
}
