//! The documentation has exactly one line for each kind of problem in a workflow file.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the engine, not for its tests")]

use std::path::Path;

use guide::workflow::problem::ProblemCode;

#[test]
fn every_problem_has_one_line_with_its_meaning_and_fix() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workflow-problems.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    // In the order of the enum, so that a new code must be added in both.
    let documented: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let codes: Vec<&str> = ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(documented, codes);
    for row in rows {
        assert_eq!(row.len(), 3, "{}", row[0]);
        for cell in &row[1..] {
            assert!(cell.len() >= 8 && cell.ends_with('.'), "{}: {cell:?} is not a sentence", row[0]);
        }
    }
}
