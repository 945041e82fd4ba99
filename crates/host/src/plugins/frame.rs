//! What a plugin's frame may do, as its browser is told.

/// The largest address that a plugin may declare.
const MAX_SOURCE: usize = 256;
/// The names of this machine that browsers take for different origins, and people for the same.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// The policy that the document of a plugin is served with. `ancestors` are the origins whose pages may show it.
///
/// Nothing may be loaded or sent but what stands in the document, or is made of it. The document is sandboxed also when it is opened
/// without a frame. Where the frame itself may be led is up to the page around it, which names the origin of plugins alone.
pub fn policy(ancestors: &[String], connect: &[String]) -> String {
    let mut policy = String::from(
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'; webrtc 'block'; sandbox allow-scripts; frame-ancestors",
    );
    if ancestors.is_empty() {
        policy.push_str(" 'none'");
    }
    for ancestor in ancestors {
        policy.push(' ');
        policy.push_str(ancestor);
    }
    if !connect.is_empty() {
        policy.push_str("; connect-src");
        for source in connect.iter().filter(|source| is_source(source)) {
            policy.push(' ');
            policy.push_str(source);
        }
    }
    policy
}

/// Whether an address can stand in a policy and mean what it says: a scheme that is encrypted, a host without a star, a path.
pub fn is_source(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("wss://")) else {
        return false;
    };
    let host = rest.split('/').next().unwrap_or_default();
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/' | b':');
    !host.is_empty()
        && !host.starts_with([':', '.'])
        && text.len() <= MAX_SOURCE
        && text.bytes().all(is_plain)
}

/// The origins that are the same page to a person: `localhost` and the addresses of this machine.
pub fn ancestors(public_url: &str) -> Vec<String> {
    let Some((scheme, rest)) = public_url.split_once("://") else { return Vec::new() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    if !matches!(scheme, "http" | "https") || authority.is_empty() || !authority.bytes().all(is_plain) {
        return Vec::new();
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, format!(":{port}")),
        _ => (authority, String::new()),
    };
    if HERE.contains(&host) {
        HERE.iter().map(|host| format!("{scheme}://{host}{port}")).collect()
    } else {
        vec![format!("{scheme}://{authority}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_declared_addresses_nothing_can_be_connected_to() {
        let policy = policy(&["https://host.example".to_owned()], &[]);
        for part in [
            "default-src 'none'",
            "sandbox allow-scripts",
            "frame-ancestors https://host.example",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        for part in ["connect-src", "frame-src", "allow-same-origin", "*"] {
            assert!(!policy.contains(part), "{part}: {policy}");
        }
        assert!(super::policy(&[], &[]).ends_with("frame-ancestors 'none'"));
    }

    #[test]
    fn a_declared_address_cannot_say_anything_else() {
        let cases = [
            ("https://api.example", true),
            ("https://api.example:8443/v1/", true),
            ("wss://api.example", true),
            ("http://api.example", false),
            ("https://", false),
            ("https://*.example", false),
            ("https:", false),
            ("*", false),
            ("data:", false),
            ("https://a.example; script-src *", false),
            ("https://a.example, default-src *", false),
            ("https://a.example\r\nx: y", false),
            ("https://user@a.example", false),
        ];
        for (text, is_kept) in cases {
            assert_eq!(is_source(text), is_kept, "{text}");
        }
        let kept = policy(&[], &["https://a.example".to_owned(), "https://b.example; x".to_owned()]);
        assert!(kept.ends_with("connect-src https://a.example"), "{kept}");
    }

    #[test]
    fn the_pages_that_may_show_a_plugin_are_those_of_the_console() {
        let cases: [(&str, &[&str]); 7] = [
            ("https://host.example", &["https://host.example"]),
            ("https://host.example:444/console", &["https://host.example:444"]),
            ("http://127.0.0.1:7717", &["http://127.0.0.1:7717", "http://localhost:7717"]),
            ("http://[::1]:7717", &["http://[::1]:7717"]),
            ("ftp://host.example", &[]),
            ("https://host.example;x", &[]),
            ("", &[]),
        ];
        for (url, wanted) in cases {
            assert_eq!(ancestors(url), wanted, "{url}");
        }
    }
}
