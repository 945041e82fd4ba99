//! Parses a document into its declarations; checks every member and records every problem.

mod agent;
mod environment;
mod files;
mod inputs;
mod mounts;
mod reader;

use super::model::{Agent, Document, Metadata, Reference, Spec};
use super::node::Node;
use super::problem::{At, Problems, quoted};
use super::vocabulary::Surface;
use reader::Reader;

pub(super) use files::below_workspace;

/// The exact `apiVersion`; the other spelling is read, but never written.
const API_VERSIONS: [&str; 2] = ["interlock.dev/workspace/v1", "xema.dev/workspace/v1"];
const KIND: &str = "WorkspaceManifest";
/// The prefixes of a reference to another manifest, likewise.
const SCHEMES: [&str; 2] = ["interlock://manifest/", "xema://manifest/"];

const MAX_SLUG: usize = 64;
const MAX_TITLE: usize = 256;
const MAX_DESCRIPTION: usize = 4096;

/// Whether a document is used directly, and so needs an agent, or as a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Itself,
    Base,
}

/// Parses a document. Unreadable parts are skipped; the result is valid only without problems.
pub(super) fn document(root: &Node, used: Use, problems: &mut Problems) -> Option<Document> {
    let at = At::ROOT;
    let mut reader = Reader { problems };
    let fields = reader.fields(root, &at, &["apiVersion", "kind", "extends", "metadata", "spec"])?;
    reader.exactly(&fields, &at, "apiVersion", &API_VERSIONS);
    reader.exactly(&fields, &at, "kind", &[KIND]);
    let extends = fields.get("extends").and_then(|node| {
        let at = at.member("extends");
        let text = reader.text(node, &at)?;
        let reference = reference(text);
        if reference.is_none() {
            let form = format!("{}<slug>@<x.y.z>", SCHEMES[0]);
            reader.problem(
                node,
                &at,
                format_args!("{} is not a valid reference to a manifest; use `{form}`", quoted(text)),
            );
        }
        Some((reference?, reader.problems.place(&at, node.position)))
    });
    let metadata = reader.required(&fields, &at, "metadata").and_then(|node| metadata(&mut reader, node));
    let spec_at = at.member("spec");
    let mut agent = None;
    let mut spec = Spec::default();
    if let Some(node) = reader.required(&fields, &at, "spec") {
        (agent, spec) = read_spec(&mut reader, node, &spec_at, used)?;
    }
    Some(Document { metadata: metadata?, extends, agent, spec })
}

fn read_spec(reader: &mut Reader<'_>, node: &Node, at: &At<'_>, used: Use) -> Option<(Option<Agent>, Spec)> {
    let members = [
        "inputs",
        "mounts",
        "agent",
        "seedFiles",
        "env",
        "skills",
        "toolSelection",
        "credentials",
        "permissions",
        "persistence",
        "outputSurface",
        "workingFiles",
    ];
    let fields = reader.fields(node, at, &members)?;
    if used == Use::Itself {
        reader.required(&fields, at, "agent");
    }
    let mut spec = Spec::default();
    let mut agent = None;
    for member in fields.members() {
        let node = &member.value;
        let at = at.member(&member.key);
        match member.key.as_str() {
            "inputs" => spec.inputs = inputs::read(reader, node, &at),
            "mounts" => spec.mounts = mounts::read(reader, node, &at),
            "agent" => agent = agent::read(reader, node, &at),
            "seedFiles" => spec.seed_files = files::seeds(reader, node, &at),
            "env" => spec.env = environment::env(reader, node, &at),
            "skills" => spec.skills = agent::skills(reader, node, &at),
            "toolSelection" => spec.tool_selection = agent::tool_selection(reader, node, &at),
            "credentials" => spec.credentials = environment::credentials(reader, node, &at),
            "permissions" => spec.permissions = agent::permissions(reader, node, &at),
            "persistence" => spec.persistence = files::persistence(reader, node, &at),
            "outputSurface" => spec.output_surface = environment::output_surface(reader, node, &at),
            "workingFiles" => spec.working_files = files::working_files(reader, node, &at),
            // Already reported.
            _ => {}
        }
    }
    Some((agent, spec))
}

fn metadata(reader: &mut Reader<'_>, node: &Node) -> Option<Metadata> {
    let root = At::ROOT;
    let at = root.member("metadata");
    let members = ["slug", "version", "title", "description", "surfaceCompat", "display"];
    let fields = reader.fields(node, &at, &members)?;
    let slug = reader.required_text(&fields, &at, "slug");
    if let Some((text, node)) = slug
        && !is_slug(text)
    {
        let message = format_args!(
            "{} is not a valid slug: use lower-case letters and digits in words joined by `-`, 1 to {MAX_SLUG} characters",
            quoted(text)
        );
        reader.problem(node, &at.member("slug"), message);
    }
    let version = reader.required_text(&fields, &at, "version");
    if let Some((text, node)) = version
        && !is_version(text)
    {
        let message =
            format_args!("{} is not a valid version; use MAJOR.MINOR.PATCH, such as 1.0.0", quoted(text));
        reader.problem(node, &at.member("version"), message);
    }
    let title = reader.optional_text(&fields, &at, "title", MAX_TITLE);
    let description = reader.optional_text(&fields, &at, "description", MAX_DESCRIPTION);
    let mut surfaces = Surface::ALL.to_vec();
    if let Some(node) = fields.get("surfaceCompat") {
        let at = at.member("surfaceCompat");
        surfaces.clear();
        for (at, item) in reader.items(node, &at) {
            let surface = reader.choice::<Surface>(item, &at);
            surfaces.extend(surface.filter(|surface| !surfaces.contains(surface)));
        }
        if surfaces.is_empty() {
            reader.problem(node, &at, "the list is empty; name a surface, or remove this member");
        }
    }
    Some(Metadata {
        slug: slug?.0.to_owned(),
        version: version?.0.to_owned(),
        title: title.map(str::to_owned),
        description: description.map(str::to_owned),
        surfaces,
        display: fields.get("display").map(Node::value),
    })
}

fn reference(text: &str) -> Option<Reference> {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme))?;
    let (slug, version) = rest.split_once('@')?;
    (is_slug(slug) && is_version(version))
        .then(|| Reference { slug: slug.to_owned(), version: version.to_owned() })
}

fn is_slug(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.len() <= MAX_SLUG && text.split('-').all(word)
}

fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        (1..=9).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    text.split('.').count() == 3 && text.split('.').all(number)
}
