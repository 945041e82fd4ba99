//! How deep the loops of a function stand in each other, and into how many pieces it falls.
//!
//! The compiler takes time that grows with the square of the first: sixty thousand loops in each other are less than two hundred
//! kilobytes, and minutes of compiling. Every branch and every call begins a piece, which costs many times what arithmetic does, and the more
//! the more there are in one function. And wherever branches meet, every local variable of the function may have to be brought from each
//! of them. Knowing both needs the length of every instruction, and nothing else
//! about it; whether the instructions make sense is for the validator.

use crate::Fault;
use crate::scan::Reader;

/// Nobody writes that many, and no compiler makes them.
const MOST_LOOPS: usize = 256;

/// What the compiler has to do with a function beside its instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Blocks, their ends, and jumps. A table of jumps has as many as it has targets, and one more.
    pub(crate) branches: u64,
    /// Calls, and instructions that become calls: of tables, and of memory as a whole.
    pub(crate) calls: u64,
    /// Whether a block takes or gives several values, which are brought like local variables.
    pub(crate) has_wide_blocks: bool,
}

/// The body of a function, behind its local variables.
pub(crate) fn check(body: &mut Reader<'_>) -> Result<Work, Fault> {
    // For every open block, whether it is a loop.
    let mut blocks: Vec<bool> = Vec::new();
    let mut loops = 0;
    let mut work = Work::default();
    while !body.is_empty() {
        let opcode = body.byte()?;
        work.branches += u64::from(matches!(opcode, 0x02..=0x05 | 0x0b..=0x0d | 0x0f));
        work.calls += u64::from(matches!(opcode, 0x10 | 0x11 | 0x25 | 0x26 | 0x40 | 0xd2 | 0xfc));
        match opcode {
            0x0e => {
                let targets = body.number()?.saturating_add(1);
                work.branches = work.branches.saturating_add(targets.into());
                (0..targets).try_for_each(|_| body.skip_number())?;
            }
            0x02..=0x04 => {
                work.has_wide_blocks |= skip_block_type(body)?;
                let is_loop = opcode == 0x03;
                blocks.push(is_loop);
                loops += usize::from(is_loop);
                if loops > MOST_LOOPS {
                    let reason =
                        format!("it has loops in loops, and at most {MOST_LOOPS} of them are allowed");
                    return Err(Fault::bad_module(reason));
                }
            }
            0x0b => loops -= usize::from(blocks.pop().unwrap_or_default()),
            _ => skip_operands(opcode, body)?,
        }
    }
    Ok(work)
}

/// Whether the type of a block is one of the types of the module; others are one byte, for one value at most.
fn skip_block_type(body: &mut Reader<'_>) -> Result<bool, Fault> {
    let first = body.byte()?;
    if first & 0x80 != 0 {
        body.skip_number()?;
    }
    Ok(first & 0xc0 != 0x40)
}

fn skip_operands(opcode: u8, body: &mut Reader<'_>) -> Result<(), Fault> {
    let numbers = match opcode {
        // `select` with types, which are one byte each.
        0x1c => {
            let types = body.number()?;
            return body.take(types).map(drop);
        }
        0x43 => return body.take(4).map(drop),
        0x44 => return body.take(8).map(drop),
        0x0c | 0x0d | 0x10 | 0x20..=0x26 | 0x3f..=0x42 | 0xd0 | 0xd2 => 1,
        // A call through a table; loads and stores.
        0x11 | 0x28..=0x3e => 2,
        0xfc => match body.number()? {
            0..=7 => 0,
            9 | 11 | 13 | 15..=17 => 1,
            8 | 10 | 12 | 14 => 2,
            _ => return Err(unknown()),
        },
        0xfd => return skip_vector(body),
        0x00 | 0x01 | 0x05 | 0x0f | 0x1a | 0x1b | 0x45..=0xc4 | 0xd1 => 0,
        _ => return Err(unknown()),
    };
    (0..numbers).try_for_each(|_| body.skip_number())
}

fn skip_vector(body: &mut Reader<'_>) -> Result<(), Fault> {
    let (numbers, bytes) = match body.number()? {
        0..=11 | 92 | 93 => (2, 0),
        12 | 13 => (0, 16),
        21..=34 => (0, 1),
        84..=91 => (2, 1),
        14..=20 | 35..=83 | 94..=255 => (0, 0),
        _ => return Err(unknown()),
    };
    (0..numbers).try_for_each(|_| body.skip_number())?;
    body.take(bytes).map(drop)
}

fn unknown() -> Fault {
    Fault::bad_module("it has an instruction that modules may not have")
}
