//! `interlock mcp install` and `interlock mcp uninstall`.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use canon::error::Envelope;
use serde_json::json;

use super::clients::{self, ConfigFile, Directories};
use super::edit::{self, EditError, Edited};
use super::entry::Entry;
use crate::arguments::{ClientTarget, Globals, McpInstall, McpUninstall};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, BAD, DIM, GOOD, Layout, WARNING};

/// The largest configuration file that is edited. Some clients keep megabytes of history in it.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How often an edit is retried because the client changed the file meanwhile.
const MAX_TRIES: usize = 5;

/// Context lines around a shown change.
const CONTEXT_LINES: usize = 2;

pub(super) fn install(arguments: &McpInstall, globals: &Globals) -> Result<ExitStatus, Failure> {
    let target = &arguments.target;
    let entry = Entry::of_this_program(globals, &arguments.workflows)?;
    if entry.is_build_output() {
        output::note(&format_args!(
            "{WARNING}warning{WARNING:#}: {} is in a build directory; the entry stops working when that is cleaned. Copy the program \
             somewhere permanent and run this command from there.",
            output::clean(&entry.command)
        ));
    }
    let outcome =
        change(target, |text, file| edit::put(text, file.form, &target.name, &entry, arguments.replace))?;
    report(target, &outcome, Some(&entry))
}

pub(super) fn uninstall(arguments: &McpUninstall) -> Result<ExitStatus, Failure> {
    let target = &arguments.target;
    let outcome = change(target, |text, file| edit::remove(text, file.form, &target.name))?;
    report(target, &outcome, None)
}

struct FileChange {
    file: ConfigFile,
    shown: String,
    before: String,
    edited: Edited,
}

/// Reads the file, edits its text, and replaces it unless it changed meanwhile.
fn change(
    target: &ClientTarget,
    edit: impl Fn(&str, &ConfigFile) -> Result<Edited, EditError>,
) -> Result<FileChange, Failure> {
    let directories = Directories::from_environment()?;
    let file = clients::config_file(target.client, target.scope, &directories).ok_or_else(|| {
        let client = clients::title(target.client);
        Envelope::new(
            CommandErrorCode::ClientConfigInvalid,
            format!("{client} has no configuration file for a project."),
        )
        .suggest("Pass `--scope user`.")
    })?;
    let shown = clients::shown(&file.path, &directories);
    for _ in 0..MAX_TRIES {
        let before = read(&file.path)?;
        let edited = edit(&before, &file).map_err(|error| refused(&error, &file.path, &target.name))?;
        let is_written = match &edited {
            Edited::Unchanged => true,
            Edited::Added(_) | Edited::Replaced(_) | Edited::Removed(_) if target.dry_run => true,
            Edited::Added(after) | Edited::Replaced(after) | Edited::Removed(after) => {
                write(&file.path, &before, after)
                    .map_err(|cause| Failure::unwritable(Some(&file.path), cause))?
            }
        };
        if is_written {
            return Ok(FileChange { file, shown, before, edited });
        }
    }
    let cause = io::Error::other("another program keeps writing to it; close the client and try again");
    Err(Failure::unwritable(Some(&file.path), cause))
}

/// The contents of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<String, Failure> {
    let failed = |cause| Failure::unreadable(Some(path), cause);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(failed(io::Error::other(format!("the file is larger than {MAX_FILE_BYTES} bytes"))));
    }
    Ok(text)
}

/// Replaces the file with one rename, unless it differs from `before`. Returns whether it did.
fn write(path: &Path, before: &str, after: &str) -> io::Result<bool> {
    // Dotfiles are often links into a repository: write to the target and keep the link.
    let path = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder)?;
    let known = fs::metadata(&path).map(|metadata| metadata.permissions()).ok();
    let is_new = known.is_none();
    let mut file = tempfile::Builder::new()
        .prefix(".interlock-")
        .permissions(known.unwrap_or_else(|| Permissions::from_mode(0o666)))
        .tempfile_in(&folder)?;
    file.write_all(after.as_bytes())?;
    file.as_file().sync_all()?;
    let is_same = match fs::read(&path) {
        Ok(bytes) => bytes == before.as_bytes(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_new,
        Err(error) => return Err(error),
    };
    if is_same {
        file.persist(&path).map_err(|error| error.error)?;
    }
    Ok(is_same)
}

fn refused(error: &EditError, path: &Path, name: &str) -> Failure {
    let file = path.display();
    let (code, message, help) = match error {
        EditError::Syntax(reason) => (
            CommandErrorCode::ClientConfigInvalid,
            format!("{file} cannot be parsed: {reason}"),
            "Fix the file, then run this command again. Nothing was written.",
        ),
        EditError::NotAnObject(what) => (
            CommandErrorCode::ClientConfigInvalid,
            format!("{file} cannot be edited: {what} is not an object."),
            "Fix the file, then run this command again. Nothing was written.",
        ),
        EditError::Differs => (
            CommandErrorCode::ClientEntryDiffers,
            format!("{file} has a different server `{name}`."),
            "Pass `--replace` to overwrite it, or `--name` to add this one under another name. Nothing was written.",
        ),
    };
    Envelope::new(code, message).suggest(help).detail("file", file.to_string()).into()
}

fn report(target: &ClientTarget, outcome: &FileChange, entry: Option<&Entry>) -> Result<ExitStatus, Failure> {
    let (change, after) = match &outcome.edited {
        Edited::Unchanged => ("unchanged", None),
        Edited::Added(after) => ("added", Some(after)),
        Edited::Replaced(after) => ("replaced", Some(after)),
        Edited::Removed(after) => ("removed", Some(after)),
    };
    if target.answering.json {
        let document = json!({
            "change": change,
            "command": entry.map(|entry| &entry.command),
            "args": entry.map(|entry| &entry.args),
            "dryRun": target.dry_run,
            "file": outcome.file.path.display().to_string(),
            "name": target.name,
        });
        output::json(&document, Layout::Compact)?;
        return Ok(ExitStatus::Success);
    }
    let mut text = String::new();
    let client = clients::title(target.client);
    let file = output::clean(&outcome.shown);
    if let Some(after) = after {
        let _ = write!(text, "{file}\n{}\n", difference(&outcome.before, after));
    }
    let name = &target.name;
    let _ = match (after.is_some(), target.dry_run, entry.is_some()) {
        (false, _, true) => write!(text, "{client} already has this entry; {file} was not changed."),
        (false, _, false) => write!(text, "{client} has no server `{name}` in {file}; nothing was changed."),
        (true, true, _) => write!(text, "Dry run: {file} was not changed."),
        (true, false, true) => write!(
            text,
            "Added `{name}` to {client}. {}\nUndo: interlock mcp uninstall --client {}{}{}",
            clients::check(target.client),
            spelling(target.client),
            if target.scope == crate::arguments::ConfigScope::Project { " --scope project" } else { "" },
            if name == "interlock" { String::new() } else { format!(" --name {name}") },
        ),
        (true, false, false) => write!(text, "Removed `{name}` from {client}. Restart the client."),
    };
    output::text(&text)?;
    Ok(ExitStatus::Success)
}

/// The client's name on the command line.
fn spelling(client: crate::arguments::Client) -> String {
    use clap::ValueEnum as _;
    client.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The changed lines with some context. Only one entry changes, so there is one hunk.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tail =
        old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
    let mut text = String::new();
    let mut line = |sign: char, style: anstyle::Style, content: &str| {
        let _ = writeln!(text, "{style}{sign} {}{style:#}", output::clean(content));
    };
    for content in &old[head.saturating_sub(CONTEXT_LINES)..head] {
        line(' ', DIM, content);
    }
    for content in &old[head..old.len() - tail] {
        line('-', BAD, content);
    }
    for content in &new[head..new.len() - tail] {
        line('+', GOOD, content);
    }
    for content in old[old.len() - tail..].iter().take(CONTEXT_LINES) {
        line(' ', DIM, content);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_two_context_lines() {
        let plain =
            |before: &str, after: &str| anstream::adapter::strip_str(&difference(before, after)).to_string();
        assert_eq!(plain("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n"), "  b\n  c\n- d\n+ X\n  e\n  f\n");
        assert_eq!(plain("", "{}\n"), "+ {}\n");
        assert_eq!(plain("a\na\n", "a\n"), "  a\n- a\n");
    }

    #[test]
    fn a_concurrently_changed_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/mcp.json");
        assert!(write(&path, "", "one").unwrap());
        assert!(!write(&path, "other", "two").unwrap());
        assert!(!write(&path, "", "two").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert!(write(&path, "one", "two").unwrap());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn links_and_permissions_are_preserved() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "one").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(write(&link, "one", "two").unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
