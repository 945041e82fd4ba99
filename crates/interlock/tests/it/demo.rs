//! `interlock demo`: the whole path, from one command.

use crate::program::{run, text};

#[test]
fn the_demo_guides_an_agent_and_ends_with_the_published_notes() {
    let shown = run(&["demo", "--approve"], b"");
    let told = text(&shown.stdout);
    assert!(shown.status.success(), "{told}\n{}", text(&shown.stderr));
    // In this order: a step that cannot be talked away, the steps, the person, the artifact.
    let mut rest = told.as_str();
    for wanted in [
        "A run of release-review was created",
        "with a key for this session alone",
        "refused: ",
        "Write the notes",
        "Publish these notes?",
        "It completed",
        "# Release 1.4.0",
    ] {
        let found = rest.find(wanted).unwrap_or_else(|| panic!("no {wanted:?} in the rest of:\n{told}"));
        rest = &rest[found..];
    }
    let folder = told.split_once(" from ").unwrap().1.lines().next().unwrap();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is deleted at the end");
}
