//! `interlock pack publish`.

use packs::PackError;
use packs::publish::{self, PublishRequest, PublishRules};
use packs::registry::{PublishRefusal, Published, Publisher};
use packs::{archive::Archive, archive::Limits, manifest::MANIFEST_PATH, manifest::Manifest};
use serde_json::json;

use super::registry::{RegistryClient, identity};
use super::registry_keys::{RegistryKeys, RegistryOrigin};
use super::{now, source, usage};
use crate::arguments::{Globals, PackPublish};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, GOOD, Layout};
use crate::settings::Settings;

pub(super) fn run(arguments: &PackPublish, globals: &Globals) -> Result<ExitStatus, Failure> {
    let bytes = match &arguments.key {
        Some(key) if arguments.source.is_dir() => {
            let key = source::private_key(key)?;
            let mut files = source::files(&arguments.source)?;
            source::add_signature(&mut files, &key, &arguments.source)?;
            source::packed(&files, &arguments.source)?
        }
        // Signing would change the manifest inside the archive, which is published unchanged.
        Some(_) => {
            return Err(usage(
                "an archive is published unchanged and cannot be signed; \
                 pass the folder that it was made from, or omit --key",
            ));
        }
        None => source::archive(&arguments.source)?,
    };
    // Name and version come from the manifest; the check below reports problems with it.
    let read = Archive::read(&bytes, &Limits::DEFAULT)
        .ok()
        .and_then(|archive| Manifest::read(archive.file(MANIFEST_PATH)?).ok());
    let known = read.as_ref().map(identity);
    let (name, version) = known.as_ref().map_or_else(
        || ("core.unknown.pack".to_owned(), "0.0.0".to_owned()),
        |(name, version)| (name.to_string(), version.to_string()),
    );
    let request = PublishRequest {
        name: &name,
        version: &version,
        content_type: None,
        sha256: None,
        signing_method: None,
        body: &bytes,
    };
    let accepted = publish::check(&request, &PublishRules::private())
        .map_err(|error| Failure::from(error.envelope()))?;
    let (pack, number) = identity(&accepted.manifest);
    let settings = Settings::load(globals)?;
    let registry = std::slice::from_ref(&arguments.registry);
    let access = RegistryKeys::read(arguments.api_key.as_slice(), registry, RegistryOrigin::Here, &settings)?;
    let asked = RegistryClient::open_to_publish(&arguments.registry, &access)?;
    let integrity = accepted.integrity;
    let news = match &asked {
        RegistryClient::Folder(registry) => {
            let publisher = Publisher { id: "command-line", may_publish_core: true };
            match registry.publish(&accepted, &bytes, publisher, now()) {
                Ok(Published::New) => "published",
                Ok(Published::Identical) => "already published with the same contents",
                Err(PublishRefusal::Publish(error)) => return Err(error.envelope().into()),
                Err(PublishRefusal::Registry(error)) => return Err(PackError::from(error).into()),
            }
        }
        RegistryClient::Server(_) => {
            if let Some(answered) = asked.put(&pack, &number, bytes, accepted.signature.is_some()) {
                answered?;
            }
            "published"
        }
    };
    if arguments.answering.json {
        let document = json!({"pack": format!("{pack}@{number}"), "integrity": integrity, "outcome": news});
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&format!("{GOOD}{pack}@{number}{GOOD:#} is {news}: {integrity}."))?;
    }
    Ok(ExitStatus::Success)
}
