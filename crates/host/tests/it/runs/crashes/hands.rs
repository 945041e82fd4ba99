//! The host dies at every commit of a run that changes a surface. The change is made once.

use serde_json::json;
use surfaces::{Call, Millis, Surface, Tenant};

use super::super::hands::stores;
use super::super::{caller, workflow};
use super::client::Client;
use super::mortal::{Death, live};
use super::{Setup, folder};

#[test]
fn an_effect_is_made_once_whenever_the_host_dies() {
    let key = json!({"type": "static", "value": "count"});
    let add = |id: &str| json!([id, "core.storage.kv-atomic-increment", {}, {"key": key}]);
    let edges = json!([{"id": "e", "sourceNodeId": "one", "targetNodeId": "two"}]);
    let document = workflow("adds", &json!([add("one"), add("two")]), &edges, &json!([]));
    for at in 1.. {
        for made in [false, true] {
            let folder = folder();
            let setup = || Setup { hands: Some(stores(folder.path())), ..Setup::default() };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.register(&caller("acme"), &document).await.unwrap();
            });
            let mut client = Client::default();
            let mut commits = 0;
            for death in [Some(Death { at, made }), None] {
                commits = live(folder.path(), death, setup(), async |runs, _| {
                    let run_id = client.create(runs, "create", "adds").await;
                    client.end(runs, &run_id, "run.completed").await;
                });
            }
            let surfaces = stores(folder.path());
            let call = Call {
                tenant: Tenant::new("acme").unwrap(),
                surface: Surface::Kv,
                op: "get".to_owned(),
                args: serde_json::Map::from_iter([("key".to_owned(), json!("count"))]),
                effect: None,
                now: Millis(0),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let kept = runtime.block_on(surfaces.surfaces().unwrap().call(call)).unwrap();
            assert_eq!(kept["value"], 2, "died at commit {at}, which was made: {made}");
            if made && at > 12 && commits < at {
                return;
            }
        }
        assert!(at < 40, "a run of two effects has fewer commits than that");
    }
}
