//! Step 17: collect the render handles that the output needs.

use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::composition::RequiredRenderHandle;
use crate::contribution::RenderHandle;
use crate::vocabulary::OwnerKind;

/// The handles of all shown contributions: one entry per owner and identity, sorted by the handle key.
///
/// A handle key starts with `ownerKey:`. Ranks are already in `ownerId:` order, so only the handles of one owner are
/// sorted, after moving those of built-ins to the front.
pub(crate) fn collect<'i>(assembly: &Assembly<'_, 'i>) -> Vec<RequiredRenderHandle<'i>> {
    let catalogue = assembly.catalogue;
    let mut uses: Vec<Use> = Vec::with_capacity(catalogue.len());
    let mut identities = Identities::with_capacity(catalogue.len());
    for rank in assembly.shown() {
        if let Some(handle) = catalogue.get(rank).body.handle() {
            uses.push(Use { identity: identities.push(handle), rank });
        }
    }
    let mut required = Vec::with_capacity(uses.len());
    let owner_kind = |usage: &Use| catalogue.source(usage.rank).kind;
    for kind in [OwnerKind::Builtin, OwnerKind::Module] {
        let same_owner =
            |a: &Use, b: &Use| catalogue.key(a.rank).owner_id() == catalogue.key(b.rank).owner_id();
        for owned in uses.chunk_by_mut(same_owner).filter(|owned| owner_kind(&owned[0]) == kind) {
            owned.sort_unstable_by(|a, b| {
                identities.get(a.identity).cmp(identities.get(b.identity)).then(a.rank.cmp(&b.rank))
            });
            for alike in owned.chunk_by(|a, b| identities.get(a.identity) == identities.get(b.identity)) {
                let Some(handle) = catalogue.get(alike[0].rank).body.handle() else { continue };
                required.push(RequiredRenderHandle {
                    owner: catalogue.owner(alike[0].rank),
                    handle: *handle,
                    used_by: alike.iter().map(|usage| catalogue.key(usage.rank)).collect(),
                });
            }
        }
    }
    required
}

struct Use {
    identity: usize,
    rank: Rank,
}

/// The identities of many handles as canonical JSON in one buffer.
struct Identities {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Identities {
    /// Room for `count` handles of ordinary length.
    fn with_capacity(count: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * 80), ends: Vec::with_capacity(count) }
    }

    fn push(&mut self, handle: &RenderHandle<'_>) -> usize {
        write_identity(&mut self.bytes, handle);
        self.ends.push(self.bytes.len());
        self.ends.len() - 1
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.bytes[start..self.ends[index]]
    }
}

/// The canonical JSON of a handle: the members are in canonical order here.
fn write_identity(out: &mut Vec<u8>, handle: &RenderHandle<'_>) {
    out.push(b'{');
    if let Some(data) = handle.data {
        out.extend_from_slice(b"\"data\":");
        canon::canonical::write_to(out, data);
        out.push(b',');
    }
    out.extend_from_slice(b"\"id\":");
    write_text(out, handle.id);
    out.extend_from_slice(b",\"kind\":");
    write_text(out, handle.kind);
    // There is one version, so it never distinguishes handles.
    out.extend_from_slice(b",\"renderHandleVersion\":\"0.1\"}");
}

/// Ids and kinds rarely need escaping, and are then copied unchanged.
fn write_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(out, text).expect("a string always serializes");
    }
}
