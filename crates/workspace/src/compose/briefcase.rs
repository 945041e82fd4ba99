//! The caller's uploads and references.

use super::facts::Facts;
use super::javascript;
use super::member::Member;
use super::mounts::Mount;
use super::reference::{Reference, file_name};
use crate::plan::Source;
use crate::{Code, Error};

/// Each upload as a file of its name.
pub(super) fn add_uploads(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let briefcase = facts.root.get("briefcase");
    check_shape(&briefcase)?;
    let uploads = briefcase.get("uploads");
    for upload in uploads.list()?.items() {
        upload.object()?;
        let name = file_name(upload.get("filename").text()?, "an upload")?;
        let artifact = upload.get("artifact");
        artifact.object()?;
        let (artifact_id, version) = (artifact.get("artifactId").text()?, artifact.get("version").number()?);
        let mount_key = format!("briefcase-upload:{artifact_id}:v{}", javascript::number_text(version));
        let source = Source::ArtifactVersion {
            artifact_id: artifact_id.to_owned(),
            version: version.clone(),
            file_name: name.to_owned(),
            payload_field: None,
            content_type: upload.get("contentType").text_if_any()?.map(Into::into),
        };
        to.add(name, mount_key, source)?;
    }
    Ok(())
}

/// Each reference as its target.
pub(super) fn add_references(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let briefcase = facts.root.get("briefcase");
    check_shape(&briefcase)?;
    let references = briefcase.get("references");
    for reference in references.list()?.items() {
        let (kind, text) = (reference.get("kind"), reference.get("ref"));
        let bad =
            |problem: Error| Error::new(Code::ComposeBadReference, problem.message()).caused_by([problem]);
        let kind = kind.text().map_err(bad)?;
        if kind == "external_url" {
            continue;
        }
        match Reference::read(kind, text.text().map_err(bad)?)? {
            Reference::KbSpace { space_id } => {
                let mount_key = ["briefcase-reference:kb-space:", space_id].concat();
                to.add(
                    ["kb/", space_id].concat(),
                    mount_key,
                    Source::KbSpace { space_id: space_id.to_owned() },
                )?;
            }
            Reference::KbPage { space_id, page_slug } => {
                let mount_key = format!("briefcase-reference:kb-page:{space_id}:{page_slug}");
                let page_slugs = vec![page_slug.to_owned()];
                let source = Source::KbPages { space_id: space_id.to_owned(), page_slugs };
                to.add(["kb/", space_id].concat(), mount_key, source)?;
            }
            Reference::Artifact { artifact_id, version } => {
                let version_text = javascript::number_text(&version);
                // A title becomes a path unchanged; plan validation checks it.
                let title = reference.get("title").text_if_any()?.map(javascript::trim);
                let file_name = match title.filter(|title| !title.is_empty()) {
                    Some(title) => title.to_owned(),
                    None => format!("{artifact_id}-v{version_text}"),
                };
                let mount_key = format!("briefcase-reference:artifact:{artifact_id}:v{version_text}");
                let source = Source::ArtifactVersion {
                    artifact_id: artifact_id.to_owned(),
                    version,
                    file_name: file_name.clone(),
                    payload_field: None,
                    content_type: None,
                };
                to.add(file_name, mount_key, source)?;
            }
            Reference::ScmRepo { repo_ref, git_ref } => {
                let mount_key = format!("briefcase-reference:scm:{repo_ref}:{git_ref}");
                let source = Source::ScmRepo { repo_ref: repo_ref.to_owned(), git_ref: git_ref.to_owned() };
                to.add(["scm/", repo_ref].concat(), mount_key, source)?;
            }
            Reference::ExternalUrl => {}
        }
    }
    Ok(())
}

fn check_shape(briefcase: &Member<'_, '_>) -> Result<(), Error> {
    if briefcase.non_null().is_some() {
        briefcase.object()?;
    }
    Ok(())
}
