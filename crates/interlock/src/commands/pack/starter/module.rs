//! The module of a new pack: a node that greets, as text and as the bytes that the text compiles to.

use packs::name::PackName;

use crate::failure::Failure;

/// Text with places for what differs from pack to pack.
const TEXT: &str = include_str!("nodes.wat");
/// How the modules of ours find a member of an object in JSON.
const JSON: &str = include_str!("../../../../../sandbox/modules/json.wat");

/// The text of the module, and the module.
pub(super) fn module(pack: &PackName, type_id: &str) -> Result<(String, Vec<u8>), Failure> {
    let pack = pack.as_str();
    let text = TEXT
        .replace("@PACK@", pack)
        .replace("@TYPE@", type_id)
        .replace("@PACK_BYTES@", &pack.len().to_string())
        .replace("@TYPE_BYTES@", &type_id.len().to_string())
        .replace("(; json.wat ;)", JSON.trim_end());
    match wat::parse_str(&text) {
        Ok(bytes) => Ok((text, bytes)),
        // The text is ours and names have no quotes in them; were it otherwise, it would be told and not written.
        Err(error) => Err(Failure::Unreadable {
            name: "the module of the skeleton".to_owned(),
            cause: std::io::Error::other(error.to_string()),
        }),
    }
}
