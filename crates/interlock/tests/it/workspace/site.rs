//! A temporary folder with a workspace, and the example from the source tree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{interlock, root, run_command, text};

pub(super) struct Site {
    folder: TempDir,
    manifest: String,
    inputs: String,
}

impl Site {
    pub(super) fn new() -> Self {
        let example = |name: &str| root().join("examples/workspace").join(name).to_str().unwrap().to_owned();
        Self {
            folder: tempfile::tempdir().unwrap(),
            manifest: example("manifest.yaml"),
            inputs: example("inputs.json"),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.path("ws")
    }

    pub(super) fn examples(&self) -> PathBuf {
        root().join("examples/workspace")
    }

    pub(super) fn library(&self) -> String {
        self.examples().join("library").to_str().unwrap().to_owned()
    }

    pub(super) fn manifest(&self) -> &str {
        &self.manifest
    }

    pub(super) fn inputs(&self) -> &str {
        &self.inputs
    }

    /// A writable copy of the library.
    pub(super) fn copied_library(&self) -> PathBuf {
        let target = self.path("library");
        let mut waiting = vec![(self.examples().join("library"), target.clone())];
        while let Some((from, to)) = waiting.pop() {
            fs::create_dir(&to).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                let to = to.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    waiting.push((entry.path(), to));
                } else {
                    fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        target
    }

    pub(super) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        run_command(interlock(arguments).current_dir(self.folder.path()).env_remove("REGISTRY_TOKEN"), input)
    }

    /// Runs, expects this exit code, and returns standard output.
    pub(super) fn expect(&self, arguments: &[impl AsRef<str>], code: i32) -> String {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let output = self.run_with(&arguments, b"");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
        out
    }

    /// Runs with `--json`, and expects this exit code and one document.
    pub(super) fn json(&self, arguments: &[&str], code: i32) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let output = self.run_with(&arguments, b"");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
        assert_eq!(err, "", "{arguments:?}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// The text on standard error, with this exit code and empty standard output.
    pub(super) fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run_with(arguments, b"");
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{words}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        words
    }

    /// `workspace plan` of the example.
    pub(super) fn plan_arguments(&self, more: &[&str]) -> Vec<String> {
        let mut arguments = self.manifest_arguments("plan");
        arguments.extend(more.iter().map(|&more| more.to_owned()));
        arguments
    }

    fn manifest_arguments(&self, command: &str) -> Vec<String> {
        let context = self.examples().join("context.json");
        let (manifest, inputs) = (self.manifest(), self.inputs());
        let library = self.library();
        let context = context.to_str().unwrap();
        [
            "workspace",
            command,
            "--manifest",
            manifest,
            "--inputs",
            inputs,
            "--context",
            context,
            "--library",
            &library,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// `workspace env` of the example.
    pub(super) fn env_command(&self, more: &[&str]) -> Command {
        let mut arguments = self.manifest_arguments("env");
        arguments.extend(more.iter().map(|&more| more.to_owned()));
        interlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Plans the example into `plan.json`.
    pub(super) fn plan(&self) -> Value {
        let file = self.path("plan.json");
        self.expect(&self.plan_arguments(&["-o", file.to_str().unwrap(), "--force"]), 0);
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    }

    pub(super) fn apply_arguments(&self, plan: &Path, library: &Path) -> Vec<String> {
        let root = self.root();
        let [plan, library, root] = [plan, library, &root].map(|path| path.to_str().unwrap());
        ["workspace", "apply", "--plan", plan, "--library", library, "--root", root]
            .map(str::to_owned)
            .to_vec()
    }

    /// Applies `plan.json` with the example's library.
    pub(super) fn apply_json(&self, more: &[&str], code: i32) -> Value {
        let arguments = self.apply_arguments(&self.path("plan.json"), Path::new(&self.library()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.json(&arguments, code)
    }

    pub(super) fn drift(&self, code: i32) -> Value {
        self.json(&["workspace", "drift", "--root", self.root().to_str().unwrap()], code)
    }

    pub(super) fn wipe(&self) {
        unlock(&self.root());
        fs::remove_dir_all(self.root()).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        unlock(self.folder.path());
    }
}

pub(super) fn make_writable(path: &Path) {
    let mode = fs::symlink_metadata(path).unwrap().permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o200)).unwrap();
}

/// Makes every directory below writable, so that it can be removed.
fn unlock(folder: &Path) {
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o755));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        waiting.extend(entries.map(|entry| entry.path()));
    }
}

/// Everything below a folder by path, with mode and content; links with their targets. `but` is
/// skipped at the top.
pub(super) fn tree_of(folder: &Path, but: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder_here) = waiting.pop() {
        for entry in fs::read_dir(&folder_here).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if name == but {
                continue;
            }
            let stat = fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if stat.is_dir() {
                waiting.push(path);
                String::new()
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            found.push((name, format!("{:o} {content}", stat.permissions().mode() & 0o7777)));
        }
    }
    found.sort();
    found
}
