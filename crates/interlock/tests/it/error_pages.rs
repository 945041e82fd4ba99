//! Every code that a caller can meet has a page that says what to do.

use crate::program::{root, run};

#[test]
fn the_codes_of_the_command_line_have_pages() {
    let unreadable = run(&["compose", "--json", "/none"], b"");
    let envelope: serde_json::Value = serde_json::from_slice(&unreadable.stdout).unwrap();
    for code in [envelope["code"].as_str().unwrap(), "OUTPUT_UNWRITABLE"] {
        let page = root().join("docs/errors").join(format!("{code}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.starts_with(&format!("# {code}\n")), "{code}: the page is titled after its code");
    }
}
