//! Whether a link leaves its slot.

/// Where a link's text leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    /// Inside the slot.
    Inside,
    /// Inside as text, but it goes down and up again, and another link on the way could change the
    /// result.
    Perhaps,
    Outside,
}

/// Classifies the target of a link at `path`, given as segments below its slot.
///
/// A target is inside if it is relative and never climbs above the slot. The disk is not inspected:
/// it can change, and each link on the way is checked itself.
pub(crate) fn leads(path: &[u8], target: &[u8]) -> Leads {
    // A slot that is itself a link has no inside.
    if path.is_empty() || target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return Leads::Outside;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    let mut descended = false;
    let mut answer = Leads::Inside;
    for segment in target.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                if descended {
                    answer = Leads::Perhaps;
                }
                match depth.checked_sub(1) {
                    Some(above) => depth = above,
                    None => return Leads::Outside,
                }
            }
            _ => {
                depth += 1;
                descended = true;
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_inside_unless_it_climbs_above_its_slot() {
        use Leads::{Inside, Outside, Perhaps};
        let cases = [
            ("a", "b", Inside),
            ("a", "./b//c/", Inside),
            ("a", ".", Inside),
            ("a", "..", Outside),
            ("a", "../a", Outside),
            ("d/a", "../b", Inside),
            ("d/a", "..", Inside),
            ("d/a", "../..", Outside),
            ("d/e/a", "../../b", Inside),
            ("d/e/a", "../../../b", Outside),
            ("a", "b/../c", Perhaps),
            ("a", "b/../../c", Outside),
            ("a", "/workspace/tmp/a", Outside),
            ("a", "", Outside),
            ("", "b", Outside),
            ("x", "../../s", Outside),
        ];
        for (path, target, expected) in cases {
            assert_eq!(leads(path.as_bytes(), target.as_bytes()), expected, "{path} -> {target}");
        }
    }
}
