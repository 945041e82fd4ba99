//! Matches paths to routes.
//!
//! The protocol writes actions with a colon, `/v1/runs/{runId}:fork`, after an id that may itself contain colons. Only the colon
//! before a known action separates. Literal segments are compared without decoding, so every path has one spelling. Parameters are
//! percent-decoded.

use std::borrow::Cow;

use super::route::{Method, Route};
use super::routes::{self, Gates};

/// A malformed path, which no route can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPath;

/// The path parameters, decoded.
pub(super) type Params = Vec<(&'static str, String)>;

/// The served templates, by their number of segments.
pub(super) struct Table(Vec<Vec<Template>>);

/// A path template of the route table, and its routes.
pub(super) struct Template {
    pub(super) path: &'static str,
    segments: Vec<Segment>,
    action: Option<&'static str>,
    routes: Vec<&'static Route>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Word(&'static str),
    /// A parameter with a suffix, as in `{version}.tgz`.
    File(&'static str, &'static str),
    Name(&'static str),
}

impl Table {
    /// The templates of the served routes.
    pub(super) fn new(gates: Gates) -> Self {
        let mut paths: Vec<&str> = routes::served(gates).map(|route| route.path).collect();
        paths.dedup();
        let mut templates: Vec<_> = paths.into_iter().map(Template::of).collect();
        // Literal segments are matched before parameters, and parameters with a suffix before those without.
        templates.sort_by(|left, right| left.segments.cmp(&right.segments));
        let longest = templates.iter().map(|template| template.segments.len()).max().unwrap_or(0);
        let mut table: Vec<_> = (0..=longest).map(|_| Vec::new()).collect();
        for template in templates {
            table[template.segments.len()].push(template);
        }
        Self(table)
    }

    /// The template of a path, and its parameters; `None` if no route has the path.
    ///
    /// # Errors
    /// When the path is malformed.
    pub(super) fn find(&self, path: &str) -> Result<Option<(&Template, Params)>, BadPath> {
        path.split('/').try_for_each(check)?;
        let (path, action) = split_action(path);
        let alike = self.0.get(path.split('/').count()).map_or(&[][..], Vec::as_slice);
        let found = alike.iter().find(|template| template.action == action && template.is_of(path));
        Ok(found.and_then(|template| Some((template, template.params(path)?))))
    }
}

impl Template {
    fn of(path: &'static str) -> Self {
        let (name, action) = split_action(path);
        let segment = |text: &'static str| match text.strip_prefix('{').and_then(|text| text.split_once('}'))
        {
            Some((name, "")) => Segment::Name(name),
            Some((name, ending)) => Segment::File(name, ending),
            None => Segment::Word(text),
        };
        Self {
            path,
            segments: name.split('/').map(segment).collect(),
            action,
            routes: routes::of(path).collect(),
        }
    }

    /// The route of a method. `HEAD` uses the route of `GET`.
    pub(super) fn route(&self, method: &http::Method) -> Option<&'static Route> {
        let wanted = match *method {
            http::Method::GET | http::Method::HEAD => Method::Get,
            http::Method::POST => Method::Post,
            http::Method::PUT => Method::Put,
            http::Method::DELETE => Method::Delete,
            _ => return None,
        };
        self.routes.iter().copied().find(|route| route.method == wanted)
    }

    /// Whether a path with the same number of segments matches this template.
    fn is_of(&self, path: &str) -> bool {
        self.segments.iter().zip(path.split('/')).all(|(segment, text)| match segment {
            Segment::Word(word) => *word == text,
            Segment::File(_, ending) => text.len() > ending.len() && text.ends_with(ending),
            Segment::Name(_) => !text.is_empty(),
        })
    }

    /// The parameters of a path that matches this template; `None` if one cannot be decoded.
    fn params(&self, path: &str) -> Option<Params> {
        let found = self.segments.iter().zip(path.split('/')).filter_map(|(segment, text)| match segment {
            Segment::Word(_) => None,
            Segment::File(name, ending) => Some((*name, text.strip_suffix(ending)?)),
            Segment::Name(name) => Some((*name, text)),
        });
        found.map(|(name, text)| Some((name, decoded(text)?.into_owned()))).collect()
    }
}

/// Splits off the action after the last colon, if it is a known one.
fn split_action(path: &str) -> (&str, Option<&'static str>) {
    let split = path.rsplit_once(':').and_then(|(rest, action)| {
        let known = routes::actions().find(|known| *known == action)?;
        Some((rest, Some(known)))
    });
    split.unwrap_or((path, None))
}

/// Refuses ambiguous segments: directory traversal, encoded slashes, control characters.
fn check(segment: &str) -> Result<(), BadPath> {
    let name = decoded(segment).ok_or(BadPath)?;
    let means_more = name.chars().any(|found| found.is_control() || matches!(found, '/' | '\\'));
    if means_more || matches!(&*name, "." | "..") || segment.starts_with(':') { Err(BadPath) } else { Ok(()) }
}

/// Percent-decodes a segment; `None` if an escape is invalid or the result is not UTF-8.
pub(super) fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(segment.into());
    }
    let mut rest = segment.bytes();
    let mut bytes = Vec::with_capacity(segment.len());
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Result<Option<(&'static str, Vec<String>)>, BadPath> {
        let table = Table::new(Gates::ALL);
        let found = table.find(path)?;
        Ok(found
            .map(|(template, params)| (template.path, params.into_iter().map(|(_, text)| text).collect())))
    }

    #[test]
    fn every_template_is_found_by_its_own_path() {
        for route in routes::served(Gates::ALL) {
            let path = route.path.replace(['{', '}'], "");
            assert_eq!(found(&path).unwrap().unwrap().0, route.path);
        }
    }

    #[test]
    fn only_the_colon_of_a_known_action_is_a_separator() {
        let run = "/v1/runs/{runId}";
        let cases = [
            ("/v1/runs/run_1", Some((run, "run_1"))),
            ("/v1/runs/run_1:pause", Some(("/v1/runs/{runId}:pause", "run_1"))),
            ("/v1/runs/a:b:diff", Some(("/v1/runs/{runId}:diff", "a:b"))),
            ("/v1/runs/run_1:dance", Some((run, "run_1:dance"))),
            ("/v1/runs/run_1%3Apause", Some((run, "run_1:pause"))),
            ("/v1/runs/a:pause/events", Some(("/v1/runs/{runId}/events", "a:pause"))),
            ("/v1/runs/a%20b", Some((run, "a b"))),
            ("/v1/workflows/w:pause", None),
            ("/v1/runs/", None),
            ("/v1/runs/a/", None),
            ("//v1/runs", None),
            ("/v1/%72uns/a", None),
            ("/v1", None),
            ("/", None),
            ("", None),
        ];
        for (path, expected) in cases {
            let expected = expected.map(|(path, param)| (path, vec![param.to_owned()]));
            assert_eq!(found(path), Ok(expected), "{path}");
        }
        assert_eq!(found("/v1/runs:bulk-cancel"), Ok(Some(("/v1/runs:bulk-cancel", Vec::new()))));
    }

    #[test]
    fn paths_that_are_refused() {
        let cases = [
            "/v1/../etc",
            "/v1/runs/.",
            "/v1/runs/%2e%2e",
            "/v1/runs/a%2fb",
            "/v1/runs/a%5Cb",
            "/v1/runs/a\\b",
            "/v1/runs/a%00",
            "/v1/runs/a%0d%0aSet-Cookie",
            "/v1/runs/%ff",
            "/v1/runs/%",
            "/v1/runs/%4",
            "/v1/runs/%zz",
            "/v1/runs/:pause",
            "/v1/runs/a/:pause",
        ];
        for path in cases {
            assert_eq!(found(path), Err(BadPath), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_paths_consist_of_names(path in r"(/v1/runs)?(/[a-z.:%0-9A-Fa-f\\]{0,8}){0,6}") {
            let Ok(found) = found(&path) else { return Ok(()) };
            let params = found.map(|(_, params)| params).unwrap_or_default();
            for segment in path.split('/') {
                // An independent decoder.
                let name: String = form_urlencoded::parse(segment.as_bytes()).map(|(name, _)| name).collect();
                proptest::prop_assert!(!matches!(name.as_str(), "." | ".."), "{}", segment);
                proptest::prop_assert!(!name.contains(['/', '\\', '\0']), "{}", segment);
            }
            for param in params {
                proptest::prop_assert!(!param.is_empty() && !param.contains(['/', '\\', '\0']), "{}", param);
            }
        }
    }
}
