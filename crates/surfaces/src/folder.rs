//! Folder names of tenants.

use canon::digest::Digest;

use crate::call::Tenant;

/// A longer name plus suffixes would exceed file system limits.
const MAX_BYTES: usize = 200;

/// A unique folder name, also on file systems that ignore case or forbid colons.
pub(crate) fn folder_of(tenant: &Tenant) -> String {
    let mut name = String::with_capacity(tenant.as_str().len());
    for byte in tenant.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
            // Tenant names do not contain `~`, so the escape is unambiguous.
            other => name.push_str(&format!("~{other:02x}")),
        }
    }
    if name.len() > MAX_BYTES {
        return format!("~~{}", Digest::of_bytes(tenant.as_str().as_bytes()).to_hex());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_unique() {
        let cases = [("acme", "acme"), ("Acme", "~41cme"), ("a:b", "a~3ab"), ("a.b-c_d", "a.b-c_d")];
        for (name, expected) in cases {
            assert_eq!(folder_of(&Tenant::new(name).unwrap()), expected, "{name}");
        }
        let long = |first: &str| folder_of(&Tenant::new(&(first.to_owned() + &"A".repeat(127))).unwrap());
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a").len(), 66);
    }
}
