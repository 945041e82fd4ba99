//! The order of lines, and valid paths.

use std::cmp::Ordering;

use super::MAX_PATH_BYTES;
use crate::slot::Slot;

/// Compares paths by segments: `/` sorts before every other byte.
///
/// In this order, a directory is followed by everything below it before its next sibling, as in a
/// walk that visits names in byte order. Plain byte order would put `a.txt` between `a` and `a/b`.
pub fn compare_paths(left: &[u8], right: &[u8]) -> Ordering {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { u16::from(*byte) + 1 };
    left.get(common).map(rank).cmp(&right.get(common).map(rank))
}

/// The slot of a path below the root.
pub fn slot_of(path: &str) -> Option<Slot> {
    Slot::ALL.into_iter().find(|slot| {
        path.strip_prefix(slot.relative()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether a path is relative, has valid segments, and is short enough for the kernel.
pub(super) fn is_plain(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && !path.as_bytes().contains(&0)
        && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_directory_is_followed_by_its_contents() {
        let sorted = ["a", "a/b", "a/b/c", "a/b c", "a/c", "a b", "a.txt", "aa", "b", "é", "é/x"];
        for (left_at, left) in sorted.iter().enumerate() {
            for (right_at, right) in sorted.iter().enumerate() {
                let expected = left_at.cmp(&right_at);
                assert_eq!(compare_paths(left.as_bytes(), right.as_bytes()), expected, "{left} and {right}");
            }
        }
    }

    #[test]
    fn a_slot_contains_the_paths_below_it() {
        let cases = [
            ("inputs", Some(Slot::Inputs)),
            ("inputs/a/b", Some(Slot::Inputs)),
            ("inputs.txt", None),
            ("AGENTS.md", Some(Slot::AgentsMd)),
            (".opencode", None),
            (".opencode/agents/x.md", Some(Slot::AgentBundles)),
            (".opencode/runtime.jsonc", None),
            (".interlock/index.jsonl", None),
        ];
        for (path, expected) in cases {
            assert_eq!(slot_of(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn the_order_equals_the_order_of_segment_lists(left in "[ab/.\u{e9}-]{0,6}", right in "[ab/.\u{e9}-]{0,6}") {
            // An empty path and a path of one empty segment are the same list, and neither is a
            // valid path.
            prop_assume!(!left.is_empty() && !right.is_empty());
            let segments = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
            let expected = segments(&left).cmp(&segments(&right));
            prop_assert_eq!(compare_paths(left.as_bytes(), right.as_bytes()), expected);
        }
    }
}
