//! The platform's directories for user data.

use std::path::{Path, PathBuf};

use canon::error::Envelope;

use super::Environment;
use crate::failure::{CommandErrorCode, Failure};

const FOLDER: &str = "interlock";

///
/// # Errors
/// If no home directory is known.
pub(super) fn data_dir(environment: Environment<'_>) -> Result<PathBuf, Failure> {
    let base = user_folder(environment, "XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Envelope::new(
            CommandErrorCode::DataDirUnknown,
            "The data directory is unknown because HOME is not set.",
        )
        .suggest("Pass --data-dir DIR, or set INTERLOCK_HOME or HOME.")
    })?;
    Ok(base.join(FOLDER))
}

/// The user's folder for configuration.
pub(super) fn config_dir(environment: Environment<'_>) -> Option<PathBuf> {
    Some(user_folder(environment, "XDG_CONFIG_HOME", ".config")?.join(FOLDER))
}

/// The user's workflow folder.
pub(super) fn user_workflows(environment: Environment<'_>) -> Option<PathBuf> {
    Some(config_dir(environment)?.join("workflows"))
}

fn user_folder(environment: Environment<'_>, variable: &str, below_home: &str) -> Option<PathBuf> {
    let home = || environment("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support"));
    }
    // The XDG specification requires relative paths to be ignored.
    let given = environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| Some(home()?.join(below_home)))
}

/// An absolute path, independent of later changes of the working directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn relative_xdg_variables_are_ignored() {
        let cases = [
            (&[("HOME", "/me")][..], "/me/.local/share/interlock", "/me/.config/interlock/workflows"),
            (
                &[("HOME", "/me"), ("XDG_DATA_HOME", "/data"), ("XDG_CONFIG_HOME", "/etc/me")][..],
                "/data/interlock",
                "/etc/me/interlock/workflows",
            ),
            (
                &[("HOME", "/me"), ("XDG_DATA_HOME", "data")][..],
                "/me/.local/share/interlock",
                "/me/.config/interlock/workflows",
            ),
        ];
        for (variables, data, workflows) in cases {
            let lookup = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(data_dir(&lookup).unwrap(), Path::new(data));
            assert_eq!(user_workflows(&lookup).unwrap(), Path::new(workflows));
        }
    }
}
