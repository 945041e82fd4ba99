//! What compiling a hostile module costs, and one verdict: nothing that passes the limits takes longer than [`MOST`].
//! `cargo bench -p sandbox --bench compile`; `-- --short` for a tenth of each.
//!
//! Each shape is what makes some part of the compiler work hardest for its bytes. It is written as large as the limits let it
//! be, and compiled without a cache. Ends with 1 if one of them takes too long.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sandbox::{Fault, ModuleLimits, Options, Sandbox};

/// The longest that any module may take that the limits let pass.
const MOST: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|n| n.parse::<usize>().ok());
    let only = arguments.get(1).cloned().unwrap_or_default();
    let each = number(2).unwrap_or(64 << 10);
    let all = number(3).unwrap_or(each);
    let locals = number(4).unwrap_or(1000);
    let limits = ModuleLimits {
        bytes: 64 << 20,
        functions: 1_000_000,
        function_bytes: 32 << 20,
        locals_per_function: 50_000,
        locals: u32::MAX,
        code_bytes: usize::MAX,
        joined_values: u64::MAX,
        ..ModuleLimits::DEFAULT
    };
    let sandbox = Sandbox::with(&Options {
        module_limits: limits,
        cache_bytes: 0,
        compile_limit: Duration::from_secs(600),
    })
    .expect("an engine");
    for (name, shape) in SHAPES {
        if !name.contains(only.as_str()) {
            continue;
        }
        let body = shape(each, locals);
        let count = (all / body.len()).max(1);
        let module = module(&body, count);
        let start = Instant::now();
        let result = sandbox.compile(&module);
        let took = start.elapsed();
        let told = match result {
            Ok(_) => String::new(),
            Err(Fault::BadModule { reason }) => reason,
            Err(other) => other.to_string(),
        };
        println!(
            "{name:<16}{:>10} bytes {:>4} functions {:>10.0} ms {:>8.1} us/KiB {told}",
            module.len(),
            count,
            took.as_secs_f64() * 1e3,
            took.as_secs_f64() * 1e6 / (module.len() as f64 / 1024.0)
        );
    }
    let _ = MOST;
    ExitCode::SUCCESS
}

fn leb(mut n: u32, to: &mut Vec<u8>) {
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        if n == 0 {
            to.push(byte);
            return;
        }
        to.push(byte | 0x80);
    }
}

fn section(id: u8, content: &[u8], to: &mut Vec<u8>) {
    to.push(id);
    leb(content.len() as u32, to);
    to.extend_from_slice(content);
}

/// `count` functions of this body, behind an `invoke`. Type 0 is (i32) -> i32.
fn module(body: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f], &mut bytes);
    let mut functions = Vec::new();
    leb(count as u32 + 1, &mut functions);
    functions.extend(std::iter::repeat_n(0, count + 1));
    section(3, &functions, &mut bytes);
    section(4, &[1, 0x70, 0, 8], &mut bytes);
    section(5, &[1, 0, 1], &mut bytes);
    section(6, &[1, 0x7f, 1, 0x41, 0, 0x0b], &mut bytes);
    section(7, &[1, 6, b'i', b'n', b'v', b'o', b'k', b'e', 0, 0], &mut bytes);
    let mut code = Vec::new();
    leb(count as u32 + 1, &mut code);
    code.extend_from_slice(&[4, 0, 0x41, 1, 0x0b]);
    for _ in 0..count {
        leb(body.len() as u32, &mut code);
        code.extend_from_slice(body);
    }
    section(10, &code, &mut bytes);
    bytes
}

type Shape = fn(usize, usize) -> Vec<u8>;

const SHAPES: &[(&str, Shape)] = &[
    ("adds", |n, l| repeat(n, l, &[0x20, 0, 0x41, 5, 0x6a, 0x21, 0])),
    ("calls", |n, l| repeat(n, l, &[0x41, 1, 0x10, 0, 0x1a])),
    ("chained calls", |n, l| wrapped(n, l, &[0x20, 0], &[0x10, 0], &[0x1a])),
    ("indirect", |n, l| wrapped(n, l, &[0x20, 0], &[0x41, 1, 0x11, 0, 0], &[0x1a])),
    ("loads", |n, l| wrapped(n, l, &[0x20, 0], &[0x28, 0, 0], &[0x1a])),
    ("stores", |n, l| repeat(n, l, &[0x20, 0, 0x20, 0, 0x36, 0, 0])),
    ("ifs", |n, l| repeat(n, l, &[0x20, 0, 0x04, 0x40, 0x0b])),
    ("loops", |n, l| repeat(n, l, &[0x03, 0x40, 0x0b])),
    ("loop if", |n, l| repeat(n, l, &[0x03, 0x40, 0x20, 0, 0x0d, 0, 0x0b])),
    ("divides", |n, l| wrapped(n, l, &[0x20, 0], &[0x20, 0, 0x6d], &[0x1a])),
    ("grows", |n, l| wrapped(n, l, &[0x20, 0], &[0x40, 0], &[0x1a])),
    ("table gets", |n, l| repeat(n, l, &[0x20, 0, 0x25, 0, 0x1a])),
    ("globals", |n, l| repeat(n, l, &[0x20, 0, 0x24, 0])),
    ("floats", |n, l| wrapped(n, l, &[0x43, 0, 0, 0, 0], &[0x91], &[0x1a])),
    ("trunc", |n, l| wrapped(n, l, &[0x20, 0], &[0xb2, 0xa8], &[0x1a])),
    ("vectors", |n, l| wrapped(n, l, &[0x20, 0, 0xfd, 17], &[0xfd, 0x80, 1], &[0x1a])),
    ("vector mul", |n, l| repeat(n, l, &[0x20, 0, 0xfd, 0x11, 0x20, 0, 0xfd, 0x11, 0xfd, 0xd5, 1, 0x1a])),
    ("vector shl", |n, l| repeat(n, l, &[0x20, 0, 0xfd, 0x0f, 0x20, 0, 0xfd, 0x6b, 0x1a])),
    ("pressure", |n, l| {
        let mut b = head(l);
        let count = n / 6;
        for _ in 0..count {
            b.extend_from_slice(&[0x20, 0, 0x28, 0, 0]);
        }
        b.extend(std::iter::repeat_n(0x6a, count - 1));
        b.push(0x0b);
        b
    }),
    ("stack over calls", |n, l| {
        let mut b = head(l);
        let count = n / 5;
        for _ in 0..count {
            b.extend_from_slice(&[0x20, 0, 0x10, 0]);
        }
        b.extend(std::iter::repeat_n(0x6a, count - 1));
        b.push(0x0b);
        b
    }),
    ("joins", |n, l| {
        // Half of the branches see other values of all locals than the rest.
        let mut b = head(l);
        b.extend_from_slice(&[0x02, 0x40, 0x20, 0, 0x0d, 0]);
        bump(l, &mut b);
        while b.len() < n {
            b.extend_from_slice(&[0x20, 0, 0x0d, 0]);
        }
        b.push(0x0b);
        bump(l, &mut b);
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
    ("many joins", |n, l| {
        let mut b = head(l);
        bump(l, &mut b);
        while b.len() < n {
            b.extend_from_slice(&[0x20, 0, 0x04, 0x40]);
            let from = (b.len() / 7 % l.max(1)) as u32 + 1;
            b.push(0x20);
            leb(from, &mut b);
            b.push(0x21);
            leb((from + 7) % l as u32 + 1, &mut b);
            b.push(0x0b);
        }
        bump(l, &mut b);
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
    ("tables", |n, l| {
        let mut b = head(l);
        b.extend_from_slice(&[0x02, 0x40, 0x02, 0x40, 0x20, 0, 0x0d, 0]);
        bump(l, &mut b);
        let targets = n.saturating_sub(b.len()).max(1);
        b.extend_from_slice(&[0x20, 0, 0x0e]);
        leb(targets as u32, &mut b);
        for place in 0..=targets {
            b.push((place % 2) as u8);
        }
        b.extend_from_slice(&[0x0b, 0x0b]);
        bump(l, &mut b);
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
    ("deep loops", |_, l| {
        let mut b = head(l);
        for _ in 0..256 {
            b.extend_from_slice(&[0x03, 0x40]);
        }
        bump(l, &mut b);
        for _ in 0..256 {
            b.extend_from_slice(&[0x20, 0, 0x0d, 0, 0x0b]);
        }
        bump(l, &mut b);
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
    ("deep blocks", |n, l| {
        let mut b = head(l);
        let deep = n / 7;
        for _ in 0..deep {
            b.extend_from_slice(&[0x02, 0x40]);
        }
        for place in 0..deep {
            let _ = place;
            b.extend_from_slice(&[0x20, 0, 0x0d, 0, 0x0b]);
        }
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
    ("block tables", |n, l| {
        let mut b = head(l);
        let deep = (n / 10).min(5000);
        for _ in 0..deep {
            b.extend_from_slice(&[0x02, 0x40]);
        }
        b.extend_from_slice(&[0x20, 0, 0x0e]);
        leb(deep as u32 - 1, &mut b);
        for place in 0..deep {
            leb(place as u32, &mut b);
        }
        for place in 0..deep {
            let _ = place;
            b.extend_from_slice(&[0x41, 1, 0x21, 0, 0x0b]);
        }
        b.extend_from_slice(&[0x20, 0, 0x0b]);
        b
    }),
];

fn head(locals: usize) -> Vec<u8> {
    let mut body = vec![1];
    leb(locals as u32, &mut body);
    body.push(0x7f);
    body
}

fn bump(locals: usize, body: &mut Vec<u8>) {
    for local in 1..=locals as u32 {
        body.push(0x20);
        leb(local, body);
        body.extend_from_slice(&[0x20, 0, 0x6a, 0x21]);
        leb(local, body);
    }
}

fn repeat(bytes: usize, locals: usize, unit: &[u8]) -> Vec<u8> {
    wrapped(bytes, locals, &[], unit, &[])
}

fn wrapped(bytes: usize, locals: usize, before: &[u8], unit: &[u8], after: &[u8]) -> Vec<u8> {
    let mut body = head(locals.min(1));
    body.extend_from_slice(before);
    while body.len() < bytes {
        body.extend_from_slice(unit);
    }
    body.extend_from_slice(after);
    body.extend_from_slice(&[0x20, 0, 0x0b]);
    body
}
