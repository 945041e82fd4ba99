//! Step 17: collect the render handles that the output needs.

use std::collections::HashMap;

use super::s02_sources::Source;
use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::composition::RequiredRenderHandle;
use crate::contribution::RenderHandle;
use crate::vocabulary::{Owner, OwnerKind, compare_before_colon};

/// The handles of everything that is shown: one entry per owner and identity, sorted by the handle key.
pub(crate) fn collect<'i>(assembly: &Assembly<'_, 'i>) -> Vec<RequiredRenderHandle<'i>> {
    let owners = owner_ranks(assembly);
    let mut uses: Vec<Use<'i>> = Vec::new();
    let mut identities = Identities::default();
    for rank in assembly.shown() {
        if let Some(handle) = assembly.catalogue.get(rank).body.handle() {
            let owner = owners[assembly.catalogue.get(rank).source];
            uses.push(Use { owner, identity: identities.push(handle), rank, handle: *handle });
        }
    }
    uses.sort_unstable_by(|a, b| {
        (a.owner, identities.get(a.identity), a.rank).cmp(&(b.owner, identities.get(b.identity), b.rank))
    });
    uses.chunk_by(|a, b| a.owner == b.owner && identities.get(a.identity) == identities.get(b.identity))
        .map(|uses| RequiredRenderHandle {
            owner: assembly.catalogue.owner(uses[0].rank),
            handle: uses[0].handle,
            used_by: uses.iter().map(|usage| assembly.catalogue.key(usage.rank)).collect(),
        })
        .collect()
}

struct Use<'i> {
    /// The place of the owner among all owners.
    owner: usize,
    identity: usize,
    rank: Rank,
    handle: RenderHandle<'i>,
}

/// For each source, the place of its owner in the order of `ownerKey:`, the front of every handle key.
///
/// That is not the order of owner keys alone: `module:lab-2:` sorts before `module:lab:`.
fn owner_ranks(assembly: &Assembly<'_, '_>) -> Vec<usize> {
    let owners: Vec<Owner<'_>> = assembly.catalogue.sources.iter().map(Source::owner).collect();
    let mut order: Vec<(OwnerKind, &str)> =
        owners.iter().map(|owner| (owner.owner_kind, owner.owner_id)).collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| compare_before_colon(a.1, b.1)));
    order.dedup();
    let places: HashMap<(OwnerKind, &str), usize> = order.into_iter().zip(0..).collect();
    owners.iter().map(|owner| places[&(owner.owner_kind, owner.owner_id)]).collect()
}

/// The identities of many handles, as canonical JSON in one buffer.
#[derive(Default)]
struct Identities {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Identities {
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

/// The canonical JSON of a handle. Only its data needs the general canonicaliser: the members
/// are written in canonical order here.
fn write_identity(out: &mut Vec<u8>, handle: &RenderHandle<'_>) {
    out.push(b'{');
    if let Some(data) = handle.data {
        out.extend_from_slice(b"\"data\":");
        out.extend_from_slice(canon::canonical::string_of(data).as_bytes());
        out.push(b',');
    }
    let members =
        [("id", handle.id), ("kind", handle.kind), ("renderHandleVersion", handle.render_handle_version)];
    for (index, (name, text)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        for text in [name, text] {
            serde_json::to_writer(&mut *out, text).expect("a string always serialises");
            out.push(b':');
        }
        out.pop();
    }
    out.push(b'}');
}
