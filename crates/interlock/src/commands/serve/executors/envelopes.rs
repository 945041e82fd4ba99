//! The envelope kinds in the settings.

use ai::envelope::{Kinds, Universal};
use ai::schema::Schema;
use canon::error::Envelope;
use canon::json::{self, Limits};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

const MAX_SCHEMA_BYTES: u64 = 256 << 10;

/// The kinds in the settings, in addition to the built-in kinds.
pub(super) fn kinds(settings: &Settings) -> Result<Kinds, Failure> {
    let mut kinds = Kinds::only([]);
    for (kind, members) in &settings.envelopes.value {
        let wrong = |message: &str, help: &str| -> Failure {
            let message = format!("`envelopes.\"{kind}\"`: {message}");
            Envelope::new(CommandErrorCode::ConfigInvalid, message).suggest(help).into()
        };
        if Universal::parse(kind).is_some() || !is_vendors(kind) {
            return Err(wrong("it is not a vendor kind", "Name it `vendor.<organisation>.<kind>`."));
        }
        let version = match members.get("version").map(|text| text.parse::<u64>()) {
            None => 1,
            Some(Ok(version)) => version,
            Some(Err(_)) => {
                return Err(wrong("`version` must be an integer in quotes", "Use `version = \"1\"`."));
            }
        };
        let help = "Set it to the path of a file with the JSON Schema of the payload.";
        let Some(path) = members.get("schema") else { return Err(wrong("`schema` is missing", help)) };
        let path = settings.data_dir.value.join(path);
        let size = std::fs::metadata(&path).map(|file| file.len());
        if size.as_ref().is_ok_and(|size| *size > MAX_SCHEMA_BYTES) {
            return Err(wrong(&format!("the schema is larger than {MAX_SCHEMA_BYTES} bytes"), help));
        }
        let unreadable = |cause: &dyn std::fmt::Display| wrong(&format!("{}: {cause}", path.display()), help);
        let bytes = std::fs::read(&path).map_err(|cause| unreadable(&cause))?;
        let source = json::read(&bytes, &Limits::DEFAULT).map_err(|cause| unreadable(&cause))?;
        let schema = Schema::compile(&source).map_err(|cause| unreadable(&cause))?;
        kinds.add(kind, schema, version);
    }
    Ok(kinds)
}

/// Whether a kind is in a vendor namespace: all others belong to the protocol.
fn is_vendors(kind: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
    };
    let mut words = kind.split('.');
    kind.len() <= 256 && words.next() == Some("vendor") && words.clone().count() >= 2 && words.all(is_word)
}
