//! How a client starts this program.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::Globals;
use crate::failure::Failure;
use crate::settings::HOME_VARIABLE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl Entry {
    /// The absolute path of this program: clients start from any directory, often without the
    /// user's `PATH`.
    pub(super) fn of_this_program(globals: &Globals, workflows: &[PathBuf]) -> Result<Self, Failure> {
        let unknown = |cause| Failure::Unreadable { name: "the path of this program".to_owned(), cause };
        let program = std::env::current_exe().and_then(std::fs::canonicalize).map_err(unknown)?;
        let mut args = vec!["mcp".to_owned()];
        // Clients start servers with an environment of their own, so what is set here is written down.
        let home = std::env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()).map(PathBuf::from);
        let data_dir = globals.data_dir.as_deref().or(home.as_deref()).map(|path| ("--data-dir", path));
        let config = globals.config.as_deref().map(|path| ("--config", path));
        let folders = workflows.iter().map(|path| ("--workflows", path.as_path()));
        for (flag, path) in data_dir.into_iter().chain(config).chain(folders) {
            let absolute =
                std::path::absolute(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
            args.extend([flag.to_owned(), utf8(&absolute)?]);
        }
        Ok(Self { command: utf8(&program)?, args })
    }

    /// Whether the program is in a build directory, which `cargo clean` removes.
    pub(super) fn is_build_output(&self) -> bool {
        let folders: Vec<_> = Path::new(&self.command).components().rev().skip(1).take(2).collect();
        folders.last().is_some_and(|folder| folder.as_os_str() == "target")
    }

    pub(super) fn to_json(&self, names_transport: bool) -> Value {
        let mut entry = json!({"command": self.command, "args": self.args});
        if names_transport {
            entry["type"] = "stdio".into();
        }
        entry
    }
}

/// Configuration files are UTF-8, so other paths cannot be written.
fn utf8(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::unreadable(
            Some(path),
            io::Error::other("the path is not UTF-8, which configuration files require"),
        )
    })
}
