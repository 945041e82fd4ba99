//! `repos.toml`: the locations of repositories.

use toml_edit::{DocumentMut, Item, TableLike};

use crate::library::limits::REPOS_TOML;
use crate::library::{files, key};
use crate::rooted::Dir;
use crate::{Code, Error};

const FILE: &str = "repos.toml";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A local folder.
    Path(String),
    /// A remote host with `https:`, or a local folder with `file:`.
    Url(String),
}

/// Looks up a repository.
pub(super) fn find(root: &Dir, repo_ref: &str) -> Result<Location, Error> {
    let absent = || {
        let shown = key::shown(repo_ref);
        let message = format!("{FILE} in the library has no [repos.\"{shown}\"]");
        Error::new(Code::ResolveNotFound, message).detail("path", FILE).detail("repoRef", shown)
    };
    let text = files::text_if_any(root, FILE, REPOS_TOML)?.ok_or_else(absent)?;
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let line =
            error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        files::bad(FILE, &format!("is not valid TOML: {line}{}", error.message()))
    })?;
    if let Some((unknown, _)) = document.iter().find(|(name, _)| *name != "repos") {
        return Err(files::bad(
            FILE,
            &format!("has an unknown key `{}`; only [repos.…] is allowed", key::shown(unknown)),
        ));
    }
    let Some(repos) = document.get("repos") else { return Err(absent()) };
    let repos = repos.as_table_like().ok_or_else(|| files::bad(FILE, "has a `repos` that is not a table"))?;
    let entry = repos.get(repo_ref).ok_or_else(|| {
        let near = canon::nearest::nearest(repo_ref, repos.iter().map(|(name, _)| name), 1);
        near.first().map_or_else(absent, |near| absent().detail("nearest", key::shown(near)))
    })?;
    let entry = entry.as_table_like().ok_or_else(|| bad(repo_ref, "must be a table with `path` or `url`"))?;
    location(entry, repo_ref)
}

fn location(entry: &dyn TableLike, repo_ref: &str) -> Result<Location, Error> {
    let mut members = entry.iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else {
        return Err(bad(repo_ref, "must have exactly one of `path` and `url`"));
    };
    let text = Item::as_str(value).filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
    let text =
        text.ok_or_else(|| bad(repo_ref, &format!("must have a string for `{}`", key::shown(name))))?;
    match name {
        "path" => Ok(Location::Path(text.to_owned())),
        "url" => checked(text).map(Location::Url).map_err(|problem| {
            let message =
                format!("{FILE} in the library: the address of `{}` {problem}", key::shown(repo_ref));
            Error::new(Code::ResolveDenied, message)
                .detail("path", FILE)
                .detail("repoRef", key::shown(repo_ref))
        }),
        _ => Err(bad(repo_ref, "must have one of `path` and `url`")),
    }
}

/// A URL that may be contacted. Errors do not repeat it, because it may contain a password.
fn checked(url: &str) -> Result<String, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("must start with `https://` or `file://`");
    };
    match scheme {
        "file" if rest.starts_with('/') => return Ok(url.to_owned()),
        "file" => return Err("must be `file:///` and an absolute path"),
        "https" => {}
        "ssh" | "git" | "http" => {
            return Err(
                "must use `https` or `file`; otherwise clone it yourself and use the folder as `path`",
            );
        }
        _ => return Err("must start with `https://` or `file://`"),
    }
    match host(url) {
        None => Err("has no host"),
        Some(_) if authority(rest).contains('@') => Err(
            "contains a user name or password, which a library must not contain. Clone it yourself and use the folder as `path`",
        ),
        Some(_) => Ok(url.to_owned()),
    }
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#', '\\']).next().unwrap_or_default()
}

/// The host of an `https` URL.
pub(super) fn host(url: &str) -> Option<&str> {
    let host = authority(url.strip_prefix("https://")?);
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']' | b'_');
    let host = host.rsplit('@').next()?;
    (!host.is_empty() && !host.starts_with('-') && host.bytes().all(plain)).then_some(host)
}

pub(super) fn bad(repo_ref: &str, problem: &str) -> Error {
    files::bad(FILE, &format!("at [repos.\"{}\"] {problem}", key::shown(repo_ref)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_repository_urls() {
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
    fn invalid_repository_urls_are_not_repeated() {
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
