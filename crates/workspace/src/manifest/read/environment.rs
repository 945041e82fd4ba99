//! `spec.env`, `spec.credentials` and `spec.outputSurface`.

use super::reader::{Credentials, Reader};
use crate::Code;
use crate::environment::names;
use crate::manifest::model::{Credential, EnvItem, Expression, OutputSurface};
use crate::manifest::node::{Node, Tree};
use crate::manifest::problem::{At, quoted};
use crate::manifest::token;
use crate::manifest::vocabulary::OutputKind;

const MAX_SOURCE_REF: usize = 1024;

/// The most credentials. All are fetched at once.
const MAX_CREDENTIALS: usize = 64;
const MAX_HEALTH_PATH: usize = 1024;

pub(super) fn env(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<EnvItem> {
    let mut env = Vec::new();
    for (at, item) in reader.items(node, at) {
        let Some(fields) = reader.fields(item, &at, &["name", "value"]) else { continue };
        let name = reader.required_text(&fields, &at, "name");
        if let Some((text, node)) = name {
            let at = at.member("name");
            if !names::is_variable(text) {
                let message = format_args!(
                    "{} is not a valid variable name: use UPPER_SNAKE_CASE, starting with a letter, at most {} characters",
                    quoted(text),
                    names::MAX_NAME
                );
                reader.problem(node, &at, message);
            } else if names::is_reserved(text) {
                let message = format_args!("{} is reserved for the platform; use another name", quoted(text));
                reader.problems.add_as(Code::EnvReservedName, &at, node.position, message);
            }
        }
        let Some(node) = reader.required(&fields, &at, "value") else { continue };
        let at = at.member("value");
        let value = match &node.tree {
            // Ports are often written as numbers, switches as booleans.
            Tree::Number(_) | Tree::Boolean(_) => {
                Some(Expression::Plain(canon::canonical::string_of(&node.value()).into()))
            }
            _ => match reader.text(node, &at) {
                Some(text) if text.contains('\0') => {
                    reader.problem(node, &at, "a value cannot contain NUL");
                    None
                }
                Some(_) => reader.expression(node, &at, Credentials::Allowed),
                None => None,
            },
        };
        if let (Some((name, _)), Some(value)) = (name, value) {
            env.push(EnvItem { name: name.to_owned(), value, from_base: false });
        }
    }
    env
}

pub(super) fn credentials(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<Credential> {
    let mut credentials = Vec::new();
    let items = reader.items(node, at);
    if items.len() > MAX_CREDENTIALS {
        let message = format_args!("{} credentials; the limit is {MAX_CREDENTIALS}", items.len());
        reader.problem(node, at, message);
        return credentials;
    }
    for (at, item) in items {
        let members = ["name", "kind", "sourceRef", "required"];
        let Some(fields) = reader.fields(item, &at, &members) else { continue };
        let name = reader.required_text(&fields, &at, "name");
        if let Some((text, node)) = name
            && !token::is_name(text)
        {
            let message = format_args!(
                "{} is not a valid credential name: use letters, digits, `_` and `-`",
                quoted(text)
            );
            reader.problem(node, &at.member("name"), message);
        }
        let kind = reader.required_choice(&fields, &at, "kind");
        let source_ref = reader.name(&fields, &at, "sourceRef", MAX_SOURCE_REF);
        let required = reader.flag(&fields, &at, "required");
        if let (Some((name, _)), Some(kind), Some(source_ref)) = (name, kind, source_ref) {
            let (name, source_ref) = (name.to_owned(), source_ref.to_owned());
            credentials.push(Credential { name, kind, source_ref, required });
        }
    }
    credentials
}

pub(super) fn output_surface(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<OutputSurface> {
    let fields = reader.fields(node, at, &["kind", "port", "healthPath", "autoOpen"])?;
    let kind: Option<OutputKind> = reader.required_choice(&fields, at, "kind");
    let auto_open = reader.flag(&fields, at, "autoOpen");
    let health_path = reader.optional_text(&fields, at, "healthPath", MAX_HEALTH_PATH).unwrap_or("/");
    if !health_path.starts_with('/')
        && let Some(node) = fields.get("healthPath")
    {
        reader.problem(node, &at.member("healthPath"), "the path must start with `/`");
    }
    let port = match fields.get("port") {
        Some(node) => match node.value().as_u64().and_then(|port| u16::try_from(port).ok()) {
            Some(port) if port > 0 => Some(port),
            _ => {
                reader.problem(node, &at.member("port"), "a port must be an integer from 1 to 65535");
                None
            }
        },
        None => {
            if kind.is_some_and(|kind| kind != OutputKind::None) {
                reader.required(&fields, at, "port");
            }
            None
        }
    };
    Some(OutputSurface { kind: kind?, port, health_path: health_path.to_owned(), auto_open })
}
