//! The checks.

mod database;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use storage::files::SessionFiles;

use super::Check;
use crate::commands::serve::store::database_url;
use crate::progress::Progress;
use crate::service;
use crate::settings::Settings;

/// Every check, in the order in which problems would appear.
pub(super) fn all(settings: &Settings) -> Vec<Check> {
    let data_dir = &settings.data_dir.value;
    let mut checks = vec![config(settings)];
    checks.extend(directory(data_dir));
    match service::open_files_to_read(settings) {
        Ok(files) => {
            checks.push(format(data_dir));
            checks.push(keyring(&files, data_dir));
            checks.push(index(data_dir));
            checks.push(sessions(&files));
        }
        Err(failure) => checks.push(Check::fail(
            "format",
            failure.to_string().lines().next().unwrap_or_default(),
            "Use a newer version of interlock, or another directory.",
        )),
    }
    match database_url(settings) {
        Ok(None) => checks.extend(database::checks(data_dir)),
        Ok(Some(url)) => checks.push(database::check_postgres(&url)),
        Err(failure) => checks.push(Check::fail(
            "run database",
            failure.to_string(),
            "Set `database.url` to a URL, or to `env:NAME` or `file:/path`.",
        )),
    }
    checks.push(workflows(settings));
    checks.push(git());
    checks.extend(agents(settings));
    checks
}

fn config(settings: &Settings) -> Check {
    let path = settings.config.value.display();
    // An invalid file would have failed when the settings were loaded.
    if settings.config.value.exists() {
        Check::ok("config", format!("{path} is valid"))
    } else {
        Check::ok("config", "no settings file; using defaults")
    }
}

fn directory(data_dir: &Path) -> Vec<Check> {
    let shown = data_dir.display();
    if !data_dir.exists() {
        // The nearest existing folder decides whether the rest can be created.
        let above = data_dir.ancestors().skip(1).find(|path| path.exists());
        return vec![match above.map(tempfile::tempfile_in) {
            Some(Ok(_)) => {
                Check::ok("data directory", format!("{shown} does not exist yet; it is created when needed"))
            }
            _ => Check::fail(
                "data directory",
                format!("{shown} does not exist and cannot be created"),
                "Create it, or set INTERLOCK_HOME or --data-dir to another directory.",
            ),
        }];
    }
    let readable = match fs::read_dir(data_dir) {
        Ok(_) => Check::ok("readable", shown.to_string()),
        Err(cause) => Check::fail(
            "readable",
            format!("{shown} cannot be read: {cause}"),
            "Set INTERLOCK_HOME or --data-dir to a directory that you can read.",
        ),
    };
    let writable = match tempfile::tempfile_in(data_dir) {
        Ok(_) => Check::ok("writable", shown.to_string()),
        Err(cause) => Check::fail(
            "writable",
            format!("{shown} cannot be written: {cause}"),
            "Sessions can be shown but not continued. Make the directory writable for this user.",
        ),
    };
    let mode = fs::metadata(data_dir).map_or(0o700, |metadata| metadata.permissions().mode() & 0o777);
    let private = if mode & 0o077 == 0 {
        Check::ok("private", "only you have access")
    } else {
        Check::warn(
            "private",
            format!("other users can list it (mode {mode:o}); the files in it are private"),
            format!("chmod 700 {shown}"),
        )
    };
    vec![readable, writable, private]
}

fn format(data_dir: &Path) -> Check {
    // Opening the store has validated it; this only reports the version.
    match fs::read_to_string(data_dir.join("format.json")) {
        Ok(text) => {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            Check::ok("format", format!("version {}", value["version"]))
        }
        Err(_) => Check::ok("format", "none yet; nothing has been written"),
    }
}

fn keyring(files: &SessionFiles, data_dir: &Path) -> Check {
    match files.keyring() {
        Ok(None) => Check::ok("keyring", "none yet; it is created with the first session"),
        Ok(Some(keyring)) => {
            let previous = if keyring.previous.is_some() { ", and a previous key" } else { "" };
            let found = format!("{}{previous}", keyring.current.fingerprint());
            let file = data_dir.join("keys").join("keyring.json");
            let mode = fs::metadata(&file).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
            if mode & 0o077 == 0 {
                Check::ok("keyring", found)
            } else {
                Check::fail(
                    "keyring",
                    format!("{found}; other users can read it (mode {mode:o})"),
                    format!("chmod 600 {}, then rotate twice: interlock key rotate", file.display()),
                )
            }
        }
        Err(error) => {
            let envelope = error.envelope();
            Check::fail(
                "keyring",
                envelope.message(),
                "Restore keys/keyring.json from a backup, or move it away: sessions are kept, and `resume_session` issues new tokens.",
            )
        }
    }
}

fn index(data_dir: &Path) -> Check {
    let cache = data_dir.join("cache");
    let files = fs::read_dir(&cache).into_iter().flatten().filter_map(Result::ok);
    let bytes: u64 = files
        .filter_map(|entry| entry.metadata().ok().filter(fs::Metadata::is_file))
        .map(|metadata| metadata.len())
        .sum();
    if bytes == 0 {
        Check::ok("index", "none yet; it is created when needed")
    } else {
        Check::ok("index", format!("{bytes} bytes; a cache that can be deleted at any time"))
    }
}

fn sessions(files: &SessionFiles) -> Check {
    let ids = match files.sessions() {
        Ok(ids) => ids,
        Err(error) => {
            return Check::fail(
                "sessions",
                error.envelope().message(),
                "Make the data directory readable for this user.",
            );
        }
    };
    let mut progress = Progress::over(ids.len(), "reading sessions");
    let mut health: BTreeMap<&'static str, usize> = BTreeMap::new();
    for id in &ids {
        let name = files.health(id).map_or("unreadable", |health| health.as_str());
        *health.entry(name).or_default() += 1;
        progress.step();
    }
    drop(progress);
    let counts: Vec<String> = health.iter().map(|(name, count)| format!("{count} {name}")).collect();
    match (ids.len(), health.get("healthy").copied().unwrap_or_default()) {
        (0, _) => Check::ok("sessions", "none"),
        (all, healthy) if all == healthy => Check::ok("sessions", format!("{all}, all healthy")),
        (all, _) => Check::fail(
            "sessions",
            format!("{all}: {}", counts.join(", ")),
            "Run `interlock session verify` to see the files and reasons.",
        ),
    }
}

fn workflows(settings: &Settings) -> Check {
    let workspace = std::env::current_dir().ok();
    let listing = service::catalogue(settings).list(workspace.as_deref());
    let found = format!("{} from {} sources", listing.entries.len(), listing.sources.len());
    let broken = listing.problems.len() + listing.unreadable.len();
    if broken == 0 {
        Check::ok("workflows", found)
    } else {
        Check::warn(
            "workflows",
            format!("{found}; {broken} files or sources were skipped"),
            "Run `interlock workflow list` to see them and the reasons.",
        )
    }
}

/// Whether the programs of the agents exist. Nothing is started.
fn agents(settings: &Settings) -> Option<Check> {
    let agents = &settings.guide_agents.value;
    let missing: Vec<String> = agents
        .iter()
        .filter_map(|(name, agent)| {
            let program = agent.argv.first()?;
            (!is_program(program)).then(|| format!("{name} ({program})"))
        })
        .collect();
    let names: Vec<&str> = agents.keys().map(String::as_str).collect();
    match (agents.is_empty(), missing.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Check::ok("agents", names.join(", "))),
        (false, false) => Some(Check::warn(
            "agents",
            format!("the program was not found: {}", missing.join(", ")),
            "Install it, or use its absolute path in `argv` of `guide.agents`.",
        )),
    }
}

/// Whether a program is found as `serve` would find it.
fn is_program(program: &str) -> bool {
    let is_executable = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        // A relative path is resolved in the workspace of a run, which does not exist yet.
        return !program.starts_with('/') || is_executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

fn git() -> Check {
    let version = Command::new("git")
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version {
        Some(version) => Check::ok("git", version),
        None => Check::warn(
            "git",
            "not found",
            "Install git if you use workflow sources that are git repositories. Nothing else needs it.",
        ),
    }
}
