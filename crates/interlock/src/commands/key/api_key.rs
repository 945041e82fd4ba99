//! `interlock key new-api-key`.

use canon::error::Envelope;
use canon::nearest::nearest;
use flow::id::Tenant;
use guide::record::SessionId;
use host::guided::is_tenant_name;
use host::runs::keys::{hash, new_key};
use host::runs::{ApiKey, Scope};
use host::system::{Clock as _, SystemClock, SystemEntropy};
use serde_json::json;

use crate::arguments::NewApiKey;
use crate::commands::serve::{open_runs, refused};
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output::{self, Layout};
use crate::service;
use crate::settings::Settings;

/// What is said of a key that was made without naming scopes.
const WITHOUT_ADMIN: &str =
    "\nIt has every scope except `host:admin`; name that one with --scope to grant it.";

pub(super) fn run(arguments: &NewApiKey, settings: &Settings) -> Result<Answer, Failure> {
    let scopes = scopes(&arguments.scopes)?;
    let tenant = &arguments.tenant;
    if !is_tenant_name(tenant) {
        return Err(usage(
            &format!("`{tenant}` cannot be a tenant"),
            "Use 1 to 64 lower-case letters, digits, `-` and `_`.",
        ));
    }
    let session = arguments.session.as_deref().map(|id| session(settings, tenant, id)).transpose()?;
    let now = SystemClock.now_ms();
    let expires_at =
        arguments.expires.as_deref().map(|text| lifetime(text).map(|lifetime| now + lifetime)).transpose()?;
    let key = new_key(arguments.test, &SystemEntropy).map_err(|error| Failure::Unreadable {
        name: "the system's entropy".to_owned(),
        cause: std::io::Error::other(error),
    })?;
    let known = ApiKey {
        id: format!("key_{}", &hash(&key).to_hex()[..12]),
        tenant: Tenant::new(tenant.as_str()),
        scopes: if session.is_some() { Vec::new() } else { scopes },
        test: arguments.test,
        created_at: now,
        expires_at,
        revoked_at: None,
        session,
    };
    // The store may be written by several processes, so a server that is there need not be asked.
    let runs = open_runs(settings, "")?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime =
        runtime.map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
    runtime.block_on(runs.put_key(hash(&key), &known)).map_err(|refusal| refused(&refusal))?;
    if arguments.answering.json {
        let mut document =
            json!({"key": key, "id": known.id, "tenant": known.tenant, "scopes": known.scopes});
        if let Some(session) = &known.session {
            document["session"] = json!(session);
        }
        output::json(&document, Layout::Compact)?;
    } else {
        let opens = known.session.as_ref().map(|session| format!(" It opens {session} and nothing else."));
        output::text(&format!(
            "{key}\n\nShown once; only its hash is kept. It is `{}` of the tenant `{}`.{}{}",
            known.id,
            known.tenant,
            opens.unwrap_or_default(),
            if arguments.scopes.is_empty() && known.session.is_none() { WITHOUT_ADMIN } else { "" },
        ))?;
    }
    Ok(Answer::Yes)
}

/// A session that is there: a key for one that is not could only be a mistake.
fn session(settings: &Settings, tenant: &str, id: &str) -> Result<SessionId, Failure> {
    let session = SessionId::parse(id).map_err(|_| {
        usage(&format!("`{id}` is no session"), "Use an id that `interlock session list` shows.")
    })?;
    let guided =
        service::open_tenants(settings)?.guided(tenant).map_err(|refusal| *refusal.into_envelope())?;
    if guided.files().manifest_stat(&session)?.is_none() {
        return Err(storage::StoreError::Unknown { session }.into());
    }
    Ok(session)
}

fn scopes(names: &[String]) -> Result<Vec<Scope>, Failure> {
    if names.is_empty() {
        // What concerns the host concerns every tenant: it is granted by name alone.
        return Ok(Scope::of_a_tenant());
    }
    let scope = |name: &String| {
        Scope::parse(name).ok_or_else(|| {
            let meant = nearest(name, Scope::ALL.iter().map(|scope| scope.as_str()), 1);
            let known: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
            let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
            usage(&format!("there is no scope `{name}`"), &format!("{hint}There are {}.", known.join(", ")))
        })
    };
    names.iter().map(scope).collect()
}

/// `12h`, `30d`, as milliseconds.
fn lifetime(text: &str) -> Result<u64, Failure> {
    let refused = || usage(&format!("`{text}` is no time"), "Write a number with m, h or d: 90m, 12h, 30d.");
    let (digits, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let minutes: u64 = match unit {
        "m" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err(refused()),
    };
    let number: u64 =
        digits.parse().ok().filter(|number| (1..=36_500).contains(number)).ok_or_else(refused)?;
    Ok(number * minutes * 60_000)
}

fn usage(message: &str, help: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, message).suggest(help).into()
}
