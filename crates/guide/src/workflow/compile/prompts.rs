//! Features, refs and blocks: joins sections to one prompt.

use std::collections::BTreeMap;

use super::{
    MAX_INJECTED_BYTES, Pass, PassNote,
    draft::{Context, Draft, Node, each_step},
};
use crate::workflow::{
    problem::{ProblemCode as Code, member},
    registry::{Feature, FeatureItem},
    source::{BlockPart, BlockText, Instruction, PromptBlocks},
};

/// A text with its origin.
struct Piece {
    pass: Pass,
    origin: Option<String>,
    text: String,
}

/// An item of a section: pieces that are concatenated.
type SectionItem = Vec<Piece>;

/// Renders all structured prompts.
pub(super) fn render(context: &mut Context<'_>, nodes: &mut [Node]) {
    let features = declared(context);
    each_step(nodes, &mut |draft| {
        let blocks = match &mut draft.step.instruction {
            Instruction::PromptBlocks(blocks) => std::mem::take(blocks),
            Instruction::Prompt(prompt) => {
                let note = if draft.delegations.is_empty() {
                    draft.authored_characters = prompt.chars().count();
                    "the author's text"
                } else {
                    "the instructions for delegating"
                };
                context.notes.push(PassNote {
                    pass: Pass::Authored,
                    step_id: Some(draft.step.id.clone()),
                    lines: Some((1, prompt.lines().count().max(1))),
                    origin_id: None,
                    note: note.to_owned(),
                });
                return;
            }
            // A failed expansion was reported, and leaves no call.
            Instruction::TemplateCall(_) => return,
        };
        let prompt = step(context, draft, blocks, &features);
        draft.step.instruction = Instruction::Prompt(prompt);
    });
}

/// The features of the workflow, ordered by id.
fn declared(context: &mut Context<'_>) -> Vec<Feature> {
    let mut features = Vec::new();
    let names: Vec<(String, String)> =
        context.features.iter().map(|(id, path)| (id.clone(), path.clone())).collect();
    for (id, path) in names {
        match context.registries.feature(&id) {
            Some(feature) => features.push(*feature),
            None => {
                let known = context.registries.feature_ids();
                context.unknown(&path, Code::UnknownFeature, "feature", &id, &known);
            }
        }
    }
    features
}

fn step(context: &mut Context<'_>, draft: &mut Draft, blocks: PromptBlocks, features: &[Feature]) -> String {
    let path = member(&draft.path, "promptBlocks");
    let mut injected: BTreeMap<String, String> = BTreeMap::new();
    let authored = |text: BlockText| -> SectionItem {
        let parts = match text {
            BlockText::Text(text) => vec![BlockPart::Text { text }],
            BlockText::Parts(parts) => parts,
        };
        let piece = |part| match part {
            BlockPart::Text { text } => Piece { pass: Pass::Blocks, origin: None, text },
            BlockPart::Ref { ref_id } => {
                Piece { pass: Pass::Refs, origin: Some(ref_id), text: String::new() }
            }
        };
        parts.into_iter().map(piece).collect()
    };
    let goal: Vec<SectionItem> = blocks.goal.into_iter().map(authored).collect();
    let mut constraints: Vec<SectionItem> = blocks.constraints.into_iter().map(authored).collect();
    let mut procedure: Vec<SectionItem> = blocks.procedure.into_iter().map(authored).collect();
    let mut verify: Vec<SectionItem> = blocks.verify.into_iter().map(authored).collect();
    let output: Vec<(String, SectionItem)> =
        blocks.output_required.into_iter().map(|(name, text)| (name, authored(text))).collect();

    let written = |points: &[SectionItem]| -> usize {
        points.iter().flatten().map(|piece| piece.text.trim().chars().count()).sum()
    };
    let own =
        [&goal, &constraints, &procedure, &verify].into_iter().map(|points| written(points)).sum::<usize>()
            + output
                .iter()
                .map(|(_, point)| point.iter().map(|piece| piece.text.trim().chars().count()).sum::<usize>())
                .sum::<usize>();
    draft.authored_characters = own;
    let refs = [&goal, &constraints, &procedure, &verify]
        .into_iter()
        .flatten()
        .flatten()
        .any(|piece| piece.pass == Pass::Refs);
    if own == 0 && !refs {
        context.problem(&path, Code::EmptyPrompt, "all sections are empty", "Add a `goal` or a `procedure`.");
        return String::new();
    }

    for feature in features {
        let mut own_text = Vec::new();
        for (section, items) in [
            (&mut constraints, feature.constraints),
            (&mut procedure, feature.procedure),
            (&mut verify, feature.verify),
        ] {
            for item in items {
                section.push(vec![match item {
                    FeatureItem::Text(text) => {
                        own_text.push(*text);
                        Piece {
                            pass: Pass::Features,
                            origin: Some(feature.id.to_owned()),
                            text: (*text).to_owned(),
                        }
                    }
                    FeatureItem::Ref(id) => {
                        Piece { pass: Pass::Refs, origin: Some((*id).to_owned()), text: String::new() }
                    }
                }]);
            }
        }
        if !own_text.is_empty() {
            injected.insert(feature.id.to_owned(), own_text.join("\n"));
        }
    }

    // Every use of a ref counts, because the limit applies to the text of the step.
    let mut bytes: usize = injected.values().map(String::len).sum();
    for piece in [goal.as_slice(), &constraints, &procedure, &verify].into_iter().flatten().flatten() {
        let (Pass::Refs, Some(id)) = (piece.pass, &piece.origin) else { continue };
        match context.registries.reference_text(id).map(str::to_owned) {
            Some(text) => {
                bytes += text.len();
                injected.insert(id.clone(), text);
            }
            None => {
                let known = context.registries.reference_ids();
                context.unknown(&path, Code::UnknownRef, "ref", id, &known);
            }
        }
    }
    if bytes > MAX_INJECTED_BYTES {
        let message = format!(
            "refs and features insert {bytes} bytes into the step; the limit is {MAX_INJECTED_BYTES}"
        );
        context.problem(&path, Code::InjectionTooLarge, message, "Use fewer refs or features.");
        return String::new();
    }
    for (origin, text) in &injected {
        draft.inject(origin, text);
    }

    let mut writer =
        Writer { step_id: draft.step.id.clone(), lines: Vec::new(), notes: Vec::new(), refs: &injected };
    writer.section("Goal", goal.into_iter().map(|point| (String::new(), point)).collect());
    writer.section("Constraints", constraints.into_iter().map(|point| ("- ".to_owned(), point)).collect());
    let numbered =
        procedure.into_iter().enumerate().map(|(index, point)| (format!("{}. ", index + 1), point));
    writer.section("Procedure", numbered.collect());
    writer.section(
        "Output Required",
        output.into_iter().map(|(name, point)| (format!("**{name}**: "), point)).collect(),
    );
    writer.section("Verify", verify.into_iter().map(|point| ("- ".to_owned(), point)).collect());
    let Writer { lines, mut notes, .. } = writer;
    context.notes.append(&mut notes);
    lines.join("\n")
}

struct Writer<'w> {
    step_id: String,
    lines: Vec<String>,
    notes: Vec<PassNote>,
    refs: &'w BTreeMap<String, String>,
}

impl Writer<'_> {
    fn section(&mut self, title: &str, points: Vec<(String, SectionItem)>) {
        let points: Vec<_> = points
            .into_iter()
            .map(|(mark, point)| {
                let sources: Vec<_> = point.iter().map(|piece| (piece.pass, piece.origin.clone())).collect();
                (mark, self.text(&point), sources)
            })
            .filter(|(_, text, _)| !text.is_empty())
            .collect();
        if points.is_empty() {
            return;
        }
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        self.lines.push(format!("## {title}"));
        let heading = self.lines.len();
        self.note(Pass::Blocks, None, heading, heading, format!("the heading `{title}`"));
        for (mark, text, sources) in points {
            let first = self.lines.len() + 1;
            // Further lines of an item are indented so that they stay part of it.
            let indent =
                if mark.starts_with("**") { String::new() } else { " ".repeat(mark.chars().count()) };
            for (index, line) in text.lines().enumerate() {
                let start = if index == 0 { &mark } else { &indent };
                self.lines.push(format!("{start}{line}").trim_end().to_owned());
            }
            let last = self.lines.len();
            for (pass, origin) in sources {
                self.note(pass, origin, first, last, format!("an item of `{title}`"));
            }
        }
    }

    fn text(&self, point: &SectionItem) -> String {
        let parts = point.iter().map(|piece| match (piece.pass, &piece.origin) {
            (Pass::Refs, Some(id)) => self.refs.get(id).map_or("", String::as_str),
            _ => piece.text.as_str(),
        });
        parts.collect::<String>().trim().to_owned()
    }

    fn note(&mut self, pass: Pass, origin_id: Option<String>, first: usize, last: usize, note: String) {
        let step_id = Some(self.step_id.clone());
        self.notes.push(PassNote { pass, step_id, lines: Some((first, last)), origin_id, note });
    }
}
