//! The tutorials and the self-contained how-to pages work as written.
//!
//! The test saves the files that a page shows and runs its commands, as a reader would. A block
//! after "Save this as `name`" is written to that file. In a `console` block, each line that starts
//! with `$ ` is run, and the lines below it are its output, in order: `…` matches any text in a
//! line, and a line with only `…` matches any lines. Times and column widths are ignored.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::program::{root, text};
/// The address on the pages, which is replaced by a free port.
const ADDRESS: &str = "http://127.0.0.1:7717";

struct Reader {
    folder: TempDir,
    server: Option<Child>,
    url: String,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Marks the project root, regardless of folders above the temporary one.
        std::fs::create_dir_all(folder.path().join("work/.git")).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder, server: None, url: ADDRESS.to_owned() }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn save(&self, name: &str, content: &str) {
        let path = match name.strip_prefix("~/") {
            Some(name) => self.folder.path().join("home").join(name),
            None => self.work().join(name),
        };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A shell that keeps exported variables between commands.
    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_interlock")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", format!("{}:{path}", program.display()))
            .env("HOME", self.folder.path().join("home"))
            .env("INTERLOCK_LOG", "error");
        command
    }

    /// Runs a command and returns its output.
    fn typed(&mut self, command: &str) -> String {
        if command.starts_with("interlock serve") {
            self.serve(command);
            return String::new();
        }
        let command = command.replace(ADDRESS, &self.url);
        let exports = self.folder.path().join("exports");
        let exports = exports.display();
        let line = format!("[ ! -e {exports} ] || . {exports}; {command}\nexport -p > {exports}");
        let output = self.shell(&line).output().unwrap();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    }

    /// Starts the server of a page; a running server is killed, as the page instructs.
    fn serve(&mut self, command: &str) {
        self.stop();
        let line = format!("exec {command} --listen 127.0.0.1:0");
        let mut server = self.shell(&line).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut serving =
            lines.filter_map(|line| Some(line.strip_prefix("Serving ")?.split(' ').next()?.to_owned()));
        let url = serving.next();
        self.server = Some(server);
        self.url = url.unwrap_or_else(|| panic!("{command}: no address"));
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    fn follow(&mut self, page: &str) {
        let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        let mut commands = 0;
        for Block { language, before, content } in blocks(&text) {
            let name = before.rsplit_once("Save this as").and_then(|(_, rest)| rest.split('`').nth(1));
            if let Some(name) = name {
                self.save(name, content);
            } else if language == "console" {
                for Step { command, expected } in steps(content) {
                    commands += 1;
                    let printed = self.typed(command);
                    compare(&expected, &printed).unwrap_or_else(|missing| {
                        panic!("{page}: `{command}` does not print {missing:?}, but:\n{printed}")
                    });
                }
            }
        }
        assert!(commands > 0, "{page} has commands");
    }
}

/// A code block and the paragraph before it.
struct Block<'a> {
    language: &'a str,
    before: &'a str,
    content: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((text, block)) = rest.split_once("\n```") {
        let (language, block) = block.split_once('\n').unwrap();
        let (content, after) = match block.strip_prefix("```") {
            Some(after) => ("", after),
            None => block.split_once("\n```").unwrap(),
        };
        let before = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
        found.push(Block { language, before, content });
        rest = after;
    }
    found
}

/// A command and its output lines.
struct Step<'a> {
    command: &'a str,
    expected: Vec<&'a str>,
}

fn steps(block: &str) -> Vec<Step<'_>> {
    let mut found: Vec<Step<'_>> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push(Step { command, expected: Vec::new() }),
            (None, Some(step)) => step.expected.push(line),
            (None, None) => panic!("a console block begins with a command: {line}"),
        }
    }
    found
}

/// Returns the first expected line that is not printed in order, if any.
fn compare<'a>(expected: &[&'a str], printed: &str) -> Result<(), &'a str> {
    let mut printed = printed.lines().map(words);
    for line in expected.iter().filter(|line| **line != "…") {
        printed.find(|found| matches(&words(line), found)).ok_or(*line)?;
    }
    Ok(())
}

/// A line without times of day and column widths.
fn words(line: &str) -> String {
    let is_time = |word: &str| {
        word.contains(':') && word.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
    };
    let words = line.split_whitespace().map(|word| if is_time(word) { "00:00:00" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a line matches the expected one, in which `…` matches any text.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) if !part.is_empty() => rest = after,
            Some(_) => {}
            None => return false,
        }
    }
    rest.trim_end().is_empty() || expected.ends_with('…')
}

#[test]
fn the_tutorial_about_a_workflow_with_an_approval_works() {
    Reader::new().follow("tutorials/run-a-workflow.md");
}

#[test]
fn the_tutorial_about_guiding_an_agent_works() {
    Reader::new().follow("tutorials/guide-an-agent.md");
}

#[test]
fn the_tutorial_about_a_workspace_works() {
    Reader::new().follow("tutorials/equip-a-workspace.md");
}

#[test]
fn the_tutorial_about_the_console_works() {
    Reader::new().follow("tutorials/extend-the-console.md");
}

#[test]
fn the_how_to_pages_work() {
    let mut reader = Reader::new();
    for page in ["how-to/write-a-workflow.md", "how-to/back-up.md", "how-to/verify-evidence.md"] {
        reader.follow(page);
    }
}

#[test]
fn output_is_compared_in_order() {
    let printed = "one  17 apples\ntwo\n19:24:01.600 three";
    for (expected, missing) in [
        (&["one … apples", "20:00:00  three"][..], None),
        (&["…", "two"], None),
        (&["one…"], None),
        (&["…apples"], None),
        (&["three"], Some("three")),
        (&["20:00:00 three", "two"], Some("two")),
        (&["one"], Some("one")),
        (&["one … pears"], Some("one … pears")),
    ] {
        assert_eq!(compare(expected, printed).err(), missing, "{expected:?}");
    }
}
