//! Every error code of tokens, keys and bundles has a page that starts with its name.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the engine, not for its tests")]

use std::path::Path;

use guide::bundle::BundleErrorCode;
use guide::token::{KeyringErrorCode, TokenErrorCode};

#[test]
fn every_code_has_a_page() {
    let tokens = TokenErrorCode::ALL.iter().map(|code| code.as_str());
    let keyring = KeyringErrorCode::ALL.iter().map(|code| code.as_str());
    let bundles = BundleErrorCode::ALL.iter().map(|code| code.as_str());
    for code in tokens.chain(keyring).chain(bundles) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/errors/{code}.md"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{code}: {cause}"));
        assert!(page.starts_with(&format!("# {code}\n\n")), "{code}: the title");
        assert!(page.contains("**What to do.**"), "{code}: what to do");
    }
}
