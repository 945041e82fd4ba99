//! Ids. In version 2 the ids of runs, webhooks, interrupts, deliveries and effects contain their tenant: `acme/run_01`. In a path a bound id
//! is one segment, in which every byte outside of `[A-Za-z0-9._-]` is `~` and two hexadecimal digits: `acme~2Frun_01`.

use canon::digest::Digest;

/// The bound form of an id.
pub fn bind(tenant: &str, id: &str) -> String {
    format!("{tenant}/{id}")
}

/// The tenant and the own part of a bound id. `None` if the id is bare.
pub fn split(id: &str) -> Option<(&str, &str)> {
    id.split_once('/')
}

/// Why an id does not name anything for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("The id belongs to another tenant.")]
    OtherTenant,
    #[error("The id is malformed. An id is `<tenant>/<id>`, made of letters, digits and `._~-`.")]
    Malformed,
}

/// The id within a tenant, from its bound or bare form.
///
/// # Errors
/// The id names another tenant, or is malformed.
pub fn unbind<'i>(tenant: &str, id: &'i str) -> Result<&'i str, IdError> {
    let Some((named, own)) = split(id) else { return Ok(id) };
    if named != tenant {
        return Err(IdError::OtherTenant);
    }
    if own.is_empty() || own.len() > 128 || own.contains('/') {
        return Err(IdError::Malformed);
    }
    Ok(own)
}

/// The bound id of an interrupt. The ids of version 1 contain colons, so a digest replaces them.
pub fn interrupt(tenant: &str, id: &str) -> String {
    hashed(tenant, "int", id)
}

/// The bound id of a delivery of a webhook.
pub fn delivery(tenant: &str, id: &str) -> String {
    hashed(tenant, "dlv", id)
}

fn hashed(tenant: &str, kind: &str, id: &str) -> String {
    bind(tenant, &format!("{kind}_{}", &Digest::of_bytes(id.as_bytes()).to_hex()[..32]))
}

/// The form of an id in a path.
pub fn projected(id: &str) -> String {
    let mut text = String::with_capacity(id.len() + 8);
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("~{byte:02X}"));
        }
    }
    text
}

/// The id of a segment that is already percent-decoded. `None` if a `~` is not followed by two hexadecimal digits, or the result is
/// not UTF-8.
pub fn unprojected(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'~' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

/// Whether a text can be the id of an event in version 2.
pub fn is_event_id(text: &str) -> bool {
    (16..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-'))
}

/// Whether an `Idempotency-Key` has the form that version 2 requires.
pub fn is_idempotency_key(text: &str) -> bool {
    (22..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_the_tenant_of_the_caller() {
        assert_eq!(unbind("acme", "acme/run_1"), Ok("run_1"));
        assert_eq!(unbind("acme", "run_1"), Ok("run_1"));
        assert_eq!(unbind("acme", "other/run_1"), Err(IdError::OtherTenant));
        assert_eq!(unbind("acme", "acme/"), Err(IdError::Malformed));
        assert_eq!(unbind("acme", "acme/a/b"), Err(IdError::Malformed));
        assert_eq!(projected("acme/run_0a"), "acme~2Frun_0a");
        assert_eq!(unprojected("acme~2Frun_0a").as_deref(), Some("acme/run_0a"));
        for malformed in ["a~", "a~2", "a~zz", "~ff"] {
            assert_eq!(unprojected(malformed), None, "{malformed}");
        }
        let interrupt = interrupt("acme", "run_1:gate:0");
        assert!(
            interrupt.starts_with("acme/int_") && interrupt.len() == "acme/int_".len() + 32,
            "{interrupt}"
        );
    }

    proptest::proptest! {
        #[test]
        fn a_projected_id_is_one_plain_segment_and_comes_back(id in r"\PC{0,40}") {
            let segment = projected(&id);
            proptest::prop_assert!(segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte)));
            proptest::prop_assert_eq!(unprojected(&segment), Some(id));
        }
    }
}
