//! Decides which file wins.
//!
//! Sources are [layers](Layer), ordered by precedence. Of two files with the same id, the one in the higher layer wins.
//! An invalid file never wins and never shadows another: it is reported, and the next lower file is considered. Ids that
//! begin with `wr.` are exempt from precedence.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use guide::record::{WorkflowHash, WorkflowSourceKind};
use guide::workflow::problem::Problem;

use super::entry::{FileProblem, ShadowCause, Shadowed, SourceCategory, SourceInfo};
use super::folder::{Content, File, Folder, Parsed};

/// A source and its files.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) info: SourceInfo,
    pub(super) folder: Folder,
}

/// A file of a layer.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    pub(super) layer: &'a Layer,
    pub(super) file: &'a Arc<File>,
}

/// The file that wins, and those that do not.
#[derive(Debug)]
pub(super) struct Verdict<'a> {
    pub(super) winner: Option<Winner<'a>>,
    pub(super) shadowed: Vec<Shadowed>,
    /// The invalid files, highest precedence first.
    pub(super) broken: Vec<(Candidate<'a>, Arc<Vec<Problem>>)>,
}

/// The file that wins.
#[derive(Debug)]
pub(super) struct Winner<'a> {
    pub(super) candidate: Candidate<'a>,
    pub(super) parsed: &'a Parsed,
    pub(super) hash: WorkflowHash,
}

/// All ids with the files that claim them, by precedence from the highest, then by name.
pub(super) fn candidates(layers: &[Layer]) -> BTreeMap<&str, Vec<Candidate<'_>>> {
    let mut ids: BTreeMap<&str, Vec<Candidate<'_>>> = BTreeMap::new();
    for layer in layers.iter().rev() {
        for file in &layer.folder.files {
            if let Some(id) = file.workflow_id() {
                ids.entry(id).or_default().push(Candidate { layer, file });
            }
        }
    }
    ids
}

/// Decides between the files with one id.
pub(super) fn decide<'a>(candidates: &[Candidate<'a>]) -> Verdict<'a> {
    let mut winner: Option<Winner<'a>> = None;
    let mut shadowed = Vec::new();
    let mut broken = Vec::new();
    for candidate in candidates {
        let checked = match &candidate.file.content {
            Content::Workflow(parsed) => parsed.check().map(|hash| (&**parsed, hash)),
            Content::Broken { problems, .. } => Err(Arc::new(problems.clone())),
            Content::Elsewhere => continue,
        };
        match (checked, &winner) {
            (Ok((parsed, hash)), None) => {
                winner = Some(Winner { candidate: candidate.clone(), parsed, hash });
            }
            (Ok(_), Some(winner)) => shadowed.push(shadowed_by(candidate, &winner.candidate)),
            (Err(problems), _) => {
                let first = problems.first().map(ToString::to_string).unwrap_or_default();
                shadowed.push(
                    candidate.shadowed(ShadowCause::Broken, format!("it is not a valid workflow: {first}")),
                );
                broken.push((candidate.clone(), problems));
            }
        }
    }
    Verdict { winner, shadowed, broken }
}

fn shadowed_by(candidate: &Candidate<'_>, winner: &Candidate<'_>) -> Shadowed {
    if std::ptr::eq(candidate.layer, winner.layer) {
        let reason =
            format!("{} in the same folder has the same id, and its name comes first", winner.file.name);
        return candidate.shadowed(ShadowCause::SameFolder, reason);
    }
    let (mine, other) = (candidate.layer.info.category, winner.layer.info.category);
    let reason = if mine == other {
        format!("{} has the same id and is named later than this source", winner.path())
    } else {
        format!("{} has the same id, and {} wins over {}", winner.path(), words(other), words(mine))
    };
    candidate.shadowed(ShadowCause::Precedence, reason)
}

/// The category as part of a sentence.
pub(super) const fn words(category: SourceCategory) -> &'static str {
    match category {
        SourceCategory::BuiltIn => "the program",
        SourceCategory::Pack => "an installed pack",
        SourceCategory::User => "the user's folder",
        SourceCategory::Managed => "an attached folder",
        SourceCategory::Configured => "a configured folder",
        SourceCategory::Git => "a git repository",
        SourceCategory::Project => "the project",
    }
}

impl Candidate<'_> {
    /// The path for people.
    pub(super) fn path(&self) -> String {
        self.file.path.display().to_string()
    }

    /// The location for records. Records are part of exported sessions, so it does not reveal absolute paths.
    pub(super) fn source_ref(&self) -> String {
        let name = &self.file.name;
        match self.layer.info.category {
            SourceCategory::Project => format!("workflows/{name}"),
            SourceCategory::User | SourceCategory::BuiltIn => name.clone(),
            SourceCategory::Managed | SourceCategory::Configured => {
                match self.file.path.parent().and_then(Path::file_name) {
                    Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
                    None => name.clone(),
                }
            }
            SourceCategory::Pack => format!("{}:workflows/{name}", self.layer.info.display_name),
            SourceCategory::Git => format!("{}:workflows/{name}", portable(&self.layer.info.display_name)),
        }
    }

    pub(super) fn shadowed(&self, cause: ShadowCause, reason: String) -> Shadowed {
        Shadowed { source: self.layer.info.key.clone(), path: self.path(), cause, reason }
    }

    pub(super) fn problem(&self, problems: &[Problem]) -> FileProblem {
        file_problem(&self.file.path, self.file.workflow_id(), self.layer.info.kind, problems)
    }
}

/// The location and branch of a repository. For a local repository, only the name of its folder.
fn portable(display_name: &str) -> String {
    let (location, branch) = match display_name.find('#') {
        Some(place) => display_name.split_at(place),
        None => (display_name, ""),
    };
    if !location.starts_with("file://") && !Path::new(location).is_absolute() {
        return display_name.to_owned();
    }
    let folder = location.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{folder}{branch}")
}

pub(super) fn file_problem(
    path: &Path,
    workflow_id: Option<&str>,
    source_kind: WorkflowSourceKind,
    problems: &[Problem],
) -> FileProblem {
    let path = path.display().to_string();
    let problems = problems.iter().map(|problem| problem.clone().in_file(&path)).collect();
    FileProblem { workflow_id: workflow_id.map(str::to_owned), source_kind, problems, path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_of_this_machine_are_named_by_their_folder() {
        for (display_name, expected) in [
            ("/home/me/shared", "shared"),
            ("/home/me/shared/#main", "shared#main"),
            ("file:///srv/flows.git#a/b", "flows.git#a/b"),
            ("https://example.org/team/flows#main", "https://example.org/team/flows#main"),
            ("git@example.org:team/flows", "git@example.org:team/flows"),
            ("/", ""),
        ] {
            assert_eq!(portable(display_name), expected, "{display_name}");
        }
    }
}
