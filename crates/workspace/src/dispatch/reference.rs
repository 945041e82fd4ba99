//! Strict parsing of briefcase references.
//!
//! Composing reads leniently (`a@3abc` is version 3). Here, each spelling has one meaning or is
//! invalid.

use super::problems::quoted;
use crate::{Code, Error};

/// The largest version, 2^53: larger numbers are not exact.
const MAX_VERSION: u64 = 1 << 53;

/// Whether a reference has the form of its kind.
pub(super) fn check(kind: &str, text: &str, pointer: &str) -> Result<(), Error> {
    let rule = match kind {
        "kb_space" => (!text.is_empty() && !text.contains(['/', ':']), "`<spaceId>`, without `/` and `:`"),
        "kb_page" => (
            text.contains('/') && text.split('/').all(|part| !part.is_empty()),
            "`<spaceId>/<pageSlug>`, with no empty part",
        ),
        "artifact" => {
            (is_artifact(text), "`<artifactId>@<version>`, with one `@` and a version of digits from 1")
        }
        "scm_repo" => {
            (is_repo(text), "`<repoRef>` or `<repoRef>@<gitRef>`, with one `@` and no `:` in the git ref")
        }
        "external_url" => (!text.is_empty(), "a URL"),
        _ => (false, "of one of the kinds kb_space, kb_page, artifact, scm_repo and external_url"),
    };
    match rule {
        (true, _) if !text.contains(char::is_control) => Ok(()),
        (_, form) => {
            let shown = quoted(text);
            let message = format!("the reference {shown:?} at `{pointer}` must be {form}");
            Err(Error::new(Code::DispatchInvalid, message)
                .detail("pointer", pointer)
                .detail("kind", quoted(kind)))
        }
    }
}

fn is_artifact(text: &str) -> bool {
    let Some((artifact_id, version)) = text.split_once('@') else { return false };
    let digits = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    let version = version.parse::<u64>().ok().filter(|version| (1..=MAX_VERSION).contains(version));
    !artifact_id.is_empty() && digits && version.is_some()
}

fn is_repo(text: &str) -> bool {
    let (repo_ref, git_ref) = text.split_once('@').unwrap_or((text, "HEAD"));
    !repo_ref.is_empty() && !git_ref.is_empty() && !git_ref.contains(['@', ':'])
}
