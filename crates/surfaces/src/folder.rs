//! The name of a tenant's folder.

use canon::digest::Digest;

use crate::call::Tenant;

/// Longer names would not fit into a file system beside what is added to them.
const MAX_BYTES: usize = 200;

/// A name that no other tenant has, also where the file system does not tell upper from lower case or knows no colons.
pub(crate) fn folder_of(tenant: &Tenant) -> String {
    let mut name = String::with_capacity(tenant.as_str().len());
    for byte in tenant.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
            // `~` is in no tenant's name, so nothing else is spelt like this.
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
    fn no_two_tenants_share_a_folder() {
        let cases = [("acme", "acme"), ("Acme", "~41cme"), ("a:b", "a~3ab"), ("a.b-c_d", "a.b-c_d")];
        for (name, expected) in cases {
            assert_eq!(folder_of(&Tenant::new(name).unwrap()), expected, "{name}");
        }
        let long = |first: &str| folder_of(&Tenant::new(&(first.to_owned() + &"A".repeat(127))).unwrap());
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a").len(), 66);
    }
}
