//! The demo, with a person in it.

use std::io::BufReader;
use std::process::Stdio;

use crate::chromium::Chromium;
use crate::program::interlock;
use crate::server::{said, sign_in};

#[tokio::test]
async fn a_person_approves_the_notes_that_an_agent_wrote() {
    let Some(browser) = Chromium::start().await else { return };
    let mut demo =
        interlock(&["demo"]).env_remove("INTERLOCK_API_KEY").stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(demo.stdout.take().unwrap());
    let inbox = said(&mut told, "decide here");
    let key = said(&mut told, "sign in with");
    sign_in(&browser, &inbox, &key).await;
    browser.picture("approvals").await;
    browser.click("main a[href^='/approvals/run_']").await;
    browser.see_text("Publish these notes?").await;
    // What exactly is being approved.
    browser.see_text("An answer that arrives twice counts once.").await;
    browser.picture("approval").await;
    browser.fill("textarea[name=reason]", "Reads well").await;
    browser.click("button[value=accept]").await;
    said(&mut told, "# Release 1.4.0");
    assert!(demo.wait().unwrap().success());
}
