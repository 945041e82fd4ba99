//! `interlock pack new`.

mod module;

use std::path::{Path, PathBuf};

use packs::name::{PackName, Scope};
use serde_json::{Value, json};

use crate::arguments::{PackKindArgument as Kind, PackNew};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout, Overwrite};

pub(super) fn run(arguments: &PackNew) -> Result<ExitStatus, Failure> {
    let name = PackName::parse(&arguments.name).ok().filter(|name| name.scope() != Scope::Local).ok_or_else(|| {
        let message = format!("`{}` is not a valid pack name, such as vendor.acme.http-tools", arguments.name);
        Failure::from(canon::error::Envelope::new(CommandErrorCode::InputUnreadable, message).suggest(
            "Start with vendor.<organisation>, community.<author>, private.<host> or core, followed by a name.",
        ))
    })?;
    let last = name.as_str().rsplit('.').next().unwrap_or("pack").to_owned();
    let dir = arguments.dir.clone().unwrap_or_else(|| PathBuf::from(&last));
    let (manifest, files) = skeleton(&name, &last, arguments.kind)?;
    let mut text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    text.push('\n');
    write(&dir, "pack.json", text.as_bytes())?;
    for (path, content) in &files {
        write(&dir, path, content)?;
    }
    if arguments.answering.json {
        output::json(&json!({"pack": name, "folder": dir}), Layout::Compact)?;
    } else {
        let shown = dir.display();
        let source = match arguments.kind {
            Kind::Node => "\nIt has an example node: nodes.wasm is compiled from nodes.wat.",
            _ => "",
        };
        output::text(&format!(
            "Created {name} in {shown}/pack.json.{source} Edit it, then run:\n  interlock pack check {shown}"
        ))?;
    }
    Ok(ExitStatus::Success)
}

fn write(dir: &Path, path: &str, content: &[u8]) -> Result<(), Failure> {
    let place = dir.join(path);
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(|cause| Failure::unwritable(Some(folder), cause))?;
    }
    output::write_file(
        &place,
        content,
        Overwrite::Refuse { advice: "Choose another folder. Existing files are never overwritten." },
    )
}

/// The files of the template by path.
type Files = Vec<(&'static str, Vec<u8>)>;

/// A manifest that `check` accepts, and the files it refers to.
fn skeleton(name: &PackName, last: &str, kind: Kind) -> Result<(Value, Files), Failure> {
    let mut manifest = json!({
        "name": name, "version": "0.1.0", "description": "Describe this pack.", "license": "Apache-2.0",
        "engines": {"openwop": ">=1.0.0 <2.0.0"},
    });
    let schema = b"{\n  \"type\": \"object\"\n}\n".to_vec();
    let (kind, member, content, files) = match kind {
        Kind::Node => {
            manifest["runtime"] = json!({"language": "wasm", "entry": "nodes.wasm", "format": "wasm", "wasm": {"abiVersion": 1}});
            let type_id = format!("{name}.greet");
            let node = json!([{
                "typeId": type_id, "version": "0.1.0", "label": "Greet", "category": "data", "role": "pure",
                "inputSchemaRef": "schemas/input.json",
            }]);
            let (text, module) = module::module(name, &type_id)?;
            let input = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let input = format!("{input:#}\n").into_bytes();
            let files =
                vec![("nodes.wasm", module), ("nodes.wat", text.into_bytes()), ("schemas/input.json", input)];
            (None, "nodes", node, files)
        }
        Kind::WorkflowChain => {
            let chain = json!([{
                "chainId": format!("{name}.example"), "version": "0.1.0", "label": "Example", "description": "Waits a moment.",
                "parameters": {"type": "object", "properties": {"ms": {"type": "integer", "minimum": 0, "default": 1000}}},
                "dag": {"nodes": [{"id": "wait", "typeId": "core.delay", "config": {"ms": "{{params.ms}}"}}]},
            }]);
            (Some("workflow-chain"), "chains", chain, Vec::new())
        }
        Kind::Prompt => {
            let prompt = json!([{
                "templateId": last.to_lowercase(), "version": "0.1.0", "kind": "user", "text": "Sum up: {{text}}",
                "variables": [{"name": "text", "type": "string", "required": true, "source": "input"}],
            }]);
            (Some("prompt"), "prompts", prompt, Vec::new())
        }
        Kind::ArtifactType => {
            let content =
                json!([{"artifactTypeId": format!("{name}.example"), "schemaRef": "schemas/example.json"}]);
            (Some("artifact-type"), "artifactTypes", content, vec![("schemas/example.json", schema)])
        }
        Kind::Card => {
            let card = json!([{
                "cardTypeId": format!("{name}.example"),
                "prompt": {"template": "Answer: {question}", "placeholderMapping": {"question": "question"}},
                "inputs": [{"id": "question", "type": "text", "required": true}],
            }]);
            (Some("card"), "cards", card, Vec::new())
        }
        Kind::Connection => {
            let provider = json!({
                "id": "example", "displayName": "Example", "category": "other", "auth": {"kind": "bearer"},
                "reach": {"mcp": {"server": {"url": "https://mcp.example.com/", "transport": "http"}}},
            });
            (Some("connection"), "provider", provider, Vec::new())
        }
        Kind::FrontendPlugin => {
            let plugin = json!([{"pluginId": "example", "surface": "route", "entry": "dist/index.html", "hostApi": ["host.toast"]}]);
            (
                Some("frontend-plugin"),
                "uiPlugins",
                plugin,
                vec![("dist/index.html", b"<!doctype html>\n<title>Example</title>\n".to_vec())],
            )
        }
    };
    if let Some(kind) = kind {
        manifest["kind"] = json!(kind);
    }
    manifest[member] = content;
    Ok((manifest, files))
}
