//! Counts the parts of a module before compilation.
//!
//! The engine's validator accepts small modules that take minutes to compile: twenty thousand functions with fifty
//! thousand local variables each are a few hundred kilobytes. The sections are therefore scanned once and the counts
//! checked. Inconsistencies are left to the validator or rejected.

use crate::nesting::{self, Work};
use crate::{Fault, ModuleLimits};

/// `\0asm` and version 1 of core modules. Components have another version.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";

/// Checked before the bytes are read.
pub(crate) fn size(bytes: &[u8], limits: &ModuleLimits) -> Result<(), Fault> {
    if bytes.len() > limits.bytes {
        return Err(too_many("bytes", bytes.len() as u64, limits.bytes as u64));
    }
    Ok(())
}

pub(crate) fn scan(bytes: &[u8], limits: &ModuleLimits) -> Result<(), Fault> {
    let Some(body) = bytes.strip_prefix(HEADER) else {
        return Err(Fault::bad_module("it does not have the header of a core module of version 1"));
    };
    let mut reader = Reader { bytes: body };
    let mut signatures = Signatures::default();
    while !reader.bytes.is_empty() {
        let id = reader.byte()?;
        let size = reader.number()?;
        let mut section = Reader { bytes: reader.take(size)? };
        match id {
            1 => signatures.params = types(&mut section, limits)?,
            2 => count(&mut section, "imports", limits.imports)?,
            3 => signatures.types = functions(&mut section, limits)?,
            4 => count(&mut section, "tables", limits.tables)?,
            5 => count(&mut section, "memories", 1)?,
            6 => count(&mut section, "globals", limits.globals)?,
            7 => count(&mut section, "exports", limits.exports)?,
            9 => count(&mut section, "element segments", limits.elements)?,
            10 => bodies(&mut section, &signatures, limits)?,
            11 => count(&mut section, "data segments", limits.data)?,
            // Custom sections, the start function, the data count; anything else is left to the validator.
            _ => {}
        }
    }
    Ok(())
}

/// The number of parameters of functions.
#[derive(Default)]
struct Signatures {
    params: Vec<u32>,
    types: Vec<u32>,
}

impl Signatures {
    fn params_of(&self, function: u32) -> Option<u32> {
        let ty = self.types.get(usize::try_from(function).ok()?)?;
        self.params.get(usize::try_from(*ty).ok()?).copied()
    }
}

fn count(section: &mut Reader<'_>, what: &str, limit: u32) -> Result<(), Fault> {
    let found = section.number()?;
    if found > limit { Err(too_many(what, found.into(), limit.into())) } else { Ok(()) }
}

/// Function types only; other types are disabled.
fn types(section: &mut Reader<'_>, limits: &ModuleLimits) -> Result<Vec<u32>, Fault> {
    let mut params = Vec::new();
    let found = section.number()?;
    if found > limits.types {
        return Err(too_many("types", found.into(), limits.types.into()));
    }
    for _ in 0..found {
        if section.byte()? != 0x60 {
            return Err(Fault::bad_module("it declares a type that is not a function type"));
        }
        let mut values = |what: &str| {
            let values = section.number()?;
            if values > limits.values_per_type {
                return Err(too_many(what, values.into(), limits.values_per_type.into()));
            }
            section.take(values)?;
            Ok(values)
        };
        params.push(values("parameters in one type")?);
        values("results in one type")?;
    }
    Ok(params)
}

/// The type of each function with a body.
fn functions(section: &mut Reader<'_>, limits: &ModuleLimits) -> Result<Vec<u32>, Fault> {
    let found = section.number()?;
    if found > limits.functions {
        return Err(too_many("functions", found.into(), limits.functions.into()));
    }
    (0..found).map(|_| section.number()).collect()
}

fn bodies(section: &mut Reader<'_>, signatures: &Signatures, limits: &ModuleLimits) -> Result<(), Fault> {
    let found = section.number()?;
    if found > limits.functions {
        return Err(too_many("functions", found.into(), limits.functions.into()));
    }
    let (mut all, mut code, mut pieces, mut joined): (u64, u64, u64, u64) = (0, 0, 0, 0);
    for function in 0..found {
        let size = section.number()?;
        if u64::from(size) > limits.function_bytes as u64 {
            return Err(too_many("bytes in one function", size.into(), limits.function_bytes as u64));
        }
        code += u64::from(size);
        if code > limits.code_bytes as u64 {
            return Err(too_many("bytes of code", code, limits.code_bytes as u64));
        }
        let mut body = Reader { bytes: section.take(size)? };
        let mut own: u64 = 0;
        for _ in 0..body.number()? {
            own += u64::from(body.number()?);
            // Every enabled value type is one byte long.
            body.byte()?;
            if own > limits.locals_per_function.into() {
                return Err(too_many(
                    "local variables in one function",
                    own,
                    limits.locals_per_function.into(),
                ));
            }
        }
        let Work { branches, calls, has_wide_blocks } = nesting::check(&mut body)?;
        let own_pieces = branches.saturating_add(calls);
        if own_pieces > limits.pieces_per_function.into() {
            let limit = limits.pieces_per_function.into();
            return Err(too_many("branches and calls in one function", own_pieces, limit));
        }
        pieces = pieces.saturating_add(own_pieces);
        if pieces > limits.pieces.into() {
            return Err(too_many("branches and calls", pieces, limits.pieces.into()));
        }
        // The validator rejects a function without a type.
        let params = signatures.params_of(function).unwrap_or(limits.values_per_type);
        let wide = if has_wide_blocks { limits.values_per_type } else { 0 };
        let brought = own.saturating_add(params.into()).saturating_add(wide.into()).saturating_add(1);
        joined = joined.saturating_add(branches.saturating_mul(branches).saturating_mul(brought));
        if joined > limits.joined_values {
            let what = "values to merge where branches join, by the square of the branches";
            return Err(too_many(what, joined, limits.joined_values));
        }
        all += own;
        if all > limits.locals.into() {
            return Err(too_many("local variables", all, limits.locals.into()));
        }
    }
    Ok(())
}

fn too_many(what: &str, found: u64, limit: u64) -> Fault {
    Fault::bad_module(format!("it has {found} {what}; the limit is {limit}"))
}

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.bytes.split_first().ok_or_else(cut_off)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, length: u32) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(length).map_err(|_| cut_off())?;
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(cut_off)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// An unsigned LEB128 number of at most 32 bits.
    pub(crate) fn number(&mut self) -> Result<u32, Fault> {
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| {
                    Fault::bad_module(
                        "it contains a number that is \
                    too long",
                    )
                });
            }
        }
        Err(Fault::bad_module("it contains a number that is too long"))
    }

    /// Skips any LEB128 number.
    pub(crate) fn skip_number(&mut self) -> Result<(), Fault> {
        for _ in 0..10 {
            if self.byte()? & 0x80 == 0 {
                return Ok(());
            }
        }
        Err(Fault::bad_module("it contains a number that is too long"))
    }
}

fn cut_off() -> Fault {
    Fault::bad_module("it is truncated")
}
