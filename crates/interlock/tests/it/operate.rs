//! `runs`, `approvals`, `webhooks`, `context` and `workflow register`, with a real server.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::program::{root, run_command, text};
use crate::serve::{KEY, Served};

/// A server on the data directory of a test environment.
struct Operated {
    home: TestHome,
    served: Served,
}

impl Operated {
    fn new() -> Self {
        let home = TestHome::new();
        let served = Served::on(&home.data_dir(), &root().join("examples/runs"));
        Self { home, served }
    }

    /// Runs with the key of the server.
    fn output(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = run_command(self.home.command(arguments).env("INTERLOCK_API_KEY", KEY), b"");
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn expect(&self, arguments: &[&str], code: i32) -> String {
        let (status, out, err) = self.output(arguments);
        assert_eq!(status, code, "{arguments:?}\n{out}\n{err}");
        out
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        let (status, out, err) = self.output(&[arguments, &["--json"]].concat());
        assert_eq!((status, err.as_str()), (code, ""), "{arguments:?}\n{out}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// A run of `hello` that waits for its approval.
    async fn waiting(&self) -> String {
        let id = self.served.create("hello", json!({"text": "good morning"})).await;
        assert_eq!(self.served.settled(&id).await["status"], "waiting-approval");
        id
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_listed_shown_approved_and_followed() {
    let operated = Operated::new();
    let id = operated.waiting().await;
    let short = &id[id.len() - 8..];

    let listed = operated.expect(&["runs", "list", "--status", "waiting"], 0);
    let fields: Vec<_> = listed.trim_end().split('\t').collect();
    assert_eq!(
        (fields[0], fields[1], fields[2]),
        ("waiting", "hello", id.as_str()),
        "tab-separated: {listed}"
    );
    assert_eq!(operated.expect(&["runs", "list", "status:failed"], 0), "");
    assert_eq!(operated.json(&["runs", "list", "hello"], 0)["runs"][0]["runId"], json!(id));

    let shown = operated.expect(&["runs", "show", short], 0);
    assert!(shown.contains(&format!("next: interlock approvals approve {short}")), "{shown}");
    let document = operated.json(&["runs", "show", "last"], 0);
    assert_eq!((&document["runId"], &document["outcome"]), (&json!(id), &json!("waiting")));
    assert_eq!(operated.json(&["approvals", "list"], 0)["approvals"][0]["runId"], json!(id));
    assert!(operated.expect(&["approvals", "list"], 0).ends_with(&format!("{id}\n")));
    assert!(operated.expect(&["approvals", "show", "last:hello"], 0).contains("approvals reject"));

    let approved = operated.json(&["approvals", "approve", short, "--reason", "fine"], 0);
    assert_eq!(approved["answered"][0]["status"], "completed");
    let tail = operated.expect(&["runs", "tail", short], 0);
    assert!(tail.contains("run.completed") && tail.contains("Completed"), "{tail}");
    let events = operated.expect(&["runs", "tail", short, "--json"], 0);
    let kinds: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kinds.last().unwrap()["type"], "run.completed");
    let again = operated.json(&["approvals", "approve", short], 1);
    assert_eq!(again["code"], "NOTHING_TO_ANSWER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_run_is_not_listed_as_failed() {
    let operated = Operated::new();
    let id = operated.waiting().await;
    operated.expect(&["approvals", "reject", &id, "--reason", "not today"], 0);
    assert_eq!(operated.json(&["runs", "show", &id], 0)["outcome"], "rejected");
    assert_eq!(operated.json(&["runs", "list", "--status", "failed"], 0)["runs"], json!([]));
    assert_eq!(operated.json(&["runs", "list", "--status", "rejected"], 0)["runs"][0]["runId"], json!(id));
    operated.expect(&["runs", "tail", &id], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_paused_resumed_and_cancelled() {
    let operated = Operated::new();
    let (first, second) = (operated.waiting().await, operated.waiting().await);
    operated.expect(&["runs", "pause", &first, "--reason", "maintenance"], 0);
    assert_eq!(operated.json(&["runs", "show", &first], 0)["status"], "paused");
    operated.expect(&["runs", "resume", "--filter", "status:paused", "--yes"], 0);
    assert_eq!(operated.json(&["runs", "show", &first], 0)["outcome"], "waiting");

    let refused = operated.json(&["runs", "cancel", "--filter", "workflow:hello"], 2);
    assert_eq!(refused["code"], "CONFIRMATION_REQUIRED", "there is no terminal");
    assert_eq!(operated.json(&["runs", "show", &second], 0)["outcome"], "waiting", "and nothing was done");
    let cancelled = operated.json(&["runs", "cancel", "--filter", "workflow:hello", "--yes"], 0);
    assert_eq!((cancelled["results"].as_array().unwrap().len(), &cancelled["failed"]), (2, &json!(0)));
    assert_eq!(operated.json(&["runs", "show", &second], 0)["status"], "cancelled");
    let nothing = operated.json(&["runs", "cancel", "--filter", "workflow:hello", "--yes"], 0);
    assert_eq!(nothing["results"], json!([]), "runs that have ended are not touched");
    assert_eq!(operated.json(&["runs", "pause", &second], 1)["code"], "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_forked_compared_and_exported() {
    let operated = Operated::new();
    let id = operated.waiting().await;
    operated.expect(&["runs", "answer", &id, "--approve"], 0);
    let forked = operated.json(&["runs", "fork", &id, "--from", "ask"], 0);
    let fork = forked["runId"].as_str().unwrap();
    operated.served.settled(fork).await;
    operated.expect(&["runs", "answer", fork, "--approve", "--node", "ask"], 0);
    assert_eq!(
        operated.json(&["runs", "diff", &id, fork], 0)["equal"],
        json!(true),
        "only ids and times differ"
    );
    assert_eq!(operated.json(&["runs", "diff", &id, fork, "--generated"], 1)["equal"], json!(false));
    assert_eq!(operated.json(&["runs", "fork", &id, "--from", "nowhere"], 1)["code"], "NODE_UNKNOWN");
    assert_eq!(operated.json(&["runs", "fork", &id], 2)["code"], "INPUT_UNREADABLE");

    let file = operated.home.path("run.json");
    let path = file.to_str().unwrap();
    operated.expect(&["runs", "export", &id, "-o", path], 0);
    let bundle: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(bundle.to_string().contains(&id));
    assert_eq!(operated.json(&["runs", "export", &id, "-o", path], 1)["code"], "OUTPUT_EXISTS");
    let lines = operated.expect(&["runs", "export", &id, "--format", "jsonl"], 0);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["runId"] == json!(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_name_the_fix() {
    let operated = Operated::new();
    let id = operated.waiting().await;
    for (arguments, code, expected, help) in [
        (&["runs", "show", "abc"][..], 1, "RUN_UNKNOWN", "at least 6 characters"),
        (&["runs", "show", "ffffffffff"], 1, "RUN_UNKNOWN", "interlock runs list"),
        (&["runs", "show", "last:nothing"], 1, "RUN_UNKNOWN", "interlock runs list"),
        (
            &["runs", "show", "run_00000000000000000000000000000000"],
            1,
            "run_not_found",
            "interlock runs list",
        ),
        (&["runs", "list", "stauts:failed"], 2, "FILTER_INVALID", "`status`"),
        (&["runs", "list", "--context", "prod"], 2, "CONTEXT_UNKNOWN", "context add prod"),
        (&["runs", "show", &id, "--node", "aks"], 1, "NODE_UNKNOWN", "`ask`"),
        (&["runs", "answer", &id, "--field", "x"], 2, "INPUT_UNREADABLE", "--field"),
        (&["workflow", "show", "helo"], 1, "workflow_not_found", "workflow list"),
        (&["webhooks", "delete", "wh_x"], 2, "CONFIRMATION_REQUIRED", "--yes"),
        (
            &["webhooks", "new", "ftp://x", "--event", "run.completed"],
            1,
            "webhook_url_rejected",
            "docs/errors",
        ),
    ] {
        let refused = operated.json(arguments, code);
        assert_eq!(refused["code"], expected, "{arguments:?}");
        assert!(refused["suggestion"].as_str().unwrap().contains(help), "{arguments:?}: {refused}");
    }
}

#[test]
fn without_a_server_the_command_says_how_to_start_one() {
    let home = TestHome::new();
    for arguments in [&["runs", "list"][..], &["approvals", "list"], &["webhooks", "list"]] {
        let refused = home.json(arguments, 2);
        assert_eq!(refused["code"], "SERVER_REQUIRED");
        assert!(refused["suggestion"].as_str().unwrap().contains("interlock serve"));
    }
    assert!(!home.data_dir().exists(), "nothing was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_another_server_with_its_key() {
    let operated = Operated::new();
    let id = operated.waiting().await;
    let url = operated.served.url.clone();
    // Another user, with another data directory.
    let other = TestHome::new();
    let add = |input: &[u8], arguments: &[&str]| {
        let output = run_command(&mut other.command(arguments), input);
        (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = add(b"wrong-key-0123456789", &["context", "add", "prod", &url, "--key-stdin"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("unauthenticated") && !said.contains("wrong-key"), "{said}");
    let (code, said) = add(KEY.as_bytes(), &["context", "add", "prod", &url, "--key-stdin"]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains(KEY), "{said}");
    for file in ["home/.config/interlock/contexts.toml", "home/.config/interlock/context-keys/prod"] {
        let mode = std::fs::metadata(other.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let saved = std::fs::read_to_string(other.path("home/.config/interlock/contexts.toml")).unwrap();
    assert!(!saved.contains(KEY), "{saved}");

    assert_eq!(other.json(&["runs", "list"], 2)["code"], "SERVER_REQUIRED", "it is not selected yet");
    assert_eq!(other.json(&["runs", "list", "--context", "prod"], 0)["runs"][0]["runId"], json!(id));
    other.expect(&["context", "use", "prod"], 0);
    assert_eq!(other.json(&["runs", "show", "last"], 0)["runId"], json!(id));
    assert_eq!(other.json(&["runs", "list", "--context", "local"], 2)["code"], "SERVER_REQUIRED");
    for arguments in [&["context", "list"][..], &["context", "show", "prod"]] {
        let shown = other.expect(arguments, 0) + &other.json(arguments, 0).to_string();
        assert!(shown.contains(&url) && !shown.contains(KEY), "{shown}");
    }
    other.expect(&["context", "delete", "prod"], 0);
    assert!(!other.path("home/.config/interlock/context-keys/prod").exists());
    assert_eq!(other.json(&["context", "list"], 0)["current"], "local");
    let refused = other.json(&["context", "add", "x", "http://interlock.example"], 2);
    assert!(refused["message"].as_str().unwrap().contains("https://"));
    let refused = other.json(&["context", "add", "x", &url, "--key", KEY], 2);
    assert!(!refused.to_string().contains(KEY), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_of_both_kinds_are_registered_listed_and_shown() {
    let operated = Operated::new();
    let hello = std::fs::read_to_string(root().join("examples/runs/hello.json")).unwrap();
    let mut document: Value = serde_json::from_str(&hello).unwrap();
    document["id"] = json!("greeting");
    let file = operated.home.path("greeting.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let guided = operated.home.workspace().join("workflows/tiny.json");
    let files = [file.to_str().unwrap(), guided.to_str().unwrap()];
    let registered = operated.json(&[&["workflows", "register"], &files[..]].concat(), 0);
    let kinds: Vec<_> = registered["registered"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, [&json!("run"), &json!("guided")]);
    assert!(operated.home.path("home/.config/interlock/workflows/project.tiny.json").is_file());
    assert_eq!(
        operated.json(&["workflow", "register", files[1]], 0)["registered"][0]["kind"],
        "guided",
        "twice"
    );

    let listed = operated.expect(&["workflows", "list", "--kind", "run"], 0);
    assert!(listed.lines().any(|line| line.starts_with("greeting\t")), "{listed}");
    let both = operated.json(&["workflow", "list"], 0);
    assert!(both["runWorkflows"].to_string().contains("greeting"));
    assert!(both["entries"].to_string().contains("project.tiny"), "{both}");
    assert_eq!(operated.json(&["workflow", "show", "greeting"], 0)["id"], "greeting");
    operated.expect(&["workflow", "show", "project.tiny"], 0);
    std::fs::write(&file, "{\"nodes\": 1}").unwrap();
    let refused = operated.json(&["workflow", "register", files[0]], 1);
    assert!(refused["suggestion"].as_str().unwrap().contains("workflow validate"), "{refused}");
}

#[test]
fn shells_are_completed_and_manual_pages_written() {
    let home = TestHome::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(home.expect(&["completions", shell], 0).contains("interlock"), "{shell}");
    }
    // What the script of bash asks: the candidates for the third word.
    let complete = |words: &[&str]| {
        let index = words.len() - 1;
        let mut command = home.command(&[&["--"], words].concat());
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index.to_string());
        command
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .env("_CLAP_COMPLETE_SPACE", "true")
            .env("_CLAP_IFS", "\n");
        let output = run_command(&mut command, b"");
        assert_eq!(text(&output.stderr), "", "completion is silent");
        text(&output.stdout)
    };
    assert!(complete(&["interlock", "runs", "ca"]).contains("cancel"));
    assert!(complete(&["interlock", "runs", "list", "--status", "fa"]).contains("failed"));
    assert!(complete(&["interlock", "runs", "list", "--context", ""]).contains("local"));
    assert_eq!(complete(&["interlock", "runs", "show", "abc"]).trim(), "", "no server, no runs, no error");

    let pages = home.path("man");
    home.expect(&["man", pages.to_str().unwrap()], 0);
    for page in ["interlock.1", "interlock-runs-list.1", "interlock-context-add.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
}
