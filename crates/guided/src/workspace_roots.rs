//! The workspaces that a remote caller may name.
//!
//! Only folders below a configured root are opened. Every other path is treated as a label: nothing is read from it, and
//! no reply reveals whether it exists.

use std::fs;
use std::path::{Component, Path, PathBuf};

use catalogue::git;

/// The folders below which workspaces are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceRoots(Vec<PathBuf>);

impl WorkspaceRoots {
    /// Creates the list. Without roots, no workspace is opened.
    pub const fn new(roots: Vec<PathBuf>) -> Self {
        Self(roots)
    }

    /// Returns the canonical path of a workspace, if the workspace and its repository are below a root.
    ///
    /// The path is checked twice: as it is written, before anything is read, and again after links were resolved. A user
    /// who can replace a folder by a link during a call can still redirect that call. Folders between a root and its
    /// workspaces must therefore not be writable by other users.
    pub fn open(&self, workspace: &Path) -> Option<PathBuf> {
        let climbs = |component| matches!(component, Component::ParentDir | Component::CurDir);
        if !workspace.is_absolute() || workspace.components().any(climbs) {
            return None;
        }
        let resolved: Vec<PathBuf> = self.0.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
        let is_below = |roots: &[PathBuf], path: &Path| roots.iter().any(|root| path.starts_with(root));
        if !is_below(&self.0, workspace) && !is_below(&resolved, workspace) {
            return None;
        }
        let workspace = fs::canonicalize(workspace).ok()?;
        let allowed = |path: &Path| is_below(&resolved, path);
        (allowed(&workspace) && git::stays_within(&workspace, &allowed)).then_some(workspace)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_lies_below_a_root_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let (root, outside) = (dir.join("root"), dir.join("outside"));
        for made in
            ["root/plain", "root/linked", "root/repo/.git", "root/tree", "root/stray", "root/odd/.git"]
        {
            fs::create_dir_all(dir.join(made)).unwrap();
        }
        fs::create_dir_all(outside.join("inner")).unwrap();
        fs::create_dir_all(outside.join("gitdir")).unwrap();
        symlink(&outside, root.join("escape")).unwrap();
        symlink(root.join("plain"), root.join("within")).unwrap();
        symlink(&root, dir.join("alias")).unwrap();
        fs::write(root.join("tree/.git"), format!("gitdir: {}\n", root.join("repo/.git").display())).unwrap();
        fs::write(root.join("stray/.git"), format!("gitdir: {}\n", outside.join("gitdir").display()))
            .unwrap();
        fs::write(root.join("odd/.git/commondir"), outside.join("gitdir").display().to_string()).unwrap();
        let roots = WorkspaceRoots::new(vec![root.clone(), dir.join("gone")]);
        for (name, path, opened) in [
            ("the root itself", root.clone(), Some(root.clone())),
            ("a folder below it", root.join("plain"), Some(root.join("plain"))),
            ("a link that stays below", root.join("within"), Some(root.join("plain"))),
            ("a repository", root.join("repo"), Some(root.join("repo"))),
            ("a worktree of a repository below", root.join("tree"), Some(root.join("tree"))),
            ("a folder elsewhere", outside.clone(), None),
            ("a link that leads out", root.join("escape"), None),
            ("through a link that leads out", root.join("escape/inner"), None),
            ("a path that climbs", root.join("../outside"), None),
            ("another name of the root", dir.join("alias"), None),
            ("a worktree of a repository elsewhere", root.join("stray"), None),
            ("a repository that shares with one elsewhere", root.join("odd"), None),
            ("a name that only begins like the root", dir.join("root-not"), None),
            ("a folder that is not there", root.join("none"), None),
            ("a relative path", PathBuf::from("plain"), None),
        ] {
            assert_eq!(roots.open(&path), opened, "{name}");
        }
        assert_eq!(WorkspaceRoots::default().open(&root), None, "without a root");
    }

    #[test]
    fn a_repository_that_begins_above_the_root_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join(".git")).unwrap();
        fs::create_dir_all(dir.join("part/inner")).unwrap();
        let part = dir.join("part");
        assert_eq!(WorkspaceRoots::new(vec![part.clone()]).open(&part.join("inner")), None);
        assert_eq!(WorkspaceRoots::new(vec![dir]).open(&part), Some(part));
    }
}
