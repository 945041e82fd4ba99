//! Parses the JSON of a source.
//!
//! Hand-written, because serde's messages repeat invalid values, and a plan contains confidential
//! data.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::{MAX_LITERAL_BYTES, quoted};
use crate::plan::{
    AgentMode, RenderParams, RenderedInputArtifact, RenderedMount, RenderedWorkingFile, Source, SourceKind,
};
use crate::slot::Mode;
use crate::{Code, Error};

/// Reads sources, and shares equal parameters, so that they visibly come from one rendering.
#[derive(Debug, Default)]
pub(super) struct SourceReader {
    params: Option<Arc<RenderParams>>,
}

impl SourceReader {
    /// Reads one source. An error includes the kind if it could be read.
    pub(super) fn read(&mut self, value: Option<&Value>) -> Result<Source, (Option<SourceKind>, Error)> {
        let Some(Value::Object(members)) = value else {
            return Err((None, Error::new(Code::PlanInvalidSource, "the entry has no object `source`")));
        };
        let Some(name) = members.get("kind").and_then(Value::as_str) else {
            return Err((None, Error::new(Code::PlanInvalidSource, "the source has no string `kind`")));
        };
        let Some(kind) = SourceKind::ALL.into_iter().find(|kind| kind.as_str() == name) else {
            let name = quoted(name);
            let problem = Error::new(Code::PlanInvalidSource, format!("unknown source kind {name:?}"));
            return Err((None, problem.detail("kind", name)));
        };
        self.of_kind(kind, &Members { kind, members }).map_err(|problem| (Some(kind), problem))
    }

    fn of_kind(&mut self, kind: SourceKind, source: &Members<'_>) -> Result<Source, Error> {
        Ok(match kind {
            SourceKind::RenderedAgentsMd => Source::RenderedAgentsMd(self.params(source)?),
            SourceKind::RenderedContextJson => Source::RenderedContextJson(self.params(source)?),
            SourceKind::RenderedSystemOverlay => Source::RenderedSystemOverlay(self.params(source)?),
            SourceKind::StaticLiteral => Source::StaticLiteral {
                path_within_workspace: source.name("pathWithinWorkspace")?,
                bytes: source.literal("bytes")?,
            },
            SourceKind::AgentDefinition => Source::AgentDefinition {
                org_id: source.name("orgId")?,
                agent_slug: source.name("agentSlug")?,
                group_key: source.name("groupKey")?,
                agent_mode: source.agent_mode("agentMode")?,
            },
            SourceKind::SkillBundle => Source::SkillBundle { skill_key: source.name("skillKey")? },
            SourceKind::InstructionSection => Source::InstructionSection {
                org_id: source.name("orgId")?,
                section_key: source.name("sectionKey")?,
                agent_slug: source.name("agentSlug")?,
                group_key: source.name("groupKey")?,
            },
            SourceKind::ArtifactVersion => Source::ArtifactVersion {
                artifact_id: source.name("artifactId")?,
                version: source.version("version")?,
                file_name: source.name("fileName")?,
                payload_field: source.text_or_null("payloadField")?,
                content_type: source.text_or_null("contentType")?,
            },
            SourceKind::KbSpace => Source::KbSpace { space_id: source.name("spaceId")? },
            SourceKind::KbPages => {
                Source::KbPages { space_id: source.name("spaceId")?, page_slugs: source.names("pageSlugs")? }
            }
            SourceKind::ScmRepo => {
                Source::ScmRepo { repo_ref: source.name("repoRef")?, git_ref: source.name("ref")? }
            }
            SourceKind::DeliverableSpecs => {
                Source::DeliverableSpecs { contract_key: source.name("contractKey")? }
            }
            SourceKind::Deliverables => Source::Deliverables { contract_key: source.name("contractKey")? },
            SourceKind::SessionAttachment => {
                Source::SessionAttachment { session_id: source.name("sessionId")? }
            }
        })
    }

    fn params(&mut self, source: &Members<'_>) -> Result<Arc<RenderParams>, Error> {
        let params = read_params(source)?;
        match &self.params {
            Some(shared) if **shared == params => Ok(Arc::clone(shared)),
            _ => Ok(Arc::clone(self.params.insert(Arc::new(params)))),
        }
    }
}

fn read_params(source: &Members<'_>) -> Result<RenderParams, Error> {
    Ok(RenderParams {
        org_id: source.name("orgId")?,
        project_id: source.name("projectId")?,
        agent_slug: source.name("agentSlug")?,
        group_key: source.name("groupKey")?,
        role: source.name("role")?,
        deliverable_spec_ref: source.text_or_null("deliverableSpecRef")?,
        run_id: source.text_if_given("runId")?,
        job_run_id: source.text_if_given("jobRunId")?,
        session_id: source.text_if_given("sessionId")?,
        workflow_inputs: source.object_if_given("workflowInputs")?,
        mounts: source.list_if_given("mounts", |mount| {
            Ok(RenderedMount { mount: mount.name("mount")?, mode: mount.mode("mode")? })
        })?,
        input_artifacts: source.list_if_given("inputArtifacts", |artifact| {
            Ok(RenderedInputArtifact {
                path: artifact.name("path")?,
                content_type: artifact.text_or_null("contentType")?,
                source_artifact_id: artifact.name("sourceArtifactId")?,
                source_version: artifact.version("sourceVersion")?,
            })
        })?,
        working_files: source.list_if_given("workingFiles", |file| {
            Ok(RenderedWorkingFile {
                slug: file.name("slug")?,
                path: file.name("path")?,
                format: file.name("format")?,
                sync_direction: file.name("syncDirection")?,
                source_kind: file.name("sourceKind")?,
                source_ref: file
                    .object_if_given("sourceRef")?
                    .ok_or_else(|| file.refusal("sourceRef", "an object"))?,
            })
        })?,
    })
}

/// The members of a source, or of an object in it.
struct Members<'a> {
    kind: SourceKind,
    members: &'a Map<String, Value>,
}

impl Members<'_> {
    fn refusal(&self, field: &str, expected: &str) -> Error {
        let kind = self.kind;
        let message = match self.members.get(field) {
            None => format!("the source `{kind}` has no `{field}`; expected {expected}"),
            Some(_) => format!("`{field}` of the source `{kind}` is not {expected}"),
        };
        Error::new(Code::PlanInvalidSource, message).detail("kind", kind.as_str()).detail("field", field)
    }

    /// A required non-empty string.
    fn name(&self, field: &str) -> Result<String, Error> {
        match self.members.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            _ => Err(self.refusal(field, "a non-empty string")),
        }
    }

    fn text_if_given(&self, field: &str) -> Result<Option<String>, Error> {
        match self.members.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.refusal(field, "a string")),
        }
    }

    fn text_or_null(&self, field: &str) -> Result<Option<Value>, Error> {
        match self.members.get(field) {
            None => Ok(None),
            Some(value @ (Value::String(_) | Value::Null)) => Ok(Some(value.clone())),
            Some(_) => Err(self.refusal(field, "a string or null")),
        }
    }

    fn object_if_given(&self, field: &str) -> Result<Option<Map<String, Value>>, Error> {
        match self.members.get(field) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members.clone())),
            Some(_) => Err(self.refusal(field, "an object")),
        }
    }

    fn list_if_given<T>(
        &self,
        field: &str,
        read: impl Fn(&Members<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let items = match self.members.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.refusal(field, "a list of objects")),
        };
        let mut read_items = Vec::with_capacity(items.len());
        for item in items {
            let members = item.as_object().ok_or_else(|| self.refusal(field, "a list of objects"))?;
            read_items.push(read(&Members { kind: self.kind, members })?);
        }
        Ok(read_items)
    }

    /// A list of names, which may be empty.
    fn names(&self, field: &str) -> Result<Vec<String>, Error> {
        let expected = "a list of non-empty strings";
        let items = self.members.get(field).and_then(Value::as_array);
        let items = items.ok_or_else(|| self.refusal(field, expected))?;
        let name = |item: &Value| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        items.iter().map(|item| name(item).ok_or_else(|| self.refusal(field, expected))).collect()
    }

    /// An integer of at least 1, also if written as `2.0`.
    fn version(&self, field: &str) -> Result<Number, Error> {
        let version = self.members.get(field).and_then(Value::as_number).and_then(whole_from_one);
        version.ok_or_else(|| self.refusal(field, "an integer from 1"))
    }

    fn mode(&self, field: &str) -> Result<Mode, Error> {
        match self.members.get(field).and_then(Value::as_str) {
            Some("read-only") => Ok(Mode::ReadOnly),
            Some("read-write") => Ok(Mode::ReadWrite),
            _ => Err(self.refusal(field, "`read-only` or `read-write`")),
        }
    }

    fn agent_mode(&self, field: &str) -> Result<AgentMode, Error> {
        match self.members.get(field).and_then(Value::as_str) {
            Some("primary") => Ok(AgentMode::Primary),
            Some("subagent") => Ok(AgentMode::Subagent),
            _ => Err(self.refusal(field, "`primary` or `subagent`")),
        }
    }

    /// Base64 of at most [`MAX_LITERAL_BYTES`], in strict form; empty for an empty file.
    fn literal(&self, field: &str) -> Result<String, Error> {
        const EXPECTED: &str = "padded base64 without white space";
        let Some(Value::String(text)) = self.members.get(field) else {
            return Err(self.refusal(field, EXPECTED));
        };
        let padding = text.bytes().rev().take(2).filter(|byte| *byte == b'=').count();
        let decoded = (text.len() / 4 * 3).saturating_sub(padding);
        if decoded > MAX_LITERAL_BYTES {
            return Err(Error::limit("bytes of a literal", MAX_LITERAL_BYTES as u64, decoded as u64));
        }
        STANDARD.decode(text).map_err(|_| self.refusal(field, EXPECTED))?;
        Ok(text.clone())
    }
}

fn whole_from_one(number: &Number) -> Option<Number> {
    if number.is_u64() {
        return (number.as_u64()? >= 1).then(|| number.clone());
    }
    let double = number.as_f64().filter(|double| *double >= 1.0 && double.fract() == 0.0)?;
    // One form for each version: `2.0` is 2.
    if double <= 9_007_199_254_740_992.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and within 2^53"
        )]
        return Some(Number::from(double as u64));
    }
    Some(number.clone())
}
