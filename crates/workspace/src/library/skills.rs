//! Skills: a folder each, with a `SKILL.md` that says what it is.

use super::limits::{BUNDLE_BYTES, BUNDLE_FILES, Count, DEFINITION, SKILLS};
use super::versions::{self, Candidate, Range, Version};
use super::walk::{Found, Walk, What};
use super::{front_matter, key, put, shelf};
use crate::resolve::{Content, Sink};
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

/// The folder of skills.
pub(super) const SHELF: &str = "skills";
/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";

/// A skill of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// How it is asked for.
    pub key: String,
    /// Which version it is, where it says so.
    pub version: Option<Version>,
    /// What it calls itself.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its path in the library.
    pub(super) path: String,
    /// What is odd about it.
    pub(super) warnings: Vec<String>,
}

/// What `SKILL.md` says.
struct Facts {
    name: String,
    description: String,
    version: Option<Version>,
}

/// Puts every file of a skill. The key may end in `@` and a range of versions.
pub(super) fn resolve(root: &Dir, wanted: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let (key, range) = match wanted.split_once('@') {
        Some((key, range)) => (key, Some(range)),
        None => (wanted, None),
    };
    let range = range.map(|text| {
        text.parse::<Range>().map_err(|problem| {
            let shown = key::shown(text);
            Error::new(Code::SkillVersionUnsatisfied, format!("`{shown}` is no range of versions: {problem}"))
                .detail("skillKey", key::shown(key))
                .detail("range", shown)
        })
    });
    let skill = find(root, key, range.transpose()?.as_ref())?;
    for warning in &skill.warnings {
        sink.warn(warning.clone());
    }
    let folder = shelf::folder(root, &skill.path)?;
    let (mut files, mut bytes) = (Count::of(BUNDLE_FILES), Count::of(BUNDLE_BYTES));
    let walk = Walk { label: &skill.path, code: Code::SkillInvalidBundle, links: false, skip: &|_| false };
    walk.run(&folder, &mut |Found { path, what }| match what {
        What::File { file, size, executable } => {
            files.add(1)?;
            bytes.add(size)?;
            // A skill within a skill has to be one too.
            if path.ends_with(&format!("/{SKILL_FILE}")) {
                facts(root, &format!("{}/{path}", skill.path))?;
            }
            Ok(put(sink, path, executable, Content::File(file))?)
        }
        What::EmptyFolder => Ok(put(sink, path, false, Content::Directory)?),
        // The walk takes none.
        What::Link(_) => Ok(()),
    })
}

/// The newest version of a skill that will do.
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
        return Err(shelf::missing(root, &path).detail("skillKey", key));
    }
    versions.sort();
    let fits =
        |version: &Option<Version>| range.is_none_or(|range| version.is_some_and(|one| range.contains(one)));
    let Some((version, path)) = versions.iter().rfind(|(version, _)| fits(version)).cloned() else {
        return Err(unsatisfied(key, &versions));
    };
    if let Some((_, other)) = versions.iter().find(|(also, other)| *also == version && *other != path) {
        let message =
            format!("{other} and {path} in the library are both the newest version of one skill; remove one");
        return Err(Error::new(Code::SkillInvalidBundle, message).detail("path", path));
    }
    let facts = facts(root, &format!("{path}/{SKILL_FILE}"))?;
    if facts.version.is_some() && facts.version != version {
        return Err(invalid(&format!("{path}/{SKILL_FILE}"), "says another version than its folder"));
    }
    let mut warnings: Vec<String> = Vec::new();
    let last = key.rsplit('/').next().unwrap_or(key);
    if facts.name != last {
        warnings.push(format!(
            "{path}/{SKILL_FILE} says `name: {}`, and its folder is `{last}`",
            key::shown(&facts.name)
        ));
    }
    warnings
        .extend(unreadable.iter().map(|path| format!("{path} is left out: what follows `@` is no version")));
    let Facts { name, description, .. } = facts;
    Ok(Skill { key: key.to_owned(), version, name, description, path, warnings })
}

/// What the folder without a version in its name says. A folder that only groups others says nothing,
/// and is missed only where it is all there is.
fn plain(root: &Dir, path: &str, alone: bool) -> Result<Option<Facts>, Error> {
    let file = format!("{path}/{SKILL_FILE}");
    match facts(root, &file) {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if error.code() == Code::ResolveNotFound && alone => {
            Err(invalid(path, &format!("has no {SKILL_FILE}")))
        }
        Err(error) if error.code() == Code::ResolveNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a `SKILL.md`.
fn facts(root: &Dir, path: &str) -> Result<Facts, Error> {
    let text = shelf::text(root, path, DEFINITION).map_err(|error| match error.code() {
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
                invalid(
                    path,
                    "has a `version` that is no version; write `version: 1.2.3`, or a shorter one in quotes",
                )
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
    let message =
        format!("no version of the skill `{key}` is in the range; the library has: {}", found.join(", "));
    Error::new(Code::SkillVersionUnsatisfied, message).detail("skillKey", key).detail("versions", found)
}

/// The keys of all skills, in byte order. What is inside a skill is part of it.
pub(super) fn keys(root: &Dir) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    let mut folders = vec![(String::new(), shelf::folder_if_any(root, SHELF)?)];
    let mut seen = Count::of(SKILLS);
    while let Some((prefix, folder)) = folders.pop() {
        let Some(folder) = folder else { continue };
        for (name, kind) in
            folder.names().map_err(|error| shelf::refusal(&error, &format!("{SHELF}/{prefix}")))?
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
            if shelf::kind(root, &format!("{path}/{SKILL_FILE}"))?.is_some() {
                keys.push(key);
            } else if bare == name {
                folders.push((format!("{key}/"), shelf::folder_if_any(root, &path)?));
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}
