//! String prefixes as ranges.

/// The smallest string greater than every string with this prefix; `None` if there is none.
///
/// Strings are compared by bytes, which for UTF-8 is the order of characters.
pub(crate) fn successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn successors() {
        let cases = [
            ("", None),
            ("a", Some("b")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("\u{d7ff}", Some("\u{e000}")),
        ];
        for (prefix, expected) in cases {
            assert_eq!(successor(prefix).as_deref(), expected, "{prefix:?}");
        }
    }

    proptest! {
        #[test]
        fn successor_bounds_the_prefix_range(
            prefix in ".{0,3}", text in ".{0,5}"
        ) {
            let below = successor(&prefix).is_none_or(|until| text < until);
            let has_prefix = text.starts_with(&prefix);
            prop_assert_eq!(text >= prefix && below, has_prefix);
        }
    }
}
