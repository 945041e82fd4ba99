//! `interlock workflow expand`.
//!
//! Follows the protocol's order: pack, signature, types, parameters, ids, edges. The result is
//! validated as a host would, so that only workflows that can be registered are written.

use std::path::Path;

use canon::error::Envelope;
use flow::definition::{Capabilities, Definition, NodeType, Problem};
use packs::PackErrorCode;
use packs::chain::{self, Expansion, ExpansionId, InsertionPoint, SpliceError};
use packs::install::{InstalledPack, InstalledPacks};
use packs::manifest::Chain;
use packs::name::{NamespaceGlob, PackName};
use packs::signature::{PublicKey, TrustedKey};
use packs::trust::Proof;
use packs::version::{self, Version};
use serde_json::{Value, json};

use super::servable;
use crate::arguments::WorkflowExpand;
use crate::commands::serve::{WorkflowFile, read_workflow};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::input;
use crate::output::{self, GOOD, Layout, Overwrite};
use crate::settings::Settings;

/// How many chains or parameters are listed.
const MAX_LISTED: usize = 20;
/// How many expansion ids are tried before one must be given.
const MAX_TRIED: u32 = 0xffff;

pub(super) fn run(arguments: &WorkflowExpand, settings: &Settings) -> Result<ExitStatus, Failure> {
    if let Some(path) = &arguments.output
        && path.extension().is_none_or(|extension| extension != "json")
    {
        return Err(usage(&format!("the output is JSON, but {} does not end in .json", path.display())));
    }
    let document = workflow(&arguments.file)?;
    let parameters = parameters(arguments.parameters.as_deref())?;
    let pack = pack(arguments, settings)?;
    let chain = chosen(&pack, arguments.chain.as_deref())?;
    let capabilities = servable(settings);
    let expanding =
        Expanding { document: &document, chain, parameters: &parameters, capabilities: &capabilities };
    let (expanded, expansion) = expanding.carry_out(arguments)?;
    Definition::check(&expanded, &capabilities).map_err(|problems| refused(&problems))?;
    report(arguments, &pack, &expansion, &expanded)?;
    Ok(ExitStatus::Success)
}

/// The inputs of an expansion, except for its id.
struct Expanding<'a> {
    document: &'a Value,
    chain: &'a Chain,
    parameters: &'a Value,
    capabilities: &'a Capabilities,
}

impl Expanding<'_> {
    /// The workflow with the chain inserted, under the given expansion id or the first free one.
    fn carry_out(&self, arguments: &WorkflowExpand) -> Result<(Value, Expansion), Failure> {
        let place = match (&arguments.on, &arguments.after, &arguments.before) {
            (Some(edge), _, _) => InsertionPoint::Edge(edge),
            (None, None, None) => InsertionPoint::Beside,
            (None, after, before) => {
                InsertionPoint::Between { after: after.as_deref(), before: before.as_deref() }
            }
        };
        if let Some(id) = &arguments.id {
            let id = ExpansionId::parse(id).ok_or_else(|| {
                usage(&format!(
                    "`{id}` is not a valid expansion id: use 1 to 32 lower-case letters and digits"
                ))
            })?;
            return self.under(&id, place)?.map_err(|error| misplaced(&error));
        }
        for number in 1..=MAX_TRIED {
            // Sequential instead of random, so that the same command gives the same file.
            let Some(id) = ExpansionId::parse(&format!("{number:04x}")) else { continue };
            match self.under(&id, place)? {
                Err(SpliceError::DuplicateId(_)) => {}
                found => return found.map_err(|error| misplaced(&error)),
            }
        }
        Err(usage("all expansion ids up to ffff are in use; choose one with --id"))
    }

    fn under(
        &self,
        id: &ExpansionId,
        place: InsertionPoint<'_>,
    ) -> Result<Result<(Value, Expansion), SpliceError>, Failure> {
        let is_known = |type_id: &str| match NodeType::parse(type_id) {
            Some(kind) => kind.missing_capability(self.capabilities).is_none(),
            None => self.capabilities.pack_types.contains(type_id),
        };
        let expansion = chain::expand(self.chain, self.parameters, id, is_known).map_err(|error| {
            let envelope = error.envelope();
            Failure::from(match error.code() {
                PackErrorCode::ChainParameterInvalid => envelope.suggest(takes(self.chain)),
                _ => envelope,
            })
        })?;
        let mut expanded = self.document.clone();
        Ok(expansion.splice(&mut expanded, place).map(|()| (expanded, expansion)))
    }
}

/// Lists the parameters of a chain, for errors.
fn takes(chain: &Chain) -> String {
    let required = chain.parameters.get("required").and_then(Value::as_array);
    let properties = chain.parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut printed: Vec<String> = properties
        .map(|(name, property)| {
            let kind = property.get("type").and_then(Value::as_str).unwrap_or("any value");
            let needed = required.is_some_and(|names| names.iter().any(|known| known == name));
            format!("{name} ({}{kind})", if needed { "required, " } else { "" })
        })
        .collect();
    printed.truncate(MAX_LISTED);
    let known = if printed.is_empty() { "no named parameters".to_owned() } else { printed.join(", ") };
    format!("Pass --parameters as a JSON object. Parameters of the chain: {known}. Nothing was written.")
}

/// Reads the target workflow.
fn workflow(path: &Path) -> Result<Value, Failure> {
    // Report a missing file as such, not as an invalid workflow.
    std::fs::metadata(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
    let printed = |reason: &str, advice: &str| {
        let message = format!("{}: {reason}", path.display());
        Envelope::new(CommandErrorCode::InputUnreadable, message).suggest(advice).into()
    };
    match read_workflow(path) {
        WorkflowFile::Run(document) => Ok(document),
        WorkflowFile::Guided => Err(printed(
            "the workflow has `steps` for an agent; a chain needs a workflow with `nodes`",
            "Use a file with `nodes` and `edges`.",
        )),
        WorkflowFile::Neither(reason) => {
            Err(printed(&reason, "Use a JSON or YAML file with `nodes` and `edges`."))
        }
    }
}

/// The parameters: a JSON object, or a file with one.
fn parameters(given: Option<&str>) -> Result<Value, Failure> {
    let value = match given {
        None => json!({}),
        Some(text) if text.trim_start().starts_with('{') => {
            let read = canon::json::read(text.as_bytes(), &canon::json::Limits::DEFAULT);
            read.map_err(|error| Failure::from(error.envelope().detail("source", "--parameters")))?
        }
        Some(path) => input::json(Some(Path::new(path)))?,
    };
    if value.is_object() {
        return Ok(value);
    }
    Err(usage(
        "the parameters are not a JSON object; pass one such as '{\"title\": \"Ship it?\"}', or a file with one",
    ))
}

/// The installed pack, with a verified signature.
fn pack(arguments: &WorkflowExpand, settings: &Settings) -> Result<InstalledPack, Failure> {
    let (name, version) = named(&arguments.pack).ok_or_else(|| {
        usage(&format!("`{}` is not a pack name, such as vendor.acme.chains@1.0.0", arguments.pack))
    })?;
    let mut keys = Vec::with_capacity(arguments.keys.len());
    for path in &arguments.keys {
        let pem = input::read(Some(path), "a key", 16 * 1024)?;
        let key = PublicKey::from_pem(&String::from_utf8_lossy(&pem))?;
        let permitted = NamespaceGlob::parse("*").into_iter().collect();
        keys.push(TrustedKey { id: key.fingerprint(), key, permitted });
    }
    let installed = InstalledPacks::open(&settings.data_dir.value.join("packs"))?;
    let loaded = installed.load_verified(&name, version.as_ref(), &keys);
    loaded.map_err(|error| {
        let envelope = error.envelope();
        let advice = match error.code() {
            PackErrorCode::NotFound => {
                "Install it with `interlock pack install`, or list the installed packs with `interlock pack list`."
            }
            PackErrorCode::SignatureInvalid => {
                "Remove the pack and install it again from its publisher, or pass the right key with --key. Nothing was written."
            }
            PackErrorCode::SignatureUnverifiable => {
                "Pass the publisher's public key (PEM) with --key, or install the pack again. Nothing was written."
            }
            _ => return envelope.into(),
        };
        Failure::from(envelope.suggest(advice))
    })
}

fn named(text: &str) -> Option<(PackName, Option<Version>)> {
    match text.split_once('@') {
        None => Some((PackName::parse(text).ok()?, None)),
        Some((name, number)) => Some((PackName::parse(name).ok()?, Some(version::parse(number)?))),
    }
}

/// The chain given by name, or the only one.
fn chosen<'p>(pack: &'p InstalledPack, named: Option<&str>) -> Result<&'p Chain, Failure> {
    match (named, pack.manifest.chains()) {
        (None, [only]) => Ok(only),
        (None, [_, _, ..]) => {
            let known: Vec<&str> = pack.manifest.type_ids().into_iter().take(MAX_LISTED).collect();
            Err(usage(&format!(
                "{} has several chains; choose one with --chain: {}",
                pack.manifest.id(),
                known.join(", ")
            )))
        }
        // A pack of another kind gets the chain error.
        (named, _) => Ok(chain::find(&pack.manifest, named.unwrap_or_default())?),
    }
}

/// Writes the workflow and reports the new nodes.
fn report(
    arguments: &WorkflowExpand,
    pack: &InstalledPack,
    expansion: &Expansion,
    expanded: &Value,
) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(expanded).unwrap_or_default();
    text.push('\n');
    if let Some(path) = &arguments.output {
        output::write_file(path, text.as_bytes(), Overwrite::Replace)?;
    }
    if arguments.answering.json {
        let mut document = json!({
            "workflowId": expanded["id"], "pack": pack.manifest.id(), "proof": pack.record.proof,
            "chainId": expansion.chain_id, "chainVersion": expansion.chain_version,
            "expansionId": expansion.expansion_id, "idMap": expansion.id_map,
        });
        match &arguments.output {
            Some(path) => document["file"] = json!(path),
            None => document["workflow"] = expanded.clone(),
        }
        return output::json(&document, Layout::Compact);
    }
    let proof = match &pack.record.proof {
        Proof::Signed { key_id } => format!("signed by {key_id}"),
        Proof::SelfSigned { fingerprint } => format!("signed by its own key {fingerprint}"),
        Proof::Unsigned => "not signed".to_owned(),
    };
    let nodes: Vec<&str> = expansion.nodes.iter().map(|node| node.id.as_str()).collect();
    let words = format!(
        "`{}` of {}, {proof}, became {}",
        expansion.chain_id,
        pack.manifest.id(),
        output::clean(&nodes.join(", "))
    );
    match &arguments.output {
        Some(path) => {
            let file = path.display();
            output::text(&format!(
                "{GOOD}{file}{GOOD:#}: {words}. To run it:\n  interlock run ./{file} --follow"
            ))
        }
        None => {
            output::note(&format!("{words}."));
            output::bytes(text.as_bytes())
        }
    }
}

fn misplaced(error: &SpliceError) -> Failure {
    Envelope::new(CommandErrorCode::ChainMisplaced, error.to_string())
        .suggest("Pass an edge with --on, or nodes with --after and --before. Nothing was written.")
        .into()
}

/// The expanded workflow is invalid.
fn refused(problems: &[Problem]) -> Failure {
    let mut printed = problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
    let first = printed.next().unwrap_or_default();
    let causes: Vec<String> = printed.collect();
    Envelope::new(CommandErrorCode::HostRefused, format!("the expanded workflow is invalid: {first}"))
        .suggest("Fix the workflow, the parameters or the position. Nothing was written.")
        .detail("causes", causes)
        .into()
}

fn usage(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("See `interlock help workflow expand` for examples.")
        .into()
}
