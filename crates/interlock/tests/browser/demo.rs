//! The demo with a person in the browser.

use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::chromium::Chromium;
use crate::program::interlock;
use crate::server::said;

/// Finding A2: the demo ended with the approval, and the browser showed an error instead of the completed run.
#[tokio::test]
async fn a_person_approves_in_the_demo_and_explores_the_console() {
    let Some(browser) = Chromium::start().await else { return };
    let mut demo =
        interlock(&["demo"]).env_remove("INTERLOCK_API_KEY").stdout(Stdio::piped()).spawn().unwrap();
    let mut message = BufReader::new(demo.stdout.take().unwrap());
    let folder = said(&mut message, " from ");
    let link = said(&mut message, "decide here");
    browser.goto(&link).await;
    browser.see_text("Publish these notes?").await;
    // The subject of the approval.
    browser.see_text("An answer that arrives twice counts once.").await;
    browser.picture("approval").await;
    let question = browser.client.current_url().await.unwrap();
    browser.goto(question.join("/console/approvals").unwrap().as_str()).await;
    browser.see("main a[href^='/console/approvals/run_']").await;
    browser.picture("approvals").await;
    browser.click("main a[href^='/console/approvals/run_']").await;
    browser.fill("textarea[name=reason]", "Reads well").await;
    browser.click("button[value=accept]").await;
    browser.see_text("Your answer was recorded.").await;
    browser.see_text("completed").await;
    browser.picture("demo-completed").await;
    said(&mut message, "# Release 1.4.0");
    let address = said(&mut message, "Explore the console at ");
    let address = address.split(". Ctrl-C stops").next().unwrap();
    browser.goto(&format!("{address}/console/runs")).await;
    browser.see_text("release-review").await;

    // The link is used up and signs in no second browser.
    let second = reqwest::get(&link).await.unwrap();
    assert_eq!(second.status(), 401);

    assert!(Path::new(&folder).exists(), "{folder}");
    let interrupted = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert!(demo.wait().unwrap().success());
    assert!(!Path::new(&folder).exists(), "{folder} is deleted at the end");
}
