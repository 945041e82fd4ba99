//! The loop nesting and the number of branches of a function.
//!
//! Compile time is quadratic in the loop nesting: sixty thousand nested loops fit in two hundred kilobytes and take
//! minutes. Branches and calls cost many times more than arithmetic, superlinearly per function, and every local
//! variable may have to be merged where branches join. Counting them only needs the length of each instruction; the
//! validator checks whether the instructions are valid.

use crate::Fault;
use crate::scan::Reader;

/// More than any compiler emits.
const MOST_LOOPS: usize = 256;

/// The compile work of a function besides its instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Blocks, their ends and jumps. A jump table counts its targets plus one.
    pub(crate) branches: u64,
    /// Calls, and instructions that become calls: on tables and bulk memory.
    pub(crate) calls: u64,
    /// Whether a block has several parameters or results, which are merged like local variables.
    pub(crate) has_wide_blocks: bool,
}

/// The body of a function, after its local variables.
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
                    let reason = format!("it has more than {MOST_LOOPS} nested loops");
                    return Err(Fault::bad_module(reason));
                }
            }
            0x0b => loops -= usize::from(blocks.pop().unwrap_or_default()),
            _ => skip_operands(opcode, body)?,
        }
    }
    Ok(work)
}

/// Whether a block type is a type index; other block types are one byte, for at most one value.
fn skip_block_type(body: &mut Reader<'_>) -> Result<bool, Fault> {
    let first = body.byte()?;
    if first & 0x80 != 0 {
        body.skip_number()?;
    }
    Ok(first & 0xc0 != 0x40)
}

fn skip_operands(opcode: u8, body: &mut Reader<'_>) -> Result<(), Fault> {
    let numbers = match opcode {
        // `select` with types of one byte each.
        0x1c => {
            let types = body.number()?;
            return body.take(types).map(drop);
        }
        0x43 => return body.take(4).map(drop),
        0x44 => return body.take(8).map(drop),
        0x0c | 0x0d | 0x10 | 0x20..=0x26 | 0x3f..=0x42 | 0xd0 | 0xd2 => 1,
        // An indirect call; loads and stores.
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
    Fault::bad_module("it has an unsupported instruction")
}
