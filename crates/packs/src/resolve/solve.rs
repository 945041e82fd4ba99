//! Choosing versions, and taking choices back.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use super::sources::{Candidate, Found, Listed, Sources};
use super::{MAX_CHOICES, MAX_PACKS, Request};
use crate::error::{PackError, PackErrorCode};
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// Who needs a pack, and in which range.
#[derive(Clone, Debug)]
struct Need {
    range: Range,
    by: Option<PackName>,
}

/// A choice that was made, and what it could have been instead.
struct Choice {
    name: PackName,
    /// The versions that were possible, highest first.
    possible: Vec<usize>,
    /// Which of them is chosen.
    at: usize,
}

/// A pack that was asked for: its versions, and those of them that were looked at.
struct Known<'s> {
    found: Found<'s>,
    candidates: HashMap<usize, Candidate>,
}

/// The chosen version of every pack.
pub(super) fn solve(
    request: &Request,
    sources: &Sources<'_>,
) -> Result<BTreeMap<PackName, Candidate>, PackError> {
    let mut known: HashMap<PackName, Known<'_>> = HashMap::new();
    let mut choices: Vec<Choice> = Vec::new();
    let mut first_conflict: Option<PackError> = None;
    let mut tried = 0;
    loop {
        let refused = match next(request, sources, &mut known, &mut choices)? {
            Next::Chosen => {
                tried += 1;
                continue;
            }
            Next::Done(chosen) => return Ok(chosen),
            Next::Refused(error) => error,
        };
        tried += 1;
        let told = first_conflict.get_or_insert(refused).clone();
        if tried > MAX_CHOICES {
            return Err(told.detail("choicesTried", MAX_CHOICES));
        }
        // The last choice that has an alternative takes it; those behind it are forgotten.
        loop {
            let Some(last) = choices.last_mut() else { return Err(told) };
            if last.at + 1 < last.possible.len() {
                last.at += 1;
                break;
            }
            choices.pop();
        }
    }
}

/// What comes of the choices so far.
enum Next {
    /// One more was made.
    Chosen,
    /// They lead nowhere.
    Refused(PackError),
    /// Everything that is needed is chosen.
    Done(BTreeMap<PackName, Candidate>),
}

fn next<'s>(
    request: &Request,
    sources: &Sources<'s>,
    known: &mut HashMap<PackName, Known<'s>>,
    choices: &mut Vec<Choice>,
) -> Result<Next, PackError> {
    // Only what is chosen is looked at, and before anything is built upon it.
    if let Some(last) = choices.last()
        && let Some(unusable) = look(last, known)?
    {
        return Ok(Next::Refused(unusable));
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
        return Ok(Next::Refused(conflict(name, needs)));
    }
    let Some((name, needs)) = needs.iter().find(|(name, _)| !chosen.contains_key(*name)) else {
        let owned = chosen.into_iter().map(|(name, found)| (name.clone(), found.clone()));
        return Ok(Next::Done(owned.collect()));
    };
    let name = (*name).clone();
    let needs = needs.clone();
    drop(chosen);
    if choices.len() >= MAX_PACKS {
        return Err(PackError::new(
            PackErrorCode::DependencyConflict,
            format!("more than {MAX_PACKS} packs would be needed"),
        ));
    }
    let there = match known.entry(name.clone()) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => place
            .insert(Known { found: sources.versions(&name, request.offline)?, candidates: HashMap::new() }),
    };
    let forced = request.overrides.get(&name);
    Ok(match possible(&there.found.listed, &needs, forced) {
        Ok(possible) if possible.is_empty() => {
            Next::Refused(none_left(&name, &needs, &there.found.listed, forced))
        }
        Ok(possible) => {
            choices.push(Choice { name, possible, at: 0 });
            Next::Chosen
        }
        Err(error) => Next::Refused(error),
    })
}

/// Looks at a version that is chosen, once; gives why it cannot be used.
fn look(choice: &Choice, known: &mut HashMap<PackName, Known<'_>>) -> Result<Option<PackError>, PackError> {
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

/// Everything that is needed, by what is wanted and by what is chosen.
fn needs<'a>(
    request: &'a Request,
    chosen: &BTreeMap<&'a PackName, &'a Candidate>,
) -> BTreeMap<&'a PackName, Vec<Need>> {
    let mut needs: BTreeMap<&PackName, Vec<Need>> = BTreeMap::new();
    for (name, range) in &request.wanted {
        needs.entry(name).or_default().push(Need { range: range.clone(), by: None });
    }
    for (by, candidate) in chosen {
        for (name, range) in &candidate.dependencies {
            needs.entry(name).or_default().push(Need { range: range.clone(), by: Some((*by).clone()) });
        }
    }
    needs
}

/// The versions that may be chosen, highest first.
fn possible(found: &[Listed], needs: &[Need], forced: Option<&Version>) -> Result<Vec<usize>, PackError> {
    let places = found.iter().enumerate();
    let Some(forced) = forced else {
        let fit = places.filter(|(_, listed)| {
            !listed.yanked && needs.iter().all(|need| need.range.matches(&listed.version))
        });
        return Ok(fit.map(|(place, _)| place).collect());
    };
    // Forcing a version that nobody asked for would be a mistake more often than not.
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

fn none_left(name: &PackName, needs: &[Need], found: &[Listed], forced: Option<&Version>) -> PackError {
    if let Some(forced) = forced {
        let message = format!("{name} has no version {forced}, which is forced");
        return PackError::new(PackErrorCode::VersionNotFound, message).detail("packName", name.as_str());
    }
    // Each range alone may be satisfied and all of them together not: then they conflict.
    let satisfiable =
        |need: &Need| found.iter().any(|listed| !listed.yanked && need.range.matches(&listed.version));
    match needs.iter().find(|need| !satisfiable(need)) {
        Some(need) => {
            let by = need.by.as_ref().map_or_else(String::new, |by| format!(", which {by} needs"));
            let message = format!("{name} has no version in {}{by}", need.range);
            PackError::new(PackErrorCode::VersionNotFound, message).detail("packName", name.as_str())
        }
        None => conflict(name, needs),
    }
}

fn conflict(name: &PackName, needs: &[Need]) -> PackError {
    let by = |need: &Need| need.by.as_ref().map_or_else(|| "the request".to_owned(), ToString::to_string);
    let words: Vec<String> = needs.iter().map(|need| format!("{} (by {})", need.range, by(need))).collect();
    let ranges: Vec<&str> = needs.iter().map(|need| need.range.as_str()).collect();
    PackError::new(
        PackErrorCode::DependencyConflict,
        format!("no version of {name} is in all of {}", words.join(", ")),
    )
    .detail("packName", name.as_str())
    .detail("conflictingRanges", json!(ranges))
}
