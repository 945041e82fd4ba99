//! Names of variables: their syntax, and reserved names.

pub const MAX_NAME: usize = 128;

/// Names that the platform sets, or that would change which programs run.
const RESERVED: [&str; 8] =
    ["HOME", "PATH", "USER", "SHELL", "PWD", "TMPDIR", "LD_PRELOAD", "LD_LIBRARY_PATH"];

/// Reserved prefixes: the current one, and the one of earlier manifests.
const RESERVED_PREFIXES: [&str; 2] = ["INTERLOCK_", "XEMA_"];

/// Whether it is a valid name: `UPPER_SNAKE_CASE`, starting with a letter.
pub fn is_variable(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes.next().is_some_and(|byte| byte.is_ascii_uppercase())
        && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
