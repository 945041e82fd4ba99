//! The seed files of a manifest, inline or from templates.

use serde_json::Map;

use super::TemplateResolver;
use super::entries::{Entries, base64, literal};
use super::facts::{Facts, unknown_slot};
use super::member::Member;
use super::reference::quoted;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// The limit of all rendered templates together, in base64. The plan must be readable again, and
/// the reader's limit is 64 MiB.
const MAX_RENDERED_BYTES: usize = 64 << 20;

pub(super) fn add(
    entries: &mut Entries,
    facts: &Facts<'_, '_>,
    templates: Option<&dyn TemplateResolver>,
) -> Result<(), Error> {
    let manifest = facts.root.get("manifest");
    let required = manifest.get("requiredTemplateNames").texts()?;
    let templates = match templates {
        None if !required.is_empty() => return Err(resolver_missing(facts, &required)),
        templates => templates,
    };
    let mut rendered_bytes = 0;
    let seeds = manifest.get("seedFiles");
    for seed in seeds.list()?.items() {
        seed.object()?;
        let slot_key = seed.get("slot").text()?;
        let slot = Slot::from_key(slot_key)
            .ok_or_else(|| unknown_slot(slot_key, "manifest.seedFiles", facts.manifest))?;
        let rel_path = seed.get("relPath").text()?;
        let source = seed.get("source");
        source.object()?;
        let kind = source.get("kind");
        let bytes = match kind.text()? {
            "inline" => source.get("bytesBase64").text()?.to_owned(),
            "template" => {
                let bytes = render(&source, facts, templates)?;
                rendered_bytes += bytes.len();
                if rendered_bytes > MAX_RENDERED_BYTES {
                    let (max, seen) = (MAX_RENDERED_BYTES as u64, rendered_bytes as u64);
                    return Err(Error::limit("bytes of all rendered templates", max, seen));
                }
                bytes
            }
            _ => return Err(kind.refusal("`inline` or `template`")),
        };
        let mount_key = format!("seed:{slot_key}:{rel_path}");
        entries.add(slot, rel_path, Mode::ReadOnly, mount_key, literal(rel_path, bytes))?;
    }
    Ok(())
}

fn render(
    source: &Member<'_, '_>,
    facts: &Facts<'_, '_>,
    templates: Option<&dyn TemplateResolver>,
) -> Result<String, Error> {
    let name = source.get("name").text()?;
    let vars = source.get("vars");
    let none = Map::new();
    let vars = if vars.non_null().is_some() { vars.object()? } else { &none };
    let templates = templates.ok_or_else(|| resolver_missing(facts, &[name]))?;
    Ok(base64(&templates.resolve(name, vars)?))
}

fn resolver_missing(facts: &Facts<'_, '_>, names: &[&str]) -> Error {
    let listed = quoted(&names.join(", "));
    let message = format!(
        "the manifest {} uses templates ({}), but no template resolver is configured",
        facts.manifest,
        listed.escape_debug()
    );
    Error::new(Code::ComposeTemplateResolverMissing, message).detail("templates", listed)
}
