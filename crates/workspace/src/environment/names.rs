//! Names of variables: how they are spelt, and which belong to the platform.

/// The longest name, in bytes.
pub const MAX_NAME: usize = 128;

/// Names that the platform sets, or that would change which programs run.
const RESERVED: [&str; 8] =
    ["HOME", "PATH", "USER", "SHELL", "PWD", "TMPDIR", "LD_PRELOAD", "LD_LIBRARY_PATH"];

/// Families of the platform: ours, and the one that manifests of before know.
const RESERVED_PREFIXES: [&str; 2] = ["INTERLOCK_", "XEMA_"];

/// Whether it is a name: `UPPER_SNAKE_CASE`, a letter first.
pub fn is_variable(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes.next().is_some_and(|byte| byte.is_ascii_uppercase())
        && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Whether only the platform may set it.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
