//! Any text, given to the readers of tokens and keyrings.
//!
//! * They never panic.
//! * Without the key nothing is accepted: whatever verifies is what minting writes.
#![no_main]

use guide::token::{self, Keyring};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(keyring) = Keyring::decode(bytes) {
        assert_eq!(Keyring::decode(keyring.encode().as_bytes()), Ok(keyring));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let keyring = Keyring::new([7; 32]).rotate([8; 32]);
    match token::verify(&keyring, text) {
        Ok(token) => assert_eq!(token::mint(&keyring, &token), text),
        Err(refusal) => assert!(!refusal.envelope().suggestion().is_empty()),
    }
    if let Err(refusal) = token::verify_short(&keyring, text) {
        let _ = refusal.envelope().to_string();
    }
});
