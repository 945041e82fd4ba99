//! Any text, given to the reader of references to interrupts.
//!
//! * It never panics.
//! * What it accepts is what signing writes.
//! * Any names are signed and read back as they were.
//! * A signature is valid for one body.
#![no_main]

use canon::time::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flow::id::{InterruptId, NodeId, RunId};
use flow::token::{Intent, InterruptToken, TokenError};
use libfuzzer_sys::fuzz_target;

const SECRET: [u8; 32] = [7; 32];
const OLD: [u8; 32] = [8; 32];

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(token) = InterruptToken::verify(&text, &[SECRET, OLD], Timestamp(0)) {
        assert!([SECRET, OLD].iter().any(|secret| token.sign(secret) == text), "another spelling of a token");
    }
    // Every name is returned unchanged.
    let token = InterruptToken {
        run_id: RunId::new(text.chars().take(100).collect::<String>()),
        node_id: NodeId::new(text.chars().skip(100).take(100).collect::<String>()),
        interrupt_id: InterruptId::new(text.chars().skip(200).take(100).collect::<String>()),
        expires_at: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        intent: if bytes.len() % 2 == 0 { Intent::Resolve } else { Intent::Inspect },
        holder: None,
    };
    let signed = token.sign(&OLD);
    let read = InterruptToken::verify(&signed, &[SECRET, OLD], Timestamp(0));
    match read {
        Ok(read) => assert_eq!(read, token),
        Err(TokenError::Expired) => assert_eq!(token.expires_at, 0),
        Err(TokenError::Unknown) => assert!(signed.len() > flow::token::MAX_BYTES),
    }
    // A body of a token, with a signature that does not belong to it.
    let (_, signature) = signed.split_once('.').expect("a token has two parts");
    let forged = format!("{}.{signature}", URL_SAFE_NO_PAD.encode(bytes));
    if let Ok(read) = InterruptToken::verify(&forged, &[SECRET, OLD], Timestamp(0)) {
        assert_eq!(read, token, "a signature is valid for another body");
    }
});
