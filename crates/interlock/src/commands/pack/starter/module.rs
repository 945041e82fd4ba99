//! The module of a new pack: an example node, as WebAssembly text and compiled.

use packs::name::PackName;

use crate::failure::Failure;

/// The template, with placeholders for the pack's names.
const TEXT: &str = include_str!("nodes.wat");
/// Code shared by the example modules: finds a member of a JSON object.
const JSON: &str = include_str!("../../../../../sandbox/modules/json.wat");

/// The text of the module, and the compiled module.
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
        // The template is constant and names contain no quotes, so this does not fail; if it did,
        // it would be reported.
        Err(error) => Err(Failure::Unreadable {
            name: "the module of the skeleton".to_owned(),
            cause: std::io::Error::other(error.to_string()),
        }),
    }
}
