//! The members common to all kinds.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{Member, Rule, Shape, TEXT, closed, list, matching, optional, required, text};
use crate::kind::PackKind;
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

pub(crate) const NAME: Rule =
    matching(256, grammar::publishable_name, "a name such as `vendor.acme.tools` in a publishable scope");
pub(crate) const VERSION: Rule =
    matching(128, grammar::version, "a version of SemVer 2.0.0, such as `1.0.0`");
pub(crate) const URI: Rule = matching(2048, grammar::uri, "a URI");
pub(crate) const TYPE_ID: Rule = matching(256, grammar::type_id, "an id such as `vendor.acme.fetch`");

/// Where the key and signature are.
const SIGNING: Shape = closed(&[
    optional("publicKeyRef", TEXT),
    optional("signatureRef", TEXT),
    optional("method", Rule::OneOf(&["manual", "sigstore"])),
]);

const OPEN_ENGINES: Shape = Shape { members: &[required("openwop", TEXT)], open: true };
const CLOSED_ENGINES: Shape = closed(&[required("openwop", TEXT)]);
const KEYWORDS: Rule = Rule::List { item: &text(0, 64), min: 0, max: 50, unique: false };

const IDENTITY: [Member; 6] = [
    required("name", NAME),
    required("version", VERSION),
    optional("description", text(0, 1024)),
    optional("author", TEXT),
    optional("license", TEXT),
    optional("homepage", URI),
];

/// Checks the members of a kind other than its content.
pub(crate) fn check(value: &Value, kind: PackKind, at: &Pointer<'_>, problems: &mut Problems) {
    let member = |name: &str, rule: &Rule, problems: &mut Problems| {
        if let Some(value) = value.get(name) {
            super::shape::check(value, rule, &at.member(name), problems);
        }
    };
    for known in &IDENTITY {
        match value.get(known.name) {
            Some(value) => super::shape::check(value, &known.rule, &at.member(known.name), problems),
            None if known.required => problems.invalid(&at.member(known.name), "required"),
            None => {}
        }
    }
    member("repository", &URI, problems);
    member("keywords", &KEYWORDS, problems);
    member("dependencies", &Rule::Custom(dependencies), problems);
    member("peerDependencies", &Rule::Map(&TEXT), problems);
    member("peerDependenciesMeta", &Rule::Map(&Rule::Object(&PEER_META)), problems);
    member("signing", &Rule::Object(&SIGNING), problems);
    engines(value.get("engines"), kind, &at.member("engines"), problems);
}

const PEER_META: Shape = closed(&[optional("optional", Rule::Bool)]);

/// The members of a kind other than its content.
pub(crate) const fn members(kind: PackKind) -> &'static [&'static str] {
    match kind {
        PackKind::Node => &[
            "kind",
            "name",
            "version",
            "description",
            "author",
            "license",
            "homepage",
            "repository",
            "keywords",
            "engines",
            "dependencies",
            "peerDependencies",
            "peerDependenciesMeta",
            "signing",
            "runtime",
            "connector",
        ],
        PackKind::ArtifactType | PackKind::Card => &[
            "kind",
            "name",
            "version",
            "description",
            "author",
            "license",
            "homepage",
            "repository",
            "keywords",
            "engines",
            "dependencies",
            "peerDependencies",
            "signing",
        ],
        PackKind::WorkflowChain | PackKind::Prompt => &[
            "kind",
            "name",
            "version",
            "description",
            "author",
            "license",
            "homepage",
            "repository",
            "keywords",
            "engines",
            "dependencies",
            "signing",
        ],
        PackKind::Connection => &[
            "kind",
            "name",
            "version",
            "description",
            "author",
            "license",
            "homepage",
            "repository",
            "keywords",
            "engines",
        ],
        PackKind::FrontendPlugin => {
            &["kind", "name", "version", "description", "author", "license", "homepage", "engines"]
        }
    }
}

fn engines(value: Option<&Value>, kind: PackKind, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(value) = value else { return problems.invalid(at, "required") };
    let shape = match kind {
        PackKind::Connection | PackKind::FrontendPlugin => &CLOSED_ENGINES,
        _ => &OPEN_ENGINES,
    };
    super::shape::check_object(value, shape, at, problems);
    if let Some(text) = value.get("openwop").and_then(Value::as_str)
        && let Err(error) = Range::parse(text)
    {
        problems.add(ManifestErrorCode::EnginesRange, &at.member("openwop"), error.to_string());
    }
}

/// Pack names and version ranges.
fn dependencies(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(members) = value.as_object() else {
        return problems.invalid(at, "must be an object of names and ranges");
    };
    for (name, range) in members {
        let at = at.member(name);
        if let Err(error) = PackName::parse(name) {
            problems.invalid(&at, error.to_string());
        }
        match range.as_str().map(Range::parse) {
            Some(Ok(_)) => {}
            Some(Err(error)) => problems.invalid(&at, error.to_string()),
            None => problems.invalid(&at, "must be a version range"),
        }
    }
}

/// The members common to all kinds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    pub name: PackName,
    pub version: Version,
    pub description: Option<String>,
    pub author: Option<String>,
    pub license: Option<String>,
    pub homepage: Option<String>,
    pub repository: Option<String>,
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Supported protocol versions.
    pub engines: Engines,
    #[serde(default)]
    pub dependencies: BTreeMap<PackName, Range>,
    /// Required host capabilities, by name.
    #[serde(default)]
    pub peer_dependencies: BTreeMap<String, String>,
    /// Which of those are optional.
    #[serde(default)]
    pub peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    pub signing: Option<Signing>,
}

/// Supported protocol versions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Engines {
    pub openwop: Range,
}

/// Metadata of a required capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PeerMeta {
    #[serde(default)]
    pub optional: bool,
}

/// Where a signature and its key are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signing {
    /// The archive path of the key.
    pub public_key_ref: Option<String>,
    /// The archive path of the signature.
    pub signature_ref: Option<String>,
    pub method: Option<SigningMethod>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SigningMethod {
    /// With a publisher key.
    Manual,
    /// With a short-lived key from a transparency log. Not supported here.
    Sigstore,
}

pub(crate) const CAPABILITIES: Rule = Rule::List {
    item: &Rule::OneOf(&["streamable", "cacheable", "side-effectful", "mcp-exportable"]),
    min: 0,
    max: usize::MAX,
    unique: true,
};

pub(crate) const MODEL_CAPABILITIES: Rule = Rule::List {
    item: &matching(128, grammar::model_capability, "a capability such as `structured-output`"),
    min: 0,
    max: 32,
    unique: true,
};

pub(crate) const TEXTS: Rule = list(&TEXT);

/// Node capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Streams its result.
    Streamable,
    /// The same input gives the same result.
    Cacheable,
    /// Changes external state.
    SideEffectful,
    /// Can be offered as a tool.
    McpExportable,
}
