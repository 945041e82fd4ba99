//! Skills: a folder each, with a `SKILL.md`.

use super::limits::{BUNDLE_BYTES, BUNDLE_FILES, Count, DEFINITION, SKILLS};
use super::versions::{self, Candidate, Range, Version};
use super::walk::{EntryKind, FolderWalk, WalkEntry};
use super::{files, front_matter, key, put};
use crate::resolve::{Content, Sink};
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

pub(super) const SHELF: &str = "skills";
/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    pub key: String,
    /// Its version, if declared.
    pub version: Option<Version>,
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its path in the library.
    pub(super) path: String,
    /// Warnings about it.
    pub(super) warnings: Vec<String>,
}

/// The contents of `SKILL.md`.
struct Facts {
    name: String,
    description: String,
    version: Option<Version>,
}

/// Puts every file of a skill. The key may end in `@` and a version range.
pub(super) fn resolve(root: &Dir, wanted: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let (key, range) = match wanted.split_once('@') {
        Some((key, range)) => (key, Some(range)),
        None => (wanted, None),
    };
    let range = range.map(|text| {
        text.parse::<Range>().map_err(|problem| {
            let shown = key::shown(text);
            Error::new(Code::SkillVersionUnsatisfied, format!("`{shown}` is not a version range: {problem}"))
                .detail("skillKey", key::shown(key))
                .detail("range", shown)
        })
    });
    let skill = find(root, key, range.transpose()?.as_ref())?;
    for warning in &skill.warnings {
        sink.warn(warning.clone());
    }
    let folder = files::folder(root, &skill.path)?;
    let (mut files, mut bytes) = (Count::of(BUNDLE_FILES), Count::of(BUNDLE_BYTES));
    let walk =
        FolderWalk { label: &skill.path, code: Code::SkillInvalidBundle, links: false, skip: &|_| false };
    walk.run(&folder, &mut |WalkEntry { path, what }| match what {
        EntryKind::File { file, size, executable } => {
            files.add(1)?;
            bytes.add(size)?;
            // A nested skill must be valid too.
            if path.ends_with(&format!("/{SKILL_FILE}")) {
                facts(root, &format!("{}/{path}", skill.path))?;
            }
            Ok(put(sink, path, executable, Content::File(file))?)
        }
        EntryKind::EmptyFolder => Ok(put(sink, path, false, Content::Directory)?),
        // Links are rejected by the walk.
        EntryKind::Link(_) => Ok(()),
    })
}

/// The highest matching version of a skill.
pub(super) fn find(root: &Dir, key: &str, range: Option<&Range>) -> Result<Skill, Error> {
    if !key::is_skill(key) {
        return Err(key::impossible("skill", key));
    }
    let (candidates, unreadable) = versions::candidates(root, SHELF, key)?;
    let mut versions: Vec<(Option<Version>, String)> = Vec::new();
    for Candidate { version, path } in &candidates {
        let version = match version {
            Some(version) => Some(*version),
            None => match plain(root, path, candidates.len() == 1)? {
                Some(facts) => facts.version,
                None => continue,
            },
        };
        versions.push((version, path.clone()));
    }
    let path = format!("{SHELF}/{key}");
    if versions.is_empty() {
        return Err(files::missing(root, &path).detail("skillKey", key));
    }
    versions.sort();
    let fits =
        |version: &Option<Version>| range.is_none_or(|range| version.is_some_and(|one| range.contains(one)));
    let Some((version, path)) = versions.iter().rfind(|(version, _)| fits(version)).cloned() else {
        return Err(unsatisfied(key, &versions));
    };
    if let Some((_, other)) = versions.iter().find(|(also, other)| *also == version && *other != path) {
        let message =
            format!("{other} and {path} in the library have the same version of one skill; remove one");
        return Err(Error::new(Code::SkillInvalidBundle, message).detail("path", path));
    }
    let facts = facts(root, &format!("{path}/{SKILL_FILE}"))?;
    if facts.version.is_some() && facts.version != version {
        return Err(invalid(&format!("{path}/{SKILL_FILE}"), "has a different version than its folder"));
    }
    let mut warnings: Vec<String> = Vec::new();
    let last = key.rsplit('/').next().unwrap_or(key);
    if facts.name != last {
        warnings.push(format!(
            "{path}/{SKILL_FILE} has `name: {}`, but its folder is `{last}`",
            key::shown(&facts.name)
        ));
    }
    warnings.extend(
        unreadable.iter().map(|path| format!("{path} is skipped: the part after `@` is not a version")),
    );
    let Facts { name, description, .. } = facts;
    Ok(Skill { key: key.to_owned(), version, name, description, path, warnings })
}

/// The skill of the folder without a version. A folder that only groups others is not a skill, and
/// an error only if it is the only candidate.
fn plain(root: &Dir, path: &str, alone: bool) -> Result<Option<Facts>, Error> {
    let file = format!("{path}/{SKILL_FILE}");
    match facts(root, &file) {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if error.code() == Code::ResolveNotFound && alone => {
            Err(invalid(path, &format!("does not contain {SKILL_FILE}")))
        }
        Err(error) if error.code() == Code::ResolveNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn facts(root: &Dir, path: &str) -> Result<Facts, Error> {
    let text = files::text(root, path, DEFINITION).map_err(|error| match error.code() {
        Code::ResolveBadResponse => {
            Error::new(Code::SkillInvalidBundle, error.message()).detail("path", path)
        }
        _ => error,
    })?;
    let document = front_matter::split(&text).map_err(|problem| invalid(path, &problem))?;
    let matter = document.matter.ok_or_else(|| invalid(path, "has no front matter"))?;
    let needed = |name: &str| {
        let text = front_matter::text_of(&matter, name);
        text.map(str::to_owned).ok_or_else(|| invalid(path, &format!("has no `{name}` in its front matter")))
    };
    let version = match matter.get("version") {
        None => None,
        Some(value) => {
            let version = value.as_str().and_then(|text| text.parse().ok());
            Some(version.ok_or_else(|| {
                invalid(path, "has an invalid `version`; use `version: 1.2.3`, or a shorter one in quotes")
            })?)
        }
    };
    Ok(Facts { name: needed("name")?, description: needed("description")?, version })
}

fn invalid(path: &str, problem: &str) -> Error {
    Error::new(Code::SkillInvalidBundle, format!("{path} in the library {problem}")).detail("path", path)
}

fn unsatisfied(key: &str, versions: &[(Option<Version>, String)]) -> Error {
    let found =
        versions.iter().map(|(version, _)| version.map_or("none".to_owned(), |version| version.to_string()));
    let found: Vec<String> = found.collect();
    let message = format!(
        "no version of the skill `{key}` matches the range; available versions: {}",
        found.join(", ")
    );
    Error::new(Code::SkillVersionUnsatisfied, message).detail("skillKey", key).detail("versions", found)
}

/// The keys of all skills, in byte order. Folders inside a skill belong to it.
pub(super) fn keys(root: &Dir) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    let mut folders = vec![(String::new(), files::folder_if_any(root, SHELF)?)];
    let mut seen = Count::of(SKILLS);
    while let Some((prefix, folder)) = folders.pop() {
        let Some(folder) = folder else { continue };
        for (name, kind) in
            folder.names().map_err(|error| files::refusal(&error, &format!("{SHELF}/{prefix}")))?
        {
            let Some(name) = name.0.to_str().filter(|_| kind.is_none_or(|kind| kind == Kind::Dir)) else {
                continue;
            };
            let bare = name.split_once('@').map_or(name, |(bare, _)| bare);
            let key = format!("{prefix}{bare}");
            if !key::is_skill(&key) {
                continue;
            }
            seen.add(1)?;
            let path = format!("{SHELF}/{prefix}{name}");
            if files::kind(root, &format!("{path}/{SKILL_FILE}"))?.is_some() {
                keys.push(key);
            } else if bare == name {
                folders.push((format!("{key}/"), files::folder_if_any(root, &path)?));
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}
