//! Result values: from wire bytes to JSON.
//!
//! | Type | JSON |
//! |---|---|
//! | `int2`, `int4`, `int8`, `oid`, `float4`, `float8` | a number; `NaN` and infinities by name |
//! | `numeric` | a string, because a number would round it |
//! | `bool`, `json`, `jsonb` | the same value |
//! | `timestamptz`, `timestamp`, `date`, `time` | ISO 8601, the first in UTC |
//! | `uuid`, `text`, `varchar`, `char`, `name`, enums | a string |
//! | `bytea` | base64 |
//! | arrays of these | a list, nested for several dimensions |

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};
use tokio_postgres::types::{FromSql, Kind, Type};

use super::numeric;
use crate::calendar;

type Unreadable = Box<dyn Error + Sync + Send>;

/// A value of a row.
pub(super) struct Cell(pub(super) Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Unreadable> {
        read(of, raw).map(Self)
    }

    fn from_sql_null(_: &Type) -> Result<Self, Unreadable> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn read(of: &Type, raw: &[u8]) -> Result<Value, Unreadable> {
    match of.kind() {
        Kind::Domain(of) => return read(of, raw),
        Kind::Array(element) => return list(element, raw),
        Kind::Enum(_) => return Ok(std::str::from_utf8(raw)?.into()),
        _ => {}
    }
    Ok(match *of {
        Type::BOOL => bool::from_sql(of, raw)?.into(),
        Type::INT2 => i16::from_sql(of, raw)?.into(),
        Type::INT4 => i32::from_sql(of, raw)?.into(),
        Type::INT8 => i64::from_sql(of, raw)?.into(),
        Type::OID => u32::from_sql(of, raw)?.into(),
        Type::FLOAT4 => {
            let single = f32::from_sql(of, raw)?;
            // Through the shortest text, so that 0.1 stays 0.1.
            real(single.to_string().parse().unwrap_or(f64::from(single)))
        }
        Type::FLOAT8 => real(f64::from_sql(of, raw)?),
        Type::NUMERIC => numeric::text(raw)?.into(),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => {
            std::str::from_utf8(raw)?.into()
        }
        Type::JSON => serde_json::from_slice(raw)?,
        Type::JSONB => serde_json::from_slice(raw.strip_prefix(&[1]).ok_or("unsupported jsonb version")?)?,
        Type::UUID => uuid(raw)?.into(),
        Type::BYTEA => STANDARD.encode(raw).into(),
        Type::TIMESTAMPTZ => calendar::moment(i64::from_sql(&Type::INT8, raw)?, "Z").into(),
        Type::TIMESTAMP => calendar::moment(i64::from_sql(&Type::INT8, raw)?, "").into(),
        Type::DATE => calendar::date(i32::from_sql(&Type::INT4, raw)?).into(),
        Type::TIME => calendar::time(i64::from_sql(&Type::INT8, raw)?).into(),
        Type::VOID => Value::Null,
        _ if of.name() == "citext" => std::str::from_utf8(raw)?.into(),
        _ => return Err("the type has no JSON form".into()),
    })
}

fn real(real: f64) -> Value {
    match Number::from_f64(real) {
        Some(number) => Value::Number(number),
        None if real.is_nan() => "NaN".into(),
        None => if real > 0.0 { "Infinity" } else { "-Infinity" }.into(),
    }
}

fn uuid(raw: &[u8]) -> Result<String, Unreadable> {
    let raw: [u8; 16] = raw.try_into()?;
    let mut text = canon::encoding::hex(&raw);
    for hyphen in [20, 16, 12, 8] {
        text.insert(hyphen, '-');
    }
    Ok(text)
}

/// The header has the number of dimensions and their lengths; the elements follow, each with its length.
fn list(element: &Type, raw: &[u8]) -> Result<Value, Unreadable> {
    let mut raw = Raw(raw);
    let dimensions = raw.integer()?;
    raw.integer()?;
    raw.integer()?;
    // The server supports at most 6.
    let dimensions = usize::try_from(dimensions)
        .ok()
        .filter(|count| *count <= 6)
        .ok_or("the array has too many dimensions")?;
    let mut lengths = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        lengths.push(usize::try_from(raw.integer()?)?);
        raw.integer()?;
    }
    if lengths.is_empty() { Ok(Value::Array(Vec::new())) } else { elements(element, &lengths, &mut raw) }
}

fn elements(element: &Type, lengths: &[usize], raw: &mut Raw<'_>) -> Result<Value, Unreadable> {
    let Some((length, inner)) = lengths.split_first() else {
        return match raw.integer()? {
            -1 => Ok(Value::Null),
            length => read(element, raw.bytes(usize::try_from(length)?)?),
        };
    };
    let mut items = Vec::new();
    for _ in 0..*length {
        items.push(elements(element, inner, raw)?);
    }
    Ok(Value::Array(items))
}

/// A byte reader.
struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Unreadable> {
        let (front, rest) = self.0.split_at_checked(count).ok_or("the array is truncated")?;
        self.0 = rest;
        Ok(front)
    }

    fn integer(&mut self) -> Result<i32, Unreadable> {
        Ok(i32::from_be_bytes(self.bytes(4)?.try_into()?))
    }
}
