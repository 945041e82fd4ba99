//! Function signatures of the ABI.

use wasmtime::{ExternType, FuncType, ValType};

/// The supported ABI version.
pub const ABI_VERSION: i32 = 1;

/// How a function returns a pointer and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    /// As two values.
    Two,
    /// As one value: pointer in the low half, length in the high half.
    Packed,
}

/// An unvalidated pointer and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) ptr: u32,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) const NOTHING: Self = Self { ptr: 0, len: 0 };

    pub(crate) const fn of_two(ptr: i32, len: i32) -> Self {
        Self { ptr: ptr.cast_unsigned(), len: len.cast_unsigned() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of a packed pair")]
    pub(crate) const fn of_packed(packed: i64) -> Self {
        let packed = packed.cast_unsigned();
        Self { ptr: packed as u32, len: (packed >> 32) as u32 }
    }

    pub(crate) fn packed(self) -> i64 {
        (u64::from(self.len) << 32 | u64::from(self.ptr)).cast_signed()
    }
}

/// A function type as letters: `i` for `i32`, `I` for `i64`, `?` for anything else.
pub(crate) fn letters(values: impl Iterator<Item = ValType>) -> String {
    values
        .map(|value| match value {
            ValType::I32 => 'i',
            ValType::I64 => 'I',
            _ => '?',
        })
        .collect()
}

/// The pair kind of the results, if they are a pair.
pub(crate) fn pair_of(ty: &FuncType) -> Option<Pair> {
    match letters(ty.results()).as_str() {
        "ii" => Some(Pair::Two),
        "I" => Some(Pair::Packed),
        _ => None,
    }
}

/// Whether an export is a function with these parameters and results.
pub(crate) fn is_function(export: Option<&ExternType>, params: &str, results: &str) -> bool {
    export
        .and_then(ExternType::func)
        .is_some_and(|ty| letters(ty.params()) == params && letters(ty.results()) == results)
}

/// The pair kind that an export with these parameters returns.
pub(crate) fn pair_function(export: Option<&ExternType>, params: &str) -> Option<Pair> {
    let ty = export?.func()?;
    if letters(ty.params()) == params { pair_of(ty) } else { None }
}
