//! Version selection with backtracking.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use super::sources::{Candidate, ListedVersion, PackVersions, Sources};
use super::{MAX_CHOICES, MAX_PACKS, Request};
use crate::error::{PackError, PackErrorCode};
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// A dependent and its range.
#[derive(Clone, Debug)]
struct Requirement {
    range: Range,
    by: Option<PackName>,
}

/// A choice and its alternatives.
struct Choice {
    name: PackName,
    /// The possible versions, highest first.
    possible: Vec<usize>,
    /// The index of the chosen one.
    at: usize,
}

/// The versions of a pack, and those that were read.
struct KnownPack<'s> {
    found: PackVersions<'s>,
    candidates: HashMap<usize, Candidate>,
}

/// The chosen version of every pack.
pub(super) fn solve(
    request: &Request,
    sources: &Sources<'_>,
) -> Result<BTreeMap<PackName, Candidate>, PackError> {
    let mut known: HashMap<PackName, KnownPack<'_>> = HashMap::new();
    let mut choices: Vec<Choice> = Vec::new();
    let mut first_conflict: Option<PackError> = None;
    let mut tried = 0;
    loop {
        let refused = match next(request, sources, &mut known, &mut choices)? {
            StepResult::Chosen => {
                tried += 1;
                continue;
            }
            StepResult::Done(chosen) => return Ok(chosen),
            StepResult::Refused(error) => error,
        };
        tried += 1;
        let conflict = first_conflict.get_or_insert(refused).clone();
        if tried > MAX_CHOICES {
            return Err(conflict.detail("choicesTried", MAX_CHOICES));
        }
        // Backtrack to the last choice with an alternative.
        loop {
            let Some(last) = choices.last_mut() else { return Err(conflict) };
            if last.at + 1 < last.possible.len() {
                last.at += 1;
                break;
            }
            choices.pop();
        }
    }
}

enum StepResult {
    Chosen,
    /// The choices are inconsistent.
    Refused(PackError),
    /// Everything is chosen.
    Done(BTreeMap<PackName, Candidate>),
}

fn next<'s>(
    request: &Request,
    sources: &Sources<'s>,
    known: &mut HashMap<PackName, KnownPack<'s>>,
    choices: &mut Vec<Choice>,
) -> Result<StepResult, PackError> {
    // Only chosen versions are read, before others depend on them.
    if let Some(last) = choices.last()
        && let Some(unusable) = look(last, known)?
    {
        return Ok(StepResult::Refused(unusable));
    }
    let chosen: BTreeMap<&PackName, &Candidate> = choices
        .iter()
        .map(|choice| (&choice.name, &known[&choice.name].candidates[&choice.possible[choice.at]]))
        .collect();
    let needs = needs(request, &chosen);
    let broken = needs.iter().find(|(name, needs)| {
        let forced = request.overrides.contains_key(*name);
        chosen.get(*name).is_some_and(|candidate| {
            !forced && !needs.iter().all(|need| need.range.matches(&candidate.version))
        })
    });
    if let Some((name, needs)) = broken {
        return Ok(StepResult::Refused(conflict(name, needs)));
    }
    let Some((name, needs)) = needs.iter().find(|(name, _)| !chosen.contains_key(*name)) else {
        let owned = chosen.into_iter().map(|(name, found)| (name.clone(), found.clone()));
        return Ok(StepResult::Done(owned.collect()));
    };
    let name = (*name).clone();
    let needs = needs.clone();
    drop(chosen);
    if choices.len() >= MAX_PACKS {
        return Err(PackError::new(
            PackErrorCode::DependencyConflict,
            format!("more than {MAX_PACKS} packs are required"),
        ));
    }
    let there = match known.entry(name.clone()) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => place.insert(KnownPack {
            found: sources.versions(&name, request.offline)?,
            candidates: HashMap::new(),
        }),
    };
    let forced = request.overrides.get(&name);
    Ok(match possible(&there.found.listed, &needs, forced) {
        Ok(possible) if possible.is_empty() => {
            StepResult::Refused(none_left(&name, &needs, &there.found.listed, forced))
        }
        Ok(possible) => {
            choices.push(Choice { name, possible, at: 0 });
            StepResult::Chosen
        }
        Err(error) => StepResult::Refused(error),
    })
}

/// Reads a chosen version once; returns why it cannot be used.
fn look(
    choice: &Choice,
    known: &mut HashMap<PackName, KnownPack<'_>>,
) -> Result<Option<PackError>, PackError> {
    let place = choice.possible[choice.at];
    let Some(pack) = known.get_mut(&choice.name) else { return Ok(None) };
    if pack.candidates.contains_key(&place) {
        return Ok(None);
    }
    match pack.found.candidate(&choice.name, &pack.found.listed[place].version) {
        Ok(candidate) => {
            pack.candidates.insert(place, candidate);
            Ok(None)
        }
        Err(error) if error.code() == PackErrorCode::RegistryUnreachable => Err(error),
        Err(unusable) => Ok(Some(unusable)),
    }
}

/// All requirements of the request and the chosen versions.
fn needs<'a>(
    request: &'a Request,
    chosen: &BTreeMap<&'a PackName, &'a Candidate>,
) -> BTreeMap<&'a PackName, Vec<Requirement>> {
    let mut needs: BTreeMap<&PackName, Vec<Requirement>> = BTreeMap::new();
    for (name, range) in &request.wanted {
        needs.entry(name).or_default().push(Requirement { range: range.clone(), by: None });
    }
    for (by, candidate) in chosen {
        for (name, range) in &candidate.dependencies {
            needs
                .entry(name)
                .or_default()
                .push(Requirement { range: range.clone(), by: Some((*by).clone()) });
        }
    }
    needs
}

/// The possible versions, highest first.
fn possible(
    found: &[ListedVersion],
    needs: &[Requirement],
    forced: Option<&Version>,
) -> Result<Vec<usize>, PackError> {
    let places = found.iter().enumerate();
    let Some(forced) = forced else {
        let fit = places.filter(|(_, listed)| {
            !listed.yanked && needs.iter().all(|need| need.range.matches(&listed.version))
        });
        return Ok(fit.map(|(place, _)| place).collect());
    };
    // An override outside all ranges is most likely a mistake.
    if !needs.iter().any(|need| need.range.matches(forced)) {
        let ranges: Vec<&str> = needs.iter().map(|need| need.range.as_str()).collect();
        return Err(PackError::new(
            PackErrorCode::DependencyConflict,
            format!("the override {forced} is in none of the ranges {}", ranges.join(", ")),
        )
        .detail("conflictingRanges", json!(ranges)));
    }
    Ok(places.filter(|(_, listed)| listed.version == *forced).map(|(place, _)| place).collect())
}

fn none_left(
    name: &PackName,
    needs: &[Requirement],
    found: &[ListedVersion],
    forced: Option<&Version>,
) -> PackError {
    if let Some(forced) = forced {
        let message = format!("the override {forced} of {name} does not exist");
        return PackError::new(PackErrorCode::VersionNotFound, message).detail("packName", name.as_str());
    }
    // If each range can be satisfied alone, they conflict.
    let satisfiable =
        |need: &Requirement| found.iter().any(|listed| !listed.yanked && need.range.matches(&listed.version));
    match needs.iter().find(|need| !satisfiable(need)) {
        Some(need) => {
            let by = need.by.as_ref().map_or_else(String::new, |by| format!(", which {by} requires"));
            let message = format!("{name} has no version in {}{by}", need.range);
            PackError::new(PackErrorCode::VersionNotFound, message).detail("packName", name.as_str())
        }
        None => conflict(name, needs),
    }
}

fn conflict(name: &PackName, needs: &[Requirement]) -> PackError {
    let by =
        |need: &Requirement| need.by.as_ref().map_or_else(|| "the request".to_owned(), ToString::to_string);
    let words: Vec<String> = needs.iter().map(|need| format!("{} (by {})", need.range, by(need))).collect();
    let ranges: Vec<&str> = needs.iter().map(|need| need.range.as_str()).collect();
    PackError::new(
        PackErrorCode::DependencyConflict,
        format!("no version of {name} satisfies all of {}", words.join(", ")),
    )
    .detail("packName", name.as_str())
    .detail("conflictingRanges", json!(ranges))
}
