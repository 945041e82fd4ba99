//! Where the console is mounted.
//!
//! The composition, its modules and its policy name pages by their paths within the console: `/runs`. A browser sees them below
//! [`BASE`]: `/console/runs`. The rest of the host's paths belong to the protocols, so no page and no operation share a path.

/// The path of the console.
pub const BASE: &str = "/console";

/// The address of a page. A query and a fragment may follow the path.
pub(crate) fn address(page: &str) -> String {
    match page.strip_prefix('/') {
        Some(rest) if rest.is_empty() || rest.starts_with(['?', '#']) => format!("{BASE}{rest}"),
        _ => format!("{BASE}{page}"),
    }
}

/// The page that an address names, or `None` if it is outside of the console.
pub(crate) fn page(address: &str) -> Option<&str> {
    match address.strip_prefix(BASE)? {
        "" => Some("/"),
        rest if rest.starts_with('/') => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_address() {
        for (page_path, expected) in [
            ("/", "/console"),
            ("/runs", "/console/runs"),
            ("/runs/a?node=b#node", "/console/runs/a?node=b#node"),
        ] {
            assert_eq!(address(page_path), expected);
            assert_eq!(page(expected), Some(page_path));
        }
        assert_eq!(address("/?done=saved"), "/console?done=saved");
        assert_eq!(page("/console/"), Some("/"), "the base with a slash is the first page too");
        for outside in ["/", "/runs", "/consoles", "/console.js", "", "console"] {
            assert_eq!(page(outside), None, "{outside}");
        }
    }
}
