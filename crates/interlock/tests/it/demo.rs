//! `interlock demo`.

use crate::program::{run, text};

#[test]
fn the_demo_guides_an_agent_and_publishes_the_notes() {
    let shown = run(&["demo", "--approve"], b"");
    let message = text(&shown.stdout);
    assert!(shown.status.success(), "{message}\n{}", text(&shown.stderr));
    // In this order: a blocked attempt, the steps, the approval, the artifact.
    let mut rest = message.as_str();
    for wanted in [
        "Created a run of release-review",
        "with a key for this session only",
        "blocked: ",
        "Write the notes",
        "Publish these notes?",
        "The run completed",
        "# Release 1.4.0",
    ] {
        let found = rest.find(wanted).unwrap_or_else(|| panic!("no {wanted:?} in the rest of:\n{message}"));
        rest = &rest[found..];
    }
    let folder = message.split_once(" from ").unwrap().1.lines().next().unwrap();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is deleted at the end");
}
