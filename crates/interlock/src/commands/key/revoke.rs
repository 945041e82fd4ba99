//! `interlock key revoke`.

use canon::error::Envelope;
use canon::nearest::nearest;
use flow::id::{Principal, Tenant};
use runs::{ApiKey, Caller, Scope};
use serde_json::json;

use super::list::api_keys;
use crate::arguments::RevokeApiKey;
use crate::commands::confirm;
use crate::commands::serve::{open_for_command, refused, runtime};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, GOOD, Layout};
use crate::settings::Settings;

pub(super) fn run(arguments: &RevokeApiKey, settings: &Settings) -> Result<ExitStatus, Failure> {
    let tenant = tenant(arguments, &api_keys(settings)?)?;
    let question =
        format!("Revoke the API key `{}` of tenant `{tenant}`? This cannot be undone.", arguments.id);
    confirm::ask(arguments.yes, &question, None)?;
    let caller = Caller {
        tenant: tenant.clone(),
        principal: Principal::new("command-line"),
        scopes: Scope::ALL.to_vec(),
        test: false,
    };
    let runtime = runtime()?;
    let threads = runtime.enter();
    let (runs, store) = open_for_command(settings)?;
    drop(threads);
    runtime.block_on(async {
        let revoked = runs.keys().revoke(&caller, &arguments.id).await.map_err(|refusal| refused(&refusal));
        store.close().await;
        revoked
    })?;
    if arguments.answering.json {
        output::json(&json!({"id": arguments.id, "tenant": tenant, "revoked": true}), Layout::Compact)?;
    } else {
        output::text(&format!("{GOOD}Revoked{GOOD:#} {} of tenant {tenant}.", arguments.id))?;
    }
    Ok(ExitStatus::Success)
}

/// The tenant whose key is meant.
fn tenant(arguments: &RevokeApiKey, keys: &[ApiKey]) -> Result<Tenant, Failure> {
    let is_meant = |key: &&ApiKey| {
        key.id == arguments.id && arguments.tenant.as_deref().is_none_or(|tenant| key.tenant == tenant)
    };
    let mut tenants: Vec<_> = keys.iter().filter(is_meant).map(|key| &key.tenant).collect();
    tenants.dedup();
    match tenants.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let meant = nearest(&arguments.id, keys.iter().map(|key| key.id.as_str()), 1);
            let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
            Err(Envelope::new(CommandErrorCode::KeyUnknown, format!("API key `{}` not found.", arguments.id))
                .suggest(format!("{hint}List keys with `interlock key list`."))
                .into())
        }
        several => {
            let names: Vec<_> = several.iter().map(|tenant| tenant.as_str()).collect();
            let message = format!("Several tenants have a key `{}`: {}.", arguments.id, names.join(", "));
            Err(Envelope::new(CommandErrorCode::IdAmbiguous, message)
                .suggest("Name one with --tenant.")
                .into())
        }
    }
}
