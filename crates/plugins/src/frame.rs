//! The content security policy of a plugin's frame.

/// The maximum length of an address that a plugin declares.
const MAX_SOURCE: usize = 256;
/// The names of this machine. Browsers treat them as different origins.
const LOCAL_HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// The policy of the document of a plugin. `ancestors` are the origins whose pages may embed it.
///
/// The document can load and send nothing except what it contains itself, and it is sandboxed even if it is opened outside a frame. The
/// policy of the embedding page restricts the frame to the origin of plugins.
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

/// Whether an address is safe in a policy: an encrypted scheme, a host without wildcards, and a path.
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

/// The origins of the console pages: the public one, and for this machine all its names.
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
    if LOCAL_HOSTS.contains(&host) {
        LOCAL_HOSTS.iter().map(|host| format!("{scheme}://{host}{port}")).collect()
    } else {
        vec![format!("{scheme}://{authority}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_declared_addresses_no_connection_is_allowed() {
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
    fn a_declared_address_cannot_add_directives() {
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
    fn only_pages_of_the_console_may_embed_a_plugin() {
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
