//! The generated documents in the repository are up to date.

use std::fs;
use std::path::Path;

#[test]
fn documents_are_fresh() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (path, text) in server::documents::all() {
        same(&docs.join(&path), &text);
    }
}

/// Compares a file with its expected content; with `UPDATE_DOCS=1`, updates the file.
pub(crate) fn same(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == text,
        "{} is stale; run the tests with UPDATE_DOCS=1 and look at the difference",
        path.display()
    );
}

#[test]
fn every_code_of_the_protocol_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = fs::read_to_string(root.join("docs/openwop.md")).unwrap();
    for code in runs::ApiCode::ALL {
        // The codes are in the first cell; other tables name them elsewhere.
        let names =
            |line: &str| line.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{code}`")));
        let row = page.lines().find(|line| line.starts_with('|') && names(line));
        let row = row.unwrap_or_else(|| panic!("docs/openwop.md has no row for {code}"));
        assert!(row.contains(server::http::status(*code).as_str()), "{code}: {row}");
    }
}

/// Codes that differ only in case share the upper-case page: on case-insensitive file systems the two names are one file.
#[test]
fn every_code_of_the_protocol_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in runs::ApiCode::ALL {
        let title = match code.as_str() {
            shared @ ("forbidden" | "internal_error" | "not_found" | "validation_error") => {
                shared.to_uppercase()
            }
            own => own.to_owned(),
        };
        let page = fs::read_to_string(pages.join(format!("{title}.md")))
            .unwrap_or_else(|error| panic!("{title}.md: {error}"));
        assert!(page.starts_with(&format!("# {title}\n\n")), "{code}: the title");
        let statuses = page.lines().find(|line| line.starts_with("- **HTTP status**: "));
        assert!(
            statuses.is_some_and(|line| line.contains(server::http::status(*code).as_str())),
            "{code}: the status"
        );
        assert!(page.contains(&format!("\"error\": \"{code}\"")), "{code}: an example");
        assert!(page.contains("**What to do.**"), "{code}: what to do");
    }
}
