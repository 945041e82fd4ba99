//! The examples in the help texts work.

use std::path::Path;
use std::process::Command;

use super::site::Site;
use crate::program::{run, text};

/// In the order of a complete example.
const COMMANDS: [&str; 7] = ["plan", "apply", "drift", "snapshot", "restore", "env", "release"];

/// The commands below `Examples:`, with continued lines joined.
fn examples(help: &str) -> Vec<String> {
    let (_, below) = help.split_once("Examples:\n").expect("there are examples");
    let lines = below.lines().take_while(|line| line.is_empty() || line.starts_with("  "));
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in lines.filter(|line| line.starts_with("    ")) {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        if continues {
            commands.last_mut().expect("something went before").push_str(part);
        } else {
            commands.push(part.trim_start().to_owned());
        }
        continues = more;
    }
    commands
}

#[test]
fn the_examples_in_the_help_work() {
    let site = Site::new();
    let programs = Path::new(env!("CARGO_BIN_EXE_interlock")).parent().unwrap();
    let search = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut tried = 0;
    for command in COMMANDS {
        let help = text(&run(&["help", "workspace", command], b"").stdout);
        for example in examples(&help) {
            // Not available on every machine.
            if example.contains("| jq") || example.contains("zstd") {
                continue;
            }
            let example = example.replace("/tmp/", &format!("{}/", site.path("").display()));
            let output = Command::new("sh")
                .args(["-c", &example])
                .current_dir(site.examples())
                .env("PATH", &search)
                .output()
                .unwrap();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{example}\n{out}\n{err}");
            tried += 1;
        }
    }
    assert!(tried >= 12, "only {tried} examples were found");
}
