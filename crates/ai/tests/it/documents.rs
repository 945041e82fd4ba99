//! The examples on the page about models are valid.

use std::path::Path;

use ai::failure::FailureCode;
use ai::node::{Node, NodeType};
use serde_json::Value;

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/concepts/models.md"))
        .unwrap()
}

#[test]
fn page_example_is_valid() {
    let page = page();
    let start = page.find("```json\n").unwrap() + "```json\n".len();
    let block = &page[start..start + page[start..].find("```").unwrap()];
    let workflow: Value = serde_json::from_str(block).unwrap();
    let nodes = workflow["nodes"].as_array().unwrap();
    let models =
        nodes.iter().filter_map(|node| Some((NodeType::parse(node["typeId"].as_str()?)?, &node["config"])));
    let mut read = 0;
    for (kind, config) in models {
        Node::read(kind, config).unwrap_or_else(|problems| panic!("{problems:?}"));
        read += 1;
    }
    assert_eq!(read, 2);
}

#[test]
fn page_lists_every_code() {
    let page = page();
    for code in FailureCode::ALL {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }
}
