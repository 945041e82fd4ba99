//! `interlock key new`.

use canon::error::Envelope;
use canon::nearest::nearest;
use flow::id::Tenant;
use guide::record::SessionId;
use guided::is_tenant_name;
use ports::sessions::StoreError;
use runs::keys::{hash, new_key};
use runs::{ApiKey, Scope};
use serde_json::json;
use system::{Clock as _, SystemClock, SystemEntropy};

use crate::arguments::NewApiKey;
use crate::commands::serve::store::shared_sessions;
use crate::commands::serve::{open_for_command, refused, runtime};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::service;
use crate::settings::Settings;

/// The note for a key that was created without scopes.
const WITHOUT_ADMIN: &str =
    "\nIt has all scopes except `host:admin`. To grant that scope, pass --scope host:admin.";

pub(super) fn run(arguments: &NewApiKey, settings: &Settings) -> Result<ExitStatus, Failure> {
    let scopes = scopes(&arguments.scopes)?;
    let tenant = &arguments.tenant;
    if !is_tenant_name(tenant) {
        return Err(usage(
            &format!("`{tenant}` is not a valid tenant name"),
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
    // Several processes can write to the store, so a running server need not be involved.
    let runtime = runtime()?;
    let threads = runtime.enter();
    let (runs, store) = open_for_command(settings)?;
    drop(threads);
    runtime.block_on(async {
        let put = runs.keys().put(hash(&key), &known).await.map_err(|refusal| refused(&refusal));
        store.close().await;
        put
    })?;
    if arguments.answering.json {
        let mut document =
            json!({"key": key, "id": known.id, "tenant": known.tenant, "scopes": known.scopes});
        if let Some(session) = &known.session {
            document["session"] = json!(session);
        }
        output::json(&document, Layout::Compact)?;
    } else {
        let opens = known.session.as_ref().map(|session| format!(" It gives access only to {session}."));
        output::text(&format!(
            "{key}\n\nThis key is shown once; only its hash is stored. Its id is `{}`, its tenant `{}`.{}{}",
            known.id,
            known.tenant,
            opens.unwrap_or_default(),
            if arguments.scopes.is_empty() && known.session.is_none() { WITHOUT_ADMIN } else { "" },
        ))?;
    }
    Ok(ExitStatus::Success)
}

/// The session must exist: a key for an unknown session would be a mistake.
fn session(settings: &Settings, tenant: &str, id: &str) -> Result<SessionId, Failure> {
    let session = SessionId::parse(id).map_err(|_| {
        usage(&format!("session `{id}` not found"), "Use an id that `interlock session list` shows.")
    })?;
    ports::wait(async {
        let stores = match shared_sessions(settings)? {
            Some(stores) => stores,
            None => service::file_tenants(settings)?,
        };
        let guided = service::open_tenants(settings, stores).await?.guided(tenant).await;
        let guided = guided.map_err(|refusal| *refusal.into_envelope())?;
        match guided.store().revision(session.clone()).await? {
            Some(_) => Ok(session),
            None => Err(StoreError::Unknown { session }.into()),
        }
    })
}

fn scopes(names: &[String]) -> Result<Vec<Scope>, Failure> {
    if names.is_empty() {
        // `host:admin` affects all tenants, so it is granted only explicitly.
        return Ok(Scope::of_a_tenant());
    }
    let scope = |name: &String| {
        Scope::parse(name).ok_or_else(|| {
            let meant = nearest(name, Scope::ALL.iter().map(|scope| scope.as_str()), 1);
            let known: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
            let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
            usage(&format!("unknown scope `{name}`"), &format!("{hint}Valid scopes: {}.", known.join(", ")))
        })
    };
    names.iter().map(scope).collect()
}

/// `12h`, `30d`, in milliseconds.
fn lifetime(text: &str) -> Result<u64, Failure> {
    let refused =
        || usage(&format!("`{text}` is not a valid duration"), "Use a number with m, h or d: 90m, 12h, 30d.");
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
