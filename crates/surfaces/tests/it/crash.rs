//! Kill -9 during effects: acknowledged effects persist, and every effect is applied once.
//!
//! The test starts itself as a child process, which applies effects and reports each acknowledged one. The child is
//! killed, the stores are reopened, and every effect that may have been in progress is repeated under its effect id, as
//! a host does.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use surfaces::{Options, Surfaces};

use crate::helper::{NOW, call};

const CHILD: &str = "SURFACES_CRASH_DIRECTORY";
const WORKERS: usize = 4;

/// One effect of a worker on every surface, with effect ids derived from its number.
async fn effects(surfaces: &Surfaces, worker: usize, number: u64) -> Vec<Value> {
    let (tenant, path) = (format!("w{worker}"), format!("f/{number}"));
    let row = json!({"table": "t", "row": {"id": number.to_string()}});
    let content = if number.is_multiple_of(2) { "YQ==" } else { "Yg==" };
    let steps = [
        ("kv.atomicIncrement", json!({"key": "n"})),
        ("queueBus.publish", json!({"subject": "s", "payload": number})),
        ("queueBus.streamPublish", json!({"stream": "s", "record": number})),
        ("table.insert", row),
        ("blob.put", json!({"key": "k", "contentBase64": content})),
        ("fs.write", json!({"path": path, "contentBase64": content, "createOnly": true})),
        ("fs.delete", json!({"path": path})),
        ("cache.put", json!({"key": "k", "value": number})),
    ];
    let mut result = Vec::new();
    for (op, args) in steps {
        let identity = format!("{op}/{number}");
        result.push(surfaces.call(call(&tenant, op, args, NOW, Some(&identity))).await.unwrap());
    }
    result
}

fn open(directory: &Path) -> Surfaces {
    Surfaces::open(&Options::new(directory)).unwrap()
}

/// Runs until killed.
#[expect(clippy::print_stdout, reason = "the parent reads the acknowledgements")]
async fn run_child(directory: &Path) {
    let surfaces = std::sync::Arc::new(open(directory));
    let workers = (0..WORKERS).map(|worker| {
        let surfaces = std::sync::Arc::clone(&surfaces);
        tokio::spawn(async move {
            let tenant = format!("w{worker}");
            let made = surfaces.call(call(&tenant, "kv.get", json!({"key": "n"}), NOW, None)).await.unwrap();
            for number in made["value"].as_u64().unwrap_or(0).. {
                effects(&surfaces, worker, number).await;
                println!("answered {worker} {number}");
            }
        })
    });
    futures_util::future::join_all(workers).await;
}

/// Runs the child until it has acknowledged that many effects, then kills it. Returns the last acknowledged number of
/// each worker.
fn kill_after(directory: &Path, answers: usize) -> [Option<u64>; WORKERS] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::effects_are_applied_once_across_kills", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answered = [None; WORKERS];
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The rest of its output is read after its end: acknowledged is acknowledged.
    let mut count = 0;
    for line in lines {
        let line = line.unwrap();
        let mut words = line.split("answered ").nth(1).unwrap_or_default().split(' ');
        if let (Some(Ok(worker)), Some(Ok(number))) =
            (words.next().map(str::parse::<usize>), words.next().map(str::parse::<u64>))
        {
            answered[worker] = Some(number);
            count += 1;
            if count == answers {
                child.kill().unwrap();
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(count >= answers && !status.success(), "it was killed: {status}");
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_are_applied_once_across_kills() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return run_child(Path::new(&directory)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("surfaces");
    for answers in [1, 7, 20, 33] {
        let last = kill_after(&directory, answers);
        let surfaces = open(&directory);
        for (worker, last) in last.into_iter().enumerate() {
            let tenant = format!("w{worker}");
            let get = |op: &str, args: Value| surfaces.call(call(&tenant, op, args, NOW, None));
            let made = get("kv.get", json!({"key": "n"})).await.unwrap()["value"].as_u64().unwrap_or(0);
            assert!(
                last.is_none_or(|last| made > last),
                "{tenant}: {last:?} was acknowledged, but {made} exist"
            );
            // All effects in progress and some acknowledged ones are repeated, twice.
            let first = made.saturating_sub(3);
            for number in (first..made).chain(first..made) {
                let result = effects(&surfaces, worker, number).await;
                assert_eq!(result[0], json!({"value": number + 1}), "{tenant} {number}");
                assert_eq!(
                    result[5],
                    json!({"ok": true, "path": format!("f/{number}")}),
                    "{tenant} {number}"
                );
                assert_eq!(result[6], json!({"deleted": true}), "{tenant} {number}");
            }
            let count = get("table.count", json!({"table": "t"}))
                .await
                .map_or(0, |result| result["count"].as_u64().unwrap());
            assert_eq!(count, made, "{tenant}: rows");
            let listed = get("fs.list", json!({"path": "f"})).await;
            assert!(listed.is_err() || listed.unwrap()["entries"] == json!([]), "{tenant}: files");
            let mut records = Vec::new();
            let mut page =
                get("queueBus.streamSubscribe", json!({"stream": "s", "fromBeginning": true})).await.unwrap();
            loop {
                records.extend(
                    page["records"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|record| record["payload"].as_u64().unwrap()),
                );
                if page["more"] == false {
                    break;
                }
                page = get("queueBus.streamSubscribe", json!({"stream": "s", "cursor": page["nextCursor"]}))
                    .await
                    .unwrap();
            }
            assert_eq!(records, (0..made).collect::<Vec<_>>(), "{tenant}: records");
        }
    }
    // The messages of all child processes, each once, in order.
    let surfaces = open(&directory);
    for worker in 0..WORKERS {
        let tenant = format!("w{worker}");
        let get = |op: &str, args: Value| surfaces.call(call(&tenant, op, args, NOW, None));
        let made = get("kv.get", json!({"key": "n"})).await.unwrap()["value"].as_u64().unwrap_or(0);
        let mut messages = Vec::new();
        while let Some(payload) =
            get("queueBus.consume", json!({"subject": "s"})).await.unwrap()["payload"].as_u64()
        {
            messages.push(payload);
        }
        assert_eq!(messages, (0..made).collect::<Vec<_>>(), "{tenant}: messages");
    }
    let staged: Vec<_> = ["files/.staging", "blobs/.staging"]
        .into_iter()
        .flat_map(|name| std::fs::read_dir(directory.join(name)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(staged, Vec::<std::path::PathBuf>::new(), "nothing is left unfinished");
}
