//! Runs the real binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary without colours and settings of the environment.
pub(crate) fn interlock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("CLICOLOR");
    command
}

pub(crate) fn run(arguments: &[&str], input: &[u8]) -> Output {
    run_command(&mut interlock(arguments), input)
}

/// Runs a prepared command on `input` and waits for its end.
pub(crate) fn run_command(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built with the tests");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // From a separate thread, to avoid a deadlock between large input and output.
    let feeding = std::thread::spawn(move || {
        // The program may stop reading early.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the program ends");
    feeding.join().expect("writing does not panic");
    output
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two folders deep")
        .to_owned()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}
