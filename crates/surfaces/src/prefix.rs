//! Texts that begin alike, as a range.

/// The least text that is greater than every text with this prefix; nothing where there is none.
///
/// Texts are compared by their bytes, which for UTF-8 is the order of the characters.
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
    fn the_end_of_a_range() {
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
        fn a_text_is_below_the_successor_exactly_when_it_has_the_prefix_or_is_smaller(
            prefix in ".{0,3}", text in ".{0,5}"
        ) {
            let below = successor(&prefix).is_none_or(|until| text < until);
            let has_prefix = text.starts_with(&prefix);
            prop_assert_eq!(text >= prefix && below, has_prefix);
        }
    }
}
