//! `repos.toml`: where repositories are.

use toml_edit::{DocumentMut, Item, TableLike};

use crate::library::limits::REPOS_TOML;
use crate::library::{key, shelf};
use crate::rooted::Dir;
use crate::{Code, Error};

/// The file, in the library.
const FILE: &str = "repos.toml";

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A folder of this machine.
    Path(String),
    /// Another machine, by `https:`, or a folder of this one, by `file:`.
    Url(String),
}

/// Looks a repository up.
pub(super) fn find(root: &Dir, repo_ref: &str) -> Result<Location, Error> {
    let absent = || {
        let shown = key::shown(repo_ref);
        let message = format!("{FILE} in the library has no [repos.\"{shown}\"]");
        Error::new(Code::ResolveNotFound, message).detail("path", FILE).detail("repoRef", shown)
    };
    let text = shelf::text_if_any(root, FILE, REPOS_TOML)?.ok_or_else(absent)?;
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let line =
            error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        shelf::bad(FILE, &format!("is no TOML: {line}{}", error.message()))
    })?;
    if let Some((unknown, _)) = document.iter().find(|(name, _)| *name != "repos") {
        return Err(shelf::bad(FILE, &format!("has `{}`; it may have only [repos.…]", key::shown(unknown))));
    }
    let Some(repos) = document.get("repos") else { return Err(absent()) };
    let repos = repos.as_table_like().ok_or_else(|| shelf::bad(FILE, "has a `repos` that is no table"))?;
    let entry = repos.get(repo_ref).ok_or_else(|| {
        let near = canon::nearest::nearest(repo_ref, repos.iter().map(|(name, _)| name), 1);
        near.first().map_or_else(absent, |near| absent().detail("nearest", key::shown(near)))
    })?;
    let entry =
        entry.as_table_like().ok_or_else(|| bad(repo_ref, "has to be a table with `path` or `url`"))?;
    location(entry, repo_ref)
}

fn location(entry: &dyn TableLike, repo_ref: &str) -> Result<Location, Error> {
    let mut members = entry.iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else {
        return Err(bad(repo_ref, "has to have one of `path` and `url`, and nothing else"));
    };
    let text = Item::as_str(value).filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
    let text =
        text.ok_or_else(|| bad(repo_ref, &format!("has to have a text for `{}`", key::shown(name))))?;
    match name {
        "path" => Ok(Location::Path(text.to_owned())),
        "url" => checked(text).map(Location::Url).map_err(|problem| {
            let message =
                format!("{FILE} in the library: the address of `{}` {problem}", key::shown(repo_ref));
            Error::new(Code::ResolveDenied, message)
                .detail("path", FILE)
                .detail("repoRef", key::shown(repo_ref))
        }),
        _ => Err(bad(repo_ref, "has to have one of `path` and `url`")),
    }
}

/// An address that may be asked. Refusals do not repeat it: it may hold a password.
fn checked(url: &str) -> Result<String, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("has to begin with `https://` or `file://`");
    };
    match scheme {
        "file" if rest.starts_with('/') => return Ok(url.to_owned()),
        "file" => return Err("has to be `file:///` and an absolute path"),
        "https" => {}
        "ssh" | "git" | "http" => {
            return Err("may only use `https` or `file`; clone it yourself and give the folder as `path`");
        }
        _ => return Err("has to begin with `https://` or `file://`"),
    }
    match host(url) {
        None => Err("names no machine"),
        Some(_) if authority(rest).contains('@') => Err(
            "holds a name or a password; a library is no place for one. Clone it yourself and give the folder as `path`",
        ),
        Some(_) => Ok(url.to_owned()),
    }
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#', '\\']).next().unwrap_or_default()
}

/// The machine of an `https` address.
pub(super) fn host(url: &str) -> Option<&str> {
    let host = authority(url.strip_prefix("https://")?);
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']' | b'_');
    let host = host.rsplit('@').next()?;
    (!host.is_empty() && !host.starts_with('-') && host.bytes().all(plain)).then_some(host)
}

pub(super) fn bad(repo_ref: &str, problem: &str) -> Error {
    shelf::bad(FILE, &format!("at [repos.\"{}\"] {problem}", key::shown(repo_ref)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_may_be_asked() {
        for good in [
            "https://example.org/a.git",
            "https://example.org:8443/a",
            "https://[::1]/a",
            "file:///srv/a.git",
        ] {
            assert_eq!(checked(good), Ok(good.to_owned()), "{good}");
        }
    }

    #[test]
    fn addresses_that_are_refused_without_being_repeated() {
        let refused = [
            "http://example.org/a",
            "ssh://git@example.org/a",
            "git@example.org:a",
            "git://example.org/a",
            "ext::sh -c touch% /tmp/x",
            "https://me:secret@example.org/a",
            "https://token@example.org/a",
            "https://",
            "https:///a",
            "https://-oProxyCommand=x/a",
            "https://a b/c",
            "file://example.org/a",
            "/srv/a",
            "--upload-pack=x",
        ];
        for url in refused {
            let problem = checked(url).unwrap_err();
            assert!(!problem.contains("secret") && !problem.contains("example.org"), "{problem}");
        }
    }
}
