//! Shell commands that change files, as far as their text shows it.
//!
//! This is a guard against habits, not a sandbox: it recognises redirections and well-known programs.
//! What an interpreter, a build tool or a script does is not visible here.

use std::path::Path;

/// How deep `bash -c "bash -c …"` is followed.
const MAX_NESTING: usize = 4;

/// Programs that change every path in their arguments.
const CHANGE_ALL: [&str; 14] = [
    "chmod", "chown", "mkdir", "mv", "patch", "rm", "rmdir", "shred", "tee", "touch", "truncate", "unlink",
    "ed", "ex",
];
/// Programs that change the last path in their arguments.
const CHANGE_LAST: [&str; 4] = ["cp", "install", "ln", "rsync"];
/// Subcommands of git that change files or the history. Those that only move between commits are allowed, because
/// a bisection needs them.
const GIT_CHANGES: [&str; 12] = [
    "am",
    "apply",
    "cherry-pick",
    "clean",
    "commit",
    "merge",
    "mv",
    "push",
    "rebase",
    "restore",
    "revert",
    "rm",
];
/// Programs that run the program in their arguments.
const WRAPPERS: [&str; 8] = ["command", "env", "exec", "nice", "nohup", "sudo", "time", "xargs"];
const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];
/// Directories for files that belong to no project.
const TEMPORARY: [&str; 4] = ["/tmp/", "/var/tmp/", "$TMPDIR/", "${TMPDIR}/"];

/// The part of a command that changes files outside of temporary directories; `None` if none is recognised.
pub(super) fn changing_part(command: &str, workspace: Option<&Path>) -> Option<String> {
    changing(command, workspace, 0)
}

fn changing(command: &str, workspace: Option<&Path>, depth: usize) -> Option<String> {
    let is_kept = |path: &str| !is_harmless(path, workspace);
    for simple in simple_commands(command) {
        if let Some(target) = simple.targets.iter().find(|target| is_kept(target)) {
            return Some(format!("> {target}"));
        }
        let Some(Invocation { program, arguments, reads_arguments }) = Invocation::of(&simple.words) else {
            continue;
        };
        if SHELLS.contains(&program) {
            let script = arguments.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
            let script = script.and_then(|flag| arguments.get(flag + 1)).filter(|_| depth < MAX_NESTING);
            match script.and_then(|script| changing(script, workspace, depth + 1)) {
                Some(part) => return Some(part),
                None => continue,
            }
        }
        let mut paths = arguments.iter().filter(|word| !word.starts_with('-'));
        let changes = match program {
            "git" => git_changes(arguments),
            "sed" => arguments.iter().any(|word| is_in_place(word, "nrEsuzi")),
            "perl" => arguments.iter().any(|word| is_in_place(word, "pnlai0we")),
            "find" => arguments.iter().enumerate().any(|(at, word)| match word.as_str() {
                "-delete" => true,
                "-exec" | "-execdir" => arguments.get(at + 1).is_some_and(|program| changes_paths(program)),
                _ => false,
            }),
            "dd" => arguments.iter().filter_map(|word| word.strip_prefix("of=")).any(is_kept),
            _ if CHANGE_ALL.contains(&program) => {
                !arguments.iter().any(|word| word == "--dry-run") && paths.any(|path| is_kept(path))
            }
            _ if CHANGE_LAST.contains(&program) => paths.next_back().is_some_and(|path| is_kept(path)),
            _ => false,
        };
        if changes || (reads_arguments && changes_paths(program)) {
            return Some(simple.words.join(" "));
        }
    }
    None
}

/// Whether changing a path leaves every project as it is. A workspace may itself be in a temporary directory.
fn is_harmless(path: &str, workspace: Option<&Path>) -> bool {
    let is_device =
        path == "/dev/null" || path == "/dev/stdout" || path == "/dev/stderr" || path == "/dev/tty";
    let is_temporary = TEMPORARY.iter().any(|directory| path.starts_with(directory));
    let is_in_workspace = workspace.is_some_and(|workspace| Path::new(path).starts_with(workspace));
    is_device || (is_temporary && !is_in_workspace && !path.contains(".."))
}

/// A flag that edits files in place: `-i`, `-i.bak`, `-pi`, `--in-place`. `letters` are the flags that can be
/// written together.
fn is_in_place(word: &str, letters: &str) -> bool {
    let Some(flags) = word.strip_prefix('-') else { return false };
    if flags.starts_with('-') {
        return word.starts_with("--in-place");
    }
    flags.split_once('i').is_some_and(|(before, _)| before.chars().all(|flag| letters.contains(flag)))
}

fn git_changes(arguments: &[String]) -> bool {
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" | "--git-dir" | "--work-tree" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            "reset" => return words.any(|word| word == "--hard"),
            "checkout" => return words.any(|word| word == "--" || word == "."),
            "apply" => {
                return !words.any(|word| matches!(word, "--check" | "--stat" | "--numstat" | "--summary"));
            }
            subcommand => return GIT_CHANGES.contains(&subcommand) && !words.any(|word| word == "--dry-run"),
        }
    }
    false
}

fn changes_paths(program: &str) -> bool {
    CHANGE_ALL.contains(&program) || CHANGE_LAST.contains(&program)
}

/// A simple command without assignments and wrappers.
struct Invocation<'w> {
    program: &'w str,
    arguments: &'w [String],
    /// Whether `xargs` adds arguments.
    reads_arguments: bool,
}

impl<'w> Invocation<'w> {
    fn of(words: &'w [String]) -> Option<Self> {
        let is_assignment = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
        let (mut is_wrapped, mut reads_arguments) = (false, false);
        for (at, word) in words.iter().enumerate() {
            if is_assignment(word) || (is_wrapped && word.starts_with('-')) {
                continue;
            }
            let program = word.rsplit('/').next().unwrap_or(word);
            if !WRAPPERS.contains(&program) {
                return Some(Self { program, arguments: &words[at + 1..], reads_arguments });
            }
            is_wrapped = true;
            reads_arguments |= program == "xargs";
        }
        None
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character == '_' || character.is_ascii_alphanumeric())
}

/// A program with its arguments, and the files that its output is redirected to.
#[derive(Debug, Default, PartialEq)]
struct SimpleCommand {
    words: Vec<String>,
    targets: Vec<String>,
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Word,
    /// The file of `> file`.
    Target,
    /// The file of `< file`, or the text of `<<< text`.
    Source,
    /// The delimiter of a here-document.
    Delimiter,
}

/// Splits a command line, without expanding anything.
struct Splitter {
    commands: Vec<SimpleCommand>,
    current: SimpleCommand,
    word: Option<String>,
    next: Next,
    /// The delimiters of the here-documents that begin after this line.
    documents: Vec<String>,
}

impl Splitter {
    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.next, Next::Word) {
            Next::Word => self.current.words.push(word),
            Next::Target => self.current.targets.push(word),
            Next::Delimiter => self.documents.push(word),
            Next::Source => {}
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.next = Next::Word;
        let command = std::mem::take(&mut self.current);
        if command != SimpleCommand::default() {
            self.commands.push(command);
        }
    }
}

fn simple_commands(command: &str) -> Vec<SimpleCommand> {
    let mut splitter = Splitter {
        commands: Vec::new(),
        current: SimpleCommand::default(),
        word: None,
        next: Next::Word,
        documents: Vec::new(),
    };
    let mut rest = command.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(escaped) => splitter.push(escaped),
            },
            '\'' => {
                splitter.word.get_or_insert_default();
                rest.by_ref().take_while(|quoted| *quoted != '\'').for_each(|quoted| splitter.push(quoted));
            }
            '"' => {
                splitter.word.get_or_insert_default();
                while let Some(quoted) = rest.next().filter(|quoted| *quoted != '"') {
                    let escaped = (quoted == '\\').then(|| rest.next()).flatten();
                    splitter.push(escaped.unwrap_or(quoted));
                }
            }
            '#' if splitter.word.is_none() => while rest.next_if(|next| *next != '\n').is_some() {},
            '\n' => {
                splitter.end_command();
                for delimiter in std::mem::take(&mut splitter.documents) {
                    while let Some(line) = next_line(&mut rest) {
                        if line.trim_start_matches('\t') == delimiter {
                            break;
                        }
                    }
                }
            }
            '>' => redirect(&mut splitter, &mut rest),
            '<' => {
                splitter.end_word();
                splitter.next = match (rest.next_if_eq(&'<'), rest.next_if_eq(&'<')) {
                    (Some(_), Some(_)) | (None, _) => Next::Source,
                    (Some(_), None) => {
                        rest.next_if_eq(&'-');
                        Next::Delimiter
                    }
                };
            }
            '&' if rest.peek() == Some(&'>') => {}
            ';' | '&' | '|' | '(' | ')' | '`' => splitter.end_command(),
            space if space.is_whitespace() => splitter.end_word(),
            other => splitter.push(other),
        }
    }
    splitter.end_command();
    splitter.commands
}

/// Reads the rest of `>`, `>>`, `>|` and `>&1`. Digits before it are a file descriptor.
fn redirect(splitter: &mut Splitter, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if splitter.word.as_ref().is_some_and(|word| word.chars().all(|digit| digit.is_ascii_digit())) {
        splitter.word = None;
    }
    splitter.end_word();
    let _ = rest.next_if(|next| matches!(next, '>' | '|'));
    splitter.next = Next::Target;
    if rest.next_if_eq(&'&').is_some() {
        // A copy of a descriptor, unless a file follows, as in `>& file`.
        if rest.next_if(|next| next.is_ascii_digit() || *next == '-').is_some() {
            splitter.next = Next::Word;
        }
    }
}

fn next_line(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    rest.peek()?;
    Some(rest.take_while(|character| *character != '\n').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(command: &str) -> bool {
        changing_part(command, Some(Path::new("/work"))).is_some()
    }

    #[test]
    fn commands_that_change_files_are_recognised() {
        for command in [
            "echo hi > a.txt",
            "echo hi >> /work/a.txt",
            "cargo test &> log.txt",
            "cargo test 2>errors.txt",
            "cargo test >& log",
            "cat <<'EOF' > src/a.rs\nfn a() {}\nEOF",
            "rm -rf build",
            "ls && rm a",
            "true; mv a b",
            "sudo -n rm a",
            "FOO=1 env BAR=2 touch a",
            "find . -name '*.o' | xargs -0 rm",
            "find . -name '*.o' -delete",
            "find . -name '*.o' -exec rm {} +",
            "cp a.rs b.rs",
            "sed -i 's/a/b/' a.rs",
            "sed -Ei.bak 's/a/b/' a.rs",
            "sed --in-place s/a/b/ a.rs",
            "perl -pi -e 's/a/b/' a.rs",
            "printf x | tee a.txt",
            "dd if=/dev/zero of=disk.img",
            "git commit -am x",
            "git -C sub -c a=b reset --hard",
            "git checkout -- src/a.rs",
            "git apply fix.patch",
            "bash -lc 'echo hi > a.txt'",
            "sh -c \"sh -c 'rm a'\"",
            "/bin/rm a",
            "(cd sub && rm a)",
            "echo $(touch a)",
            "patch -p1 < fix.patch && patch a.rs fix.patch",
        ] {
            assert!(changes(command), "{command}");
        }
    }

    #[test]
    fn commands_that_only_look_are_not() {
        for command in [
            "",
            "ls -la",
            "cargo test 2>&1 | tail -20",
            "cargo test > /dev/null 2>&1",
            "printf 'cat <<EOF\\nEOF\\n' > /tmp/empty.sh",
            "cp src/a.rs /tmp/a.rs",
            "rm -rf /tmp/try",
            "grep -rn 'a > b' src",
            "grep \"rm -rf\" -r .",
            "echo 'sed -i'",
            "find . -name '*.rs' | xargs grep rm",
            "find . -name '*.rs' -exec grep rm {} +",
            "sed -n '1,20p' a.rs",
            "perl -ne 'print if /i/' a.rs",
            "git log --oneline | head",
            "git checkout -q v2.2.0",
            "git stash list",
            "git reset",
            "git apply --check fix.patch",
            "cat <<EOF | wc -l\nrm a\n> b\nEOF",
            "wc -l <<< 'rm a'",
            "sort < a.txt",
            "# rm a",
            "echo a#b",
            "bash check.sh",
            "test 3 -gt 2",
            "'",
            "\"a",
            "bash -c",
            "cat <<",
            "x >",
        ] {
            assert!(!changes(command), "{command}: {:?}", changing_part(command, None));
        }
    }

    /// A workspace in a temporary directory is still a workspace.
    #[test]
    fn temporary_directories_do_not_excuse_the_workspace() {
        let workspace = Some(Path::new("/tmp/project"));
        assert_eq!(changing_part("touch /tmp/project/a", workspace).as_deref(), Some("touch /tmp/project/a"));
        assert_eq!(
            changing_part("echo > /tmp/other/../project/a", workspace).as_deref(),
            Some("> /tmp/other/../project/a")
        );
        assert_eq!(changing_part("touch /tmp/other", workspace), None);
    }
}
