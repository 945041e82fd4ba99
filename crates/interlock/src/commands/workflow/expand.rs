//! `interlock workflow expand`.
//!
//! The steps are those of the protocol, in its order: the pack, its signature, the types, the parameters, the ids, the edges. What comes
//! out is checked as a host would check it, so that nothing is written which could not be registered.

use std::path::Path;

use canon::error::Envelope;
use flow::definition::{Capabilities, Definition, NodeType, Problem};
use packs::PackErrorCode;
use packs::chain::{self, Expansion, ExpansionId, Place, SpliceError};
use packs::install::{InstalledPack, InstalledPacks};
use packs::manifest::Chain;
use packs::name::{NamespaceGlob, PackName};
use packs::signature::{PublicKey, TrustedKey};
use packs::trust::Proof;
use packs::version::{self, Version};
use serde_json::{Value, json};

use super::servable;
use crate::arguments::WorkflowExpand;
use crate::commands::serve::{Found, read_workflow};
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::input;
use crate::output::{self, GOOD, Layout, Overwrite};
use crate::settings::Settings;

/// How many chains or parameters are told at once.
const MAX_TOLD: usize = 20;
/// How many expansion ids are tried before somebody has to name one.
const MAX_TRIED: u32 = 0xffff;

pub(super) fn run(arguments: &WorkflowExpand, settings: &Settings) -> Result<Answer, Failure> {
    if let Some(path) = &arguments.output
        && path.extension().is_none_or(|extension| extension != "json")
    {
        return Err(usage(&format!(
            "{} would hold JSON, and its name does not end in .json",
            path.display()
        )));
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
    tell(arguments, &pack, &expansion, &expanded)?;
    Ok(Answer::Yes)
}

/// Everything that an expansion needs but its id.
struct Expanding<'a> {
    document: &'a Value,
    chain: &'a Chain,
    parameters: &'a Value,
    capabilities: &'a Capabilities,
}

impl Expanding<'_> {
    /// The workflow with the chain in it, under the id that was named, or under the first that is free.
    fn carry_out(&self, arguments: &WorkflowExpand) -> Result<(Value, Expansion), Failure> {
        let place = match (&arguments.on, &arguments.after, &arguments.before) {
            (Some(edge), _, _) => Place::Edge(edge),
            (None, None, None) => Place::Beside,
            (None, after, before) => Place::Between { after: after.as_deref(), before: before.as_deref() },
        };
        if let Some(id) = &arguments.id {
            let id = ExpansionId::parse(id).ok_or_else(|| {
                usage(&format!("`{id}` is no expansion id: 1 to 32 lower-case letters and digits"))
            })?;
            return self.under(&id, place)?.map_err(|error| misplaced(&error));
        }
        for number in 1..=MAX_TRIED {
            // Numbers and not chance, so that the same command gives the same file.
            let Some(id) = ExpansionId::parse(&format!("{number:04x}")) else { continue };
            match self.under(&id, place)? {
                Err(SpliceError::Taken(_)) => {}
                found => return found.map_err(|error| misplaced(&error)),
            }
        }
        Err(usage("every expansion id up to ffff is taken; name one with --id"))
    }

    fn under(
        &self,
        id: &ExpansionId,
        place: Place<'_>,
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

/// Which parameters there are, for somebody who gave others.
fn takes(chain: &Chain) -> String {
    let required = chain.parameters.get("required").and_then(Value::as_array);
    let properties = chain.parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut told: Vec<String> = properties
        .map(|(name, property)| {
            let kind = property.get("type").and_then(Value::as_str).unwrap_or("any value");
            let needed = required.is_some_and(|names| names.iter().any(|known| known == name));
            format!("{name} ({}{kind})", if needed { "required, " } else { "" })
        })
        .collect();
    told.truncate(MAX_TOLD);
    let known = if told.is_empty() { "none by name".to_owned() } else { told.join(", ") };
    format!("Give --parameters as a JSON object. The chain has {known}. Nothing was written.")
}

/// Reads the workflow that takes the chain.
fn workflow(path: &Path) -> Result<Value, Failure> {
    // A file that is not there is told as such, and not as one that holds no workflow.
    std::fs::metadata(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
    let told = |reason: &str, advice: &str| {
        let message = format!("{}: {reason}", path.display());
        Envelope::new(CommandErrorCode::InputUnreadable, message).suggest(advice).into()
    };
    match read_workflow(path) {
        Found::Run(document) => Ok(document),
        Found::Guided => Err(told(
            "the workflow guides an agent step by step, and has no nodes that a chain could join",
            "Name a file with `nodes` and `edges`.",
        )),
        Found::Neither(reason) => Err(told(&reason, "Name a JSON or YAML file with `nodes` and `edges`.")),
    }
}

/// The parameters: an object as it is, or a file that holds one.
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
        "the parameters are no JSON object; give one such as '{\"title\": \"Ship it?\"}', or a file with one",
    ))
}

/// The installed pack, after its signature was verified.
fn pack(arguments: &WorkflowExpand, settings: &Settings) -> Result<InstalledPack, Failure> {
    let (name, version) = named(&arguments.pack).ok_or_else(|| {
        usage(&format!("`{}` is no pack, such as vendor.acme.chains@1.0.0", arguments.pack))
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
                "Install it first: `interlock pack install`. `interlock pack list` shows what is there."
            }
            PackErrorCode::SignatureInvalid => {
                "Remove the pack and install it again from its publisher, or name the right key with --key. Nothing was written."
            }
            PackErrorCode::SignatureUnverifiable => {
                "Name the publisher's public key with --key, as PEM, or install the pack again. Nothing was written."
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

/// The chain that was named, or the only one there is.
fn chosen<'p>(pack: &'p InstalledPack, named: Option<&str>) -> Result<&'p Chain, Failure> {
    match (named, pack.manifest.chains()) {
        (None, [only]) => Ok(only),
        (None, [_, _, ..]) => {
            let known: Vec<&str> = pack.manifest.type_ids().into_iter().take(MAX_TOLD).collect();
            Err(usage(&format!(
                "{} has several chains; choose one with --chain: {}",
                pack.manifest.id(),
                known.join(", ")
            )))
        }
        // A pack of another kind is refused with its own words.
        (named, _) => Ok(chain::find(&pack.manifest, named.unwrap_or_default())?),
    }
}

/// Writes the workflow, and says what became of the chain.
fn tell(
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
        .suggest("Name an edge with --on, or nodes with --after and --before. Nothing was written.")
        .into()
}

/// The result is none that could be registered.
fn refused(problems: &[Problem]) -> Failure {
    let mut told = problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
    let first = told.next().unwrap_or_default();
    let causes: Vec<String> = told.collect();
    Envelope::new(CommandErrorCode::HostRefused, format!("no host would take the expanded workflow: {first}"))
        .suggest("Correct the workflow, the parameters or the place. Nothing was written.")
        .detail("causes", causes)
        .into()
}

fn usage(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("See `interlock help workflow expand` for examples.")
        .into()
}
