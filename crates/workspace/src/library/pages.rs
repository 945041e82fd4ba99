//! Spaces of pages: a folder each, with a Markdown file for each page.

use std::collections::BTreeSet;
use std::io;

use super::limits::{Count, FILES, PAGE, SPACE};
use super::walk::{Found, Walk, What};
use super::{key, put, shelf};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::{Code, Error};

/// Where the pictures and other files of a space are.
const ASSETS: &str = "_assets/";

/// Every page of a space, and its assets.
pub(super) fn space(root: &Dir, space: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("space", space, || format!("kb/{space}"))?;
    let folder = shelf::folder_if_any(root, &path)?.ok_or_else(|| shelf::missing(root, &path))?;
    let (mut pages, mut assets) = (Count::of(SPACE), Count::of(FILES));
    let (mut left_out, mut first) = (0_usize, None);
    // Hidden files keep an empty space in git, or are those of systems and editors.
    let hidden = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    let walk = Walk { label: &path, code: Code::ResolveBadResponse, links: false, skip: &hidden };
    walk.run(&folder, &mut |found| {
        let Found { path, what: What::File { file, size, .. } } = found else { return Ok(()) };
        if path.starts_with(ASSETS) {
            assets.add(1)?;
        } else if path.ends_with(".md") {
            pages.add(1)?;
            PAGE.check(size).map_err(|error| error.detail("path", format!("kb/{space}/{path}")))?;
        } else {
            left_out += 1;
            first.get_or_insert(path);
            return Ok(());
        }
        Ok(put(sink, path, false, Content::File(file))?)
    })?;
    if let Some(first) = first {
        let count = if left_out == 1 { String::new() } else { format!(" and {} more", left_out - 1) };
        sink.warn(format!("{path}/{first}{count} left out: neither a page (`.md`) nor below `_assets`"));
    }
    Ok(())
}

/// Some pages of a space. All that are missing are named.
pub(super) fn selection(root: &Dir, space: &str, slugs: &[String], sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("space", space, || format!("kb/{space}"))?;
    if slugs.is_empty() {
        let message = format!("no page of the space `{space}` is selected");
        return Err(Error::new(Code::ResolveEmptySelection, message).detail("spaceId", space));
    }
    let slugs: BTreeSet<&String> = slugs.iter().collect();
    SPACE.check(slugs.len() as u64)?;
    let folder = shelf::folder_if_any(root, &path)?.ok_or_else(|| shelf::missing(root, &path))?;
    let open = |slug: &String| {
        let page = key::path("page", slug, || format!("{slug}.md"))?;
        let shown = format!("{path}/{page}");
        let file = folder.open_file(&page).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => shelf::missing(root, &shown),
            _ => shelf::refusal(&error, &shown),
        })?;
        let facts = file.metadata().map_err(|error| shelf::refusal(&error, &shown))?;
        PAGE.check(facts.len()).map_err(|error| error.detail("path", shown))?;
        Ok((page, file))
    };
    // Looked for before the first is put, so that one apply says everything that is missing. A file
    // is opened twice for it, since twenty thousand open files would be more than a process may have.
    let problems = slugs.iter().filter_map(|slug| open(slug).err());
    if let Some(error) = Error::first_of(problems) {
        return Err(error);
    }
    for slug in slugs {
        let (page, file) = open(slug)?;
        put(sink, page, false, Content::File(file))?;
    }
    Ok(())
}
