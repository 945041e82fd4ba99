//! A Merkle tree over all entries of a log, kept as the roots of its complete subtrees.
//!
//! The tree is that of RFC 6962: a leaf is `SHA-256(0x00 ‖ link)`, a node is `SHA-256(0x01 ‖ left ‖ right)`, and the left subtree
//! has the largest power of two of leaves that is smaller than the whole. The roots of the complete subtrees are enough to add
//! entries, so the cost of a new root depends only on the added entries.

use canon::digest::Digest;

/// An append-only Merkle tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    count: u64,
    /// The roots of the complete subtrees, largest first: one for each set bit of the count.
    peaks: Vec<Digest>,
}

impl Tree {
    /// Creates the tree from a count and subtree roots. `None` if the number of roots does not match the count.
    pub fn from_peaks(count: u64, peaks: Vec<Digest>) -> Option<Self> {
        (u32::try_from(peaks.len()).ok()? == count.count_ones()).then_some(Self { count, peaks })
    }

    /// The number of entries.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The roots of the complete subtrees.
    pub fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Adds the link of an entry.
    pub fn push(&mut self, link: Digest) {
        let mut part = hash(0, link.as_bytes(), &[]);
        // Two subtrees of equal size merge into one. The number of merges is the number of trailing ones of the count.
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                part = hash(1, left.as_bytes(), part.as_bytes());
            }
        }
        self.peaks.push(part);
        self.count += 1;
    }

    /// The root of the tree.
    pub fn root(&self) -> Digest {
        let mut parts = self.peaks.iter().rev();
        let Some(last) = parts.next() else { return Digest::of_bytes(b"") };
        parts.fold(*last, |right, left| hash(1, left.as_bytes(), right.as_bytes()))
    }
}

fn hash(kind: u8, left: &[u8], right: &[u8]) -> Digest {
    Digest::of_bytes(&[&[kind], left, right].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A direct implementation of the definition in RFC 6962.
    fn naive(links: &[Digest]) -> Digest {
        match links {
            [] => Digest::of_bytes(b""),
            [link] => hash(0, link.as_bytes(), &[]),
            links => {
                let split = links.len().next_power_of_two() / 2;
                hash(1, naive(&links[..split]).as_bytes(), naive(&links[split..]).as_bytes())
            }
        }
    }

    proptest! {
        #[test]
        fn a_tree_that_grew_has_the_root_of_the_definition(count in 0_usize..130, stopped in 0_usize..130) {
            let links: Vec<_> = (0..count).map(|number| Digest::of_bytes(&number.to_le_bytes())).collect();
            let mut tree = Tree::default();
            for (place, link) in links.iter().enumerate() {
                if place == stopped {
                    tree = Tree::from_peaks(tree.count(), tree.peaks().to_vec()).unwrap();
                }
                tree.push(*link);
            }
            prop_assert_eq!(tree.root(), naive(&links));
            prop_assert_eq!(tree.count(), count as u64);
        }
    }
}
