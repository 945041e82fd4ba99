//! Runs that start runs.

use serde_json::json;

use super::{Host, begin, caller, status, to_the_end};

#[tokio::test]
async fn a_workflow_that_starts_itself_comes_to_an_end() {
    let host = Host::start().await;
    let selfish = json!({
        "id": "selfish", "name": "Selfish", "version": "1",
        "nodes": [{
            "id": "again", "typeId": "core.subWorkflow", "name": "Again", "position": {"x": 0, "y": 0},
            "config": {"workflowId": "selfish"}, "inputs": {}
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    });
    host.runs.register(&caller("acme"), &selfish).await.unwrap();
    let run_id = begin(&host.runs, "selfish").await;
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(status(&host.runs, &run_id), "failed");
    let (runs, _) = host.runs.list(&caller("acme"), &flow::store::RunFilter::default(), 200).unwrap();
    assert_eq!(runs.len(), 33, "the first, and one for each level");
}
