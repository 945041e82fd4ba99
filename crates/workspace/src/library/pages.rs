//! Spaces of pages: a folder each, with a Markdown file per page.

use std::collections::BTreeSet;
use std::io;

use super::limits::{Count, FILES, PAGE, SPACE};
use super::walk::{EntryKind, FolderWalk, WalkEntry};
use super::{files, key, put};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::{Code, Error};

/// The folder of images and other assets of a space.
const ASSETS: &str = "_assets/";

/// All pages of a space and its assets.
pub(super) fn space(root: &Dir, space: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("space", space, || format!("kb/{space}"))?;
    let folder = files::folder_if_any(root, &path)?.ok_or_else(|| files::missing(root, &path))?;
    let (mut pages, mut assets) = (Count::of(SPACE), Count::of(FILES));
    let (mut left_out, mut first) = (0_usize, None);
    // Hidden files are ignored.
    let hidden = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    let walk = FolderWalk { label: &path, code: Code::ResolveBadResponse, links: false, skip: &hidden };
    walk.run(&folder, &mut |found| {
        let WalkEntry { path, what: EntryKind::File { file, size, .. } } = found else { return Ok(()) };
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
        sink.warn(format!("{path}/{first}{count} skipped: neither a page (`.md`) nor below `_assets`"));
    }
    Ok(())
}

/// Selected pages of a space. All missing ones are reported.
pub(super) fn selection(root: &Dir, space: &str, slugs: &[String], sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("space", space, || format!("kb/{space}"))?;
    if slugs.is_empty() {
        let message = format!("no pages of the space `{space}` are selected");
        return Err(Error::new(Code::ResolveEmptySelection, message).detail("spaceId", space));
    }
    let slugs: BTreeSet<&String> = slugs.iter().collect();
    SPACE.check(slugs.len() as u64)?;
    let folder = files::folder_if_any(root, &path)?.ok_or_else(|| files::missing(root, &path))?;
    let open = |slug: &String| {
        let page = key::path("page", slug, || format!("{slug}.md"))?;
        let shown = format!("{path}/{page}");
        let file = folder.open_file(&page).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => files::missing(root, &shown),
            _ => files::refusal(&error, &shown),
        })?;
        let facts = file.metadata().map_err(|error| files::refusal(&error, &shown))?;
        PAGE.check(facts.len()).map_err(|error| error.detail("path", shown))?;
        Ok((page, file))
    };
    // Checked before the first page is put, so that one apply reports all missing pages. Files are
    // opened twice, because a process may not keep twenty thousand files open.
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
