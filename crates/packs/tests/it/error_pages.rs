//! Every pack error code is documented.

use std::collections::BTreeSet;
use std::path::Path;

use packs::PackErrorCode;
use packs::manifest::ManifestErrorCode;
use packs::prompt::PromptErrorCode;
use packs::publish::PublishErrorCode;
use packs::registry::RegistryErrorCode;

#[test]
fn every_code_has_a_page() {
    let codes = PackErrorCode::ALL.iter().map(|code| code.as_str());
    let manifest = ManifestErrorCode::ALL.iter().map(|code| code.as_str());
    let publish = PublishErrorCode::ALL.iter().map(|code| code.as_str());
    let registry = RegistryErrorCode::ALL.iter().map(|code| code.as_str());
    let prompt = PromptErrorCode::ALL.iter().map(|code| code.as_str());
    for code in codes.chain(manifest).chain(publish).chain(registry).chain(prompt).collect::<BTreeSet<_>>() {
        // One page for both: case-insensitive file systems cannot hold two.
        let code = if code == "forbidden" { "FORBIDDEN" } else { code };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/errors/{code}.md"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{code}: {cause}"));
        assert!(page.starts_with(&format!("# {code}\n\n")), "{code}: the title");
        assert!(page.contains("**What to do.**"), "{code}: what to do");
    }
}
