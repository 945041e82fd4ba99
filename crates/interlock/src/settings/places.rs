//! Where a platform keeps what belongs to a user.

use std::path::{Path, PathBuf};

use canon::error::Envelope;

use super::Environment;
use crate::failure::{CommandErrorCode, Failure};

/// The name of our folder in the platform's.
const FOLDER: &str = "interlock";

/// The default data directory.
///
/// # Errors
/// Nothing says whose machine this is.
pub(super) fn data_dir(environment: Environment<'_>) -> Result<PathBuf, Failure> {
    let base = user_folder(environment, "XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Envelope::new(
            CommandErrorCode::DataDirUnknown,
            "Nothing says where the data directory is: HOME is not set.",
        )
        .suggest("Give --data-dir DIR, or set INTERLOCK_HOME or HOME.")
    })?;
    Ok(base.join(FOLDER))
}

/// The user's own workflows.
pub(super) fn user_workflows(environment: Environment<'_>) -> Option<PathBuf> {
    Some(user_folder(environment, "XDG_CONFIG_HOME", ".config")?.join(FOLDER).join("workflows"))
}

fn user_folder(environment: Environment<'_>, variable: &str, below_home: &str) -> Option<PathBuf> {
    let home = || environment("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support"));
    }
    // A relative path there is to be ignored, says the specification of these variables.
    let given = environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| Some(home()?.join(below_home)))
}

/// A path that stays the same when the working directory does not.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn the_platforms_variables_count_when_they_are_absolute() {
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
