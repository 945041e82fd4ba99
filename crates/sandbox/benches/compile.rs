//! What compiling a hostile module costs, and one verdict: none that the limits let pass takes longer than a minute.
//! `cargo bench -p sandbox --bench compile`; `-- --short` for a quarter of each that is made of many functions.
//!
//! Each shape makes one part of the compiler work hardest for what it is counted as, and is as large as the limits let it be. They differ
//! in what they use up: code, branches and calls, or values that are brought to where branches meet. Ends with 1 if one of them takes
//! longer, or is refused: then the limits are others than these shapes were made for.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sandbox::{ModuleLimits, Options, Sandbox};

const MOST: Duration = Duration::from_secs(60);

/// A function, and how many of them a module has.
struct Shape {
    name: &'static str,
    body: Vec<u8>,
    functions: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` only checks that it builds.
    if arguments.iter().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let options = Options { cache_bytes: 0, compile_limit: 10 * MOST, ..Options::default() };
    let sandbox = Sandbox::with(&options).expect("an engine");
    let mut broken = false;
    println!("{:<20}{:>12}{:>12}{:>12}", "shape", "functions", "bytes", "compile");
    for Shape { name, body, functions } in shapes() {
        let functions = if is_short { functions.div_ceil(4) } else { functions };
        let module = module(&body, functions);
        let started = Instant::now();
        let compiled = sandbox.compile(&module);
        let took = started.elapsed();
        println!("{name:<20}{functions:>12}{:>12}{:>9} ms", module.len(), took.as_millis());
        if let Err(fault) = compiled {
            println!("  {fault}");
            broken = true;
        }
        broken |= took > MOST;
    }
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn shapes() -> Vec<Shape> {
    let limits = ModuleLimits::DEFAULT;
    // The end of a function is a branch too, and `invoke` has one.
    let pieces = limits.pieces_per_function as usize - 1;
    let functions = (limits.pieces as usize - 1) / (pieces + 1);
    let large = limits.function_bytes - 100;
    let bodies = (limits.code_bytes - 100) / limits.function_bytes;
    // The block, its end and that of the function are branches beside the jumps, and the parameter is a variable beside the locals.
    let locals = 48;
    let jumps = 9_990;
    vec![
        // Square roots, whose every result might be a NaN that must be canonicalized.
        Shape {
            name: "arithmetic",
            body: body(0, &[0x43, 0, 0, 0, 0], &[0x91], large, &[0x1a, 0x20, 0]),
            functions: bodies,
        },
        // The result of each call is kept over all that follow.
        Shape {
            name: "calls",
            body: body(0, &[], &[0x20, 0, 0x10, 0], pieces, &[0x6a].repeat(pieces - 1)),
            functions,
        },
        Shape { name: "grown memory", body: body(0, &[0x20, 0], &[0x40, 0], pieces, &[]), functions },
        Shape {
            name: "loops",
            body: body(0, &[], &[0x03, 0x40, 0x20, 0, 0x0d, 0, 0x0b], pieces / 3, &[0x20, 0]),
            functions,
        },
        Shape {
            name: "joined branches",
            body: joined(locals, &[0x20, 0, 0x0d, 0].repeat(jumps)),
            functions: 1,
        },
        Shape { name: "tables of jumps", body: joined(locals, &table(jumps)), functions: 1 },
    ]
}

/// A function of so many local variables: something, then one thing again and again, then something.
fn body(locals: usize, before: &[u8], again: &[u8], times: usize, after: &[u8]) -> Vec<u8> {
    let mut body = vec![1];
    number(locals, &mut body);
    body.push(0x7f);
    body.extend_from_slice(before);
    body.extend_from_slice(&again.repeat(times));
    body.extend_from_slice(after);
    body.push(0x0b);
    body
}

/// A function whose jumps meet where every local variable is another one by the way that was taken.
fn joined(locals: usize, jumps: &[u8]) -> Vec<u8> {
    let mut changed = Vec::new();
    for local in 1..=locals {
        changed.push(0x20);
        number(local, &mut changed);
        changed.extend_from_slice(&[0x20, 0, 0x6a, 0x21]);
        number(local, &mut changed);
    }
    let mut inner = vec![0x02, 0x40, 0x20, 0, 0x0d, 0];
    inner.extend_from_slice(&changed);
    inner.extend_from_slice(jumps);
    inner.push(0x0b);
    inner.extend_from_slice(&changed);
    body(locals, &inner, &[], 0, &[0x20, 0])
}

fn table(targets: usize) -> Vec<u8> {
    let mut table = vec![0x20, 0, 0x0e];
    number(targets - 1, &mut table);
    table.resize(table.len() + targets, 0);
    table
}

/// So many functions of this body, behind an `invoke`. All take a number and give one.
fn module(body: &[u8], functions: usize) -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f], &mut bytes);
    let mut types = Vec::new();
    number(functions + 1, &mut types);
    types.resize(types.len() + functions + 1, 0);
    section(3, &types, &mut bytes);
    section(5, &[1, 0, 1], &mut bytes);
    section(7, b"\x01\x06invoke\0\0", &mut bytes);
    let mut code = Vec::new();
    number(functions + 1, &mut code);
    code.extend_from_slice(&[4, 0, 0x41, 1, 0x0b]);
    for _ in 0..functions {
        number(body.len(), &mut code);
        code.extend_from_slice(body);
    }
    section(10, &code, &mut bytes);
    bytes
}

fn section(id: u8, content: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(id);
    number(content.len(), bytes);
    bytes.extend_from_slice(content);
}

/// An unsigned LEB128 number.
fn number(mut number: usize, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}
