//! The major versions of the protocol, and the header that names one.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Major {
    V1,
    V2,
}

impl Major {
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The version that replies name.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V2 => "2",
        }
    }

    /// The major version that a header names: `2`, `2.0` and `2.9` are version 2. `None` if it is malformed or not served.
    pub fn parse(header: &str) -> Option<Self> {
        let text = header.trim();
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_digit())
                && (text == "0" || !text.starts_with('0'))
        };
        if !is_number(minor) {
            return None;
        }
        Self::ALL.into_iter().find(|known| known.number() == major)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_major_number_selects() {
        for (header, expected) in [
            ("1", Some(Major::V1)),
            ("1.0", Some(Major::V1)),
            ("1.14", Some(Major::V1)),
            (" 2 ", Some(Major::V2)),
            ("2.9", Some(Major::V2)),
            ("3", None),
            ("22", None),
            ("02", None),
            ("2.", None),
            ("2.01", None),
            ("2.0.1", None),
            ("-2", None),
            ("v2", None),
            ("", None),
        ] {
            assert_eq!(Major::parse(header), expected, "{header:?}");
        }
        for major in Major::ALL {
            assert_eq!(Major::parse(major.version()), Some(major));
        }
    }
}
