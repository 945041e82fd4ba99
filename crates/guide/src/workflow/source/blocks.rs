//! Structured prompts and template calls.

use super::{
    definitions,
    model::{BlockPart, BlockText, PromptBlocks, TemplateCall},
    names,
    reader::{Object, Reader, ValueAt},
};
use crate::workflow::problem::ProblemCode as Code;

pub(super) fn read(reader: &mut Reader, found: ValueAt<'_>) -> PromptBlocks {
    let mut o = reader.object(found);
    let goal = o.get("goal").map(|found| text(reader, found));
    let constraints = list(reader, &mut o, "constraints");
    let procedure = list(reader, &mut o, "procedure");
    let path = o.path_of("outputRequired");
    let mut entries = o.entries(reader, "outputRequired");
    entries.sort_by_key(|(name, _)| reader.order.position(&path, name));
    let output_required = entries
        .into_iter()
        .map(|(key, (value, path))| {
            let text = text(reader, (value, path.clone()));
            if let BlockText::Parts(parts) = &text
                && parts.iter().any(|part| matches!(part, BlockPart::Ref { .. }))
            {
                let message = "a ref is not allowed in `outputRequired`";
                reader.report(
                    &path,
                    Code::MisplacedRef,
                    message,
                    "Move it to `constraints`, `procedure` or `verify`.",
                );
            }
            (key.to_owned(), text)
        })
        .collect();
    let verify = list(reader, &mut o, "verify");
    reader.finish(&o);
    PromptBlocks { goal, constraints, procedure, output_required, verify }
}

pub(super) fn template_call(reader: &mut Reader, found: ValueAt<'_>) -> TemplateCall {
    let mut o = reader.object(found);
    let call = TemplateCall {
        template_id: o.need_text(reader, "templateId", names::REGISTRY_ID),
        args: definitions::values(reader, &mut o, "args"),
    };
    reader.finish(&o);
    call
}

fn list(reader: &mut Reader, object: &mut Object<'_>, name: &'static str) -> Vec<BlockText> {
    object.list(reader, name, 0..=64, text)
}

fn text(reader: &mut Reader, found: ValueAt<'_>) -> BlockText {
    if found.0.is_array() {
        let items = reader.items(found, 1..=32);
        return BlockText::Parts(items.into_iter().map(|found| part(reader, found)).collect());
    }
    BlockText::Text(reader.text(found, names::PROMPT))
}

fn part(reader: &mut Reader, found: ValueAt<'_>) -> BlockPart {
    let mut o = reader.object(found);
    let is_ref =
        o.need(reader, "kind").and_then(|found| reader.choice(found, &[("text", false), ("ref", true)]));
    let part = match is_ref {
        Some(true) => BlockPart::Ref { ref_id: o.need_text(reader, "refId", names::REGISTRY_ID) },
        Some(false) => BlockPart::Text { text: o.need_text(reader, "text", names::PROMPT) },
        // Without a kind, the expected field is unknown.
        None => return BlockPart::Text { text: String::new() },
    };
    reader.finish(&o);
    part
}
