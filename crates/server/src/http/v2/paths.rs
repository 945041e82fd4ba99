//! Finds the operation of a path.

use http::Method as HttpMethod;
use openwop::id;

use super::super::route::{Method, Route};
use super::super::table::{Params, decoded};
use super::routes::{NOT_SERVED, ROUTES};

/// What a path of version 2 names.
pub(in crate::http) enum PathMatch {
    Operation(&'static Route, Params),
    /// The path exists, with other methods.
    OtherMethod(Vec<&'static str>),
    /// An operation of the protocol that this host does not have.
    NotServed,
    /// An escape in the path is invalid, or a segment cannot be a name.
    Malformed,
}

/// The operation of a path. `None` if the protocol has no such path.
pub(in crate::http) fn find(method: &HttpMethod, path: &str) -> Option<PathMatch> {
    // An operation without parameters comes before one that would take the last segment as an id.
    if NOT_SERVED.iter().any(|(_, template)| *template == path)
        && ROUTES.iter().all(|route| route.path != path)
    {
        return Some(PathMatch::NotServed);
    }
    let mut allowed: Vec<&'static str> = Vec::new();
    for route in ROUTES {
        let Some(raw) = matched(route.path, path) else { continue };
        if !is_method(route.method, method) {
            allowed.push(route.method.as_str());
            continue;
        }
        let params: Option<Params> =
            raw.into_iter().map(|(name, text)| Some((name, segment(text)?))).collect();
        return Some(params.map_or(PathMatch::Malformed, |params| PathMatch::Operation(route, params)));
    }
    if NOT_SERVED
        .iter()
        .any(|(named, template)| *named == method.as_str() && matched(template, path).is_some())
    {
        return Some(PathMatch::NotServed);
    }
    if allowed.is_empty() {
        return NOT_SERVED
            .iter()
            .any(|(_, template)| matched(template, path).is_some())
            .then_some(PathMatch::NotServed);
    }
    if allowed.contains(&"GET") {
        allowed.push("HEAD");
    }
    Some(PathMatch::OtherMethod(allowed))
}

fn is_method(route: Method, method: &HttpMethod) -> bool {
    route.as_str() == method.as_str() || (route == Method::Get && *method == HttpMethod::HEAD)
}

/// The undecoded parameters of a path that a template matches.
fn matched<'p>(template: &'static str, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        let (wanted, found) = match (wanted.next(), found.next()) {
            (None, None) => return Some(params),
            (Some(wanted), Some(found)) => (wanted, found),
            _ => return None,
        };
        match wanted.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            None if wanted == found => {}
            None => return None,
            // The action is split off before the id is decoded: an id may contain colons.
            Some((name, action)) => {
                let id = found.strip_suffix(action).filter(|id| !id.is_empty())?;
                params.push((name, id));
            }
        }
    }
}

/// A decoded parameter: percent-decoded, then `~` and two digits. `None` if an escape is invalid or the name could be mistaken for
/// part of a path.
fn segment(raw: &str) -> Option<String> {
    let name = id::unprojected(&decoded(raw)?)?;
    let is_odd = name.chars().any(|found| found.is_control() || found == '\\')
        || name.split('/').any(|part| matches!(part, "." | ".."));
    (!is_odd).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Option<String> {
        match find(&method.parse().unwrap(), path)? {
            PathMatch::Operation(route, params) => {
                let params: Vec<_> = params.into_iter().map(|(_, value)| value).collect();
                Some(format!("{} {}", route.operation, params.join(" ")).trim_end().to_owned())
            }
            PathMatch::OtherMethod(allowed) => Some(format!("allowed {}", allowed.join(" "))),
            PathMatch::NotServed => Some("not served".to_owned()),
            PathMatch::Malformed => Some("malformed".to_owned()),
        }
    }

    #[test]
    fn v2_id_grammar_in_paths() {
        for (method, path, expected) in [
            ("GET", "/runs", Some("listRuns")),
            ("HEAD", "/runs", Some("listRuns")),
            ("POST", "/runs:bulk-cancel", Some("bulkCancelRuns")),
            ("GET", "/runs/run_1", Some("getRun run_1")),
            ("GET", "/runs/acme~2Frun_1", Some("getRun acme/run_1")),
            ("GET", "/runs/acme%2Frun_1", Some("getRun acme/run_1")),
            ("POST", "/runs/acme~2Frun_1:pause", Some("pauseRun acme/run_1")),
            ("POST", "/runs/acme%2frun_1:fork", Some("forkRun acme/run_1")),
            ("GET", "/runs/a~2", Some("malformed")),
            ("GET", "/runs/a~zz", Some("malformed")),
            ("GET", "/runs/%", Some("malformed")),
            ("GET", "/runs/..", Some("malformed")),
            ("GET", "/runs/a%2F..", Some("malformed")),
            ("GET", "/runs/", None),
            ("DELETE", "/runs", Some("allowed GET POST HEAD")),
            ("GET", "/prompts", Some("not served")),
            ("GET", "/agents/roster", Some("not served")),
            ("GET", "/agents/core.acme.clerk", Some("getAgent core.acme.clerk")),
            ("GET", "/v1/runs", None),
            ("GET", "/", None),
            ("GET", "/foo", None),
        ] {
            assert_eq!(found(method, path).as_deref(), expected, "{method} {path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in r"(/[a-z~%:.0-9A-F]{0,6}){0,5}") {
            let _ = find(&HttpMethod::GET, &path);
        }
    }
}
