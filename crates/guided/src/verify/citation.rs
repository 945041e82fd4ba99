//! Checks whether a cited line, commit or branch exists.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::{Component, Path};

use catalogue::{git, open_regular};
use guide::verification::{Citation, CitationFinding};

/// The maximum size of a file whose lines are counted, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Checks a citation in a workspace. `root` is canonical.
pub(super) fn look_up(citation: &Citation, root: &Path) -> CitationFinding {
    let exists = |exists: bool| if exists { CitationFinding::Exists } else { CitationFinding::Missing };
    match citation {
        Citation::Line { path, line } => line_of(Path::new(path), *line, root),
        Citation::Commit { prefix } => exists(git::has_commit(root, prefix)),
        Citation::Branch { name } => exists(git::has_branch(root, name)),
    }
}

fn line_of(path: &Path, line: u64, root: &Path) -> CitationFinding {
    // `join` keeps an absolute path as it is. It has to be below the root like every other path.
    if path.components().any(|component| component == Component::ParentDir) {
        return CitationFinding::Outside;
    }
    let resolved = match fs::canonicalize(root.join(path)) {
        Ok(resolved) => resolved,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            // Do not reveal whether a path outside of the workspace exists.
            let is_below = !path.is_absolute() || path.starts_with(root);
            return if is_below { CitationFinding::Missing } else { CitationFinding::Outside };
        }
        Err(_) => return CitationFinding::Unreadable,
    };
    if !resolved.starts_with(root) {
        return CitationFinding::Outside;
    }
    match open_regular(&resolved) {
        Ok((file, length)) if length <= MAX_FILE_BYTES => {
            // No file has a line 0, so its lines are counted to the end.
            let lines = count_lines(file, if line == 0 { u64::MAX } else { line });
            if (1..=lines).contains(&line) {
                CitationFinding::Exists
            } else {
                CitationFinding::NoSuchLine { lines }
            }
        }
        Ok(_) | Err(_) => CitationFinding::Unreadable,
    }
}

/// Counts the lines of a file, up to `enough`. The last line may lack a line end.
fn count_lines(file: fs::File, enough: u64) -> u64 {
    let mut reader = BufReader::new(file.take(MAX_FILE_BYTES));
    let (mut lines, mut is_open) = (0, false);
    while lines < enough {
        let Ok(buffer) = reader.fill_buf() else { break };
        if buffer.is_empty() {
            break;
        }
        lines += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
        is_open = buffer.last() != Some(&b'\n');
        let read = buffer.len();
        reader.consume(read);
    }
    lines + u64::from(is_open)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn lines_are_looked_up_below_the_root_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let root = dir.join("root");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("src/a.rs"), "one\ntwo\nthree").unwrap();
        fs::write(root.join("src/ended.rs"), "one\ntwo\n").unwrap();
        fs::write(root.join("empty.rs"), "").unwrap();
        fs::write(dir.join("secret.rs"), "one\n").unwrap();
        fs::File::create(root.join("huge.rs")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        symlink(dir.join("secret.rs"), root.join("src/out.rs")).unwrap();
        symlink(&dir, root.join("up")).unwrap();
        symlink(root.join("src/a.rs"), root.join("in.rs")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe.rs"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let absolute = root.join("src/a.rs").display().to_string();
        let elsewhere = dir.join("secret.rs").display().to_string();
        let absent = dir.join("absent.rs").display().to_string();
        use CitationFinding as F;
        for (path, line, finding) in [
            ("src/a.rs", 1, F::Exists),
            ("src/a.rs", 3, F::Exists),
            ("src/a.rs", 4, F::NoSuchLine { lines: 3 }),
            // Bug 13c: the number of lines does not depend on the line that is cited.
            ("src/a.rs", 0, F::NoSuchLine { lines: 3 }),
            ("src/ended.rs", 3, F::NoSuchLine { lines: 2 }),
            ("empty.rs", 1, F::NoSuchLine { lines: 0 }),
            ("in.rs", 3, F::Exists),
            (&absolute, 2, F::Exists),
            ("src/b.rs", 1, F::Missing),
            ("src/a.rs/b.rs", 1, F::Missing),
            ("src", 1, F::Unreadable),
            ("huge.rs", 1, F::Unreadable),
            ("pipe.rs", 1, F::Unreadable),
            ("../secret.rs", 1, F::Outside),
            ("src/../../secret.rs", 1, F::Outside),
            ("src/out.rs", 1, F::Outside),
            ("up/secret.rs", 1, F::Outside),
            (&elsewhere, 1, F::Outside),
            (&absent, 1, F::Outside),
            ("/etc/passwd", 1, F::Outside),
        ] {
            let citation = Citation::Line { path: path.to_owned(), line };
            assert_eq!(look_up(&citation, &root), finding, "{path}:{line}");
        }
    }
}
