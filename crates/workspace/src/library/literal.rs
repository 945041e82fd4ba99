//! Literals in the plan.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::limits::LITERAL;
use crate::{Code, Error};

/// Decodes padded base64.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Error> {
    // Three bytes for four characters: an oversized literal is refused before it is decoded.
    LITERAL.check((text.len() as u64 / 4 * 3).saturating_sub(2))?;
    let bytes = STANDARD.decode(text).map_err(|error| {
        Error::new(
            Code::ResolveBadResponse,
            format!("a literal of the plan is not valid padded base64: {error}"),
        )
    })?;
    LITERAL.check(bytes.len() as u64)?;
    Ok(bytes)
}
