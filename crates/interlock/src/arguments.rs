//! What can be typed.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, Parser, Subcommand};

use crate::failure::Reporting;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(Style::new().italic());

/// The machine room under work that agents do and people answer for.
#[derive(Debug, Parser)]
#[command(name = "interlock", version, styles = STYLES, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Exit codes:
  0  done
  1  the answer is no: invalid, blocked, not shown
  2  usage, unreadable or unparsable input, or an I/O error

Colours are used on a terminal only, and never when NO_COLOR is set.
Run `interlock help COMMAND` for examples of a command.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Compose(Compose),
}

/// Compose a workspace and print what it shows, or what is wrong with it, as JSON.
///
/// The input declares built-ins, module instances with the runtime status that a host resolved,
/// and a policy. The result is a pure function of it: the same content gives the same bytes,
/// in whatever order the input lists things.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Compose a file, to read it:
    interlock compose workspace.json --pretty

  Fail a build when the workspace does not compose (exit 1), and keep the reasons:
    interlock compose workspace.json > composed.json

  Ask why something is shown, or is not:
    interlock compose workspace.json --explain data-lab-prod:routes/home

  The smallest input there is:
    echo '{\"builtins\": [], \"modules\": []}' | interlock compose --pretty

A fixture, `{\"id\": …, \"input\": …, \"expect\": …}`, is composed by its `input`.

Exit codes:
  0  the workspace composes (with --explain: the key is shown)
  1  it does not; the diagnostics say why (with --explain: the key is not shown)
  2  the input could not be read, or is no JSON: the error says where")]
pub(crate) struct Compose {
    /// The input; `-` or nothing reads standard input.
    pub(crate) file: Option<PathBuf>,

    /// Indent the JSON for people.
    #[arg(long)]
    pub(crate) pretty: bool,

    /// Answer why KEY (owner:kind/id) is shown, or not, instead of printing the result.
    #[arg(long, value_name = "KEY")]
    pub(crate) explain: Option<String>,

    /// Print exactly one JSON document on standard output, errors included.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Compose {
    /// The result of `compose` is JSON in any case, so an error is too; a person gets words beside it.
    pub(crate) const fn reporting(&self) -> Reporting {
        match (self.json, self.explain.is_some()) {
            (true, _) => Reporting::Json,
            (false, true) => Reporting::Words,
            (false, false) => Reporting::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
