//! The pack registry: its public catalogue, changes to it, and the separate test catalogue.
//!
//! Both catalogues have the same operations; the route selects the catalogue.
#![expect(clippy::result_large_err, reason = "an error reply is created once and sent unchanged")]

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use canon::time::Timestamp;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use packs::name::PackName;
use packs::publish::{PublishRequest, check, read_address};
use packs::registry::{Deprecation, PublishRefusal, Published, Publisher, RotateRequest, Yank};
use packs::version::Version;
use runs::{ApiCode, Refusal, Scope};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::super::bodies::packs::{Deprecate, Nothing, RotateKey};
use super::super::bodies::runs::Because;
use super::super::exchange::CheckedRequest;
use super::super::openapi::ARCHIVE;
use super::super::pack_registries::PackRegistry;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::state::Service;
use super::errors::{self, on_a_thread};

/// The maximum number of concurrent uploads of archives. Each is in memory as a whole, packed and unpacked, until it is published.
pub(in super::super) const MAX_ARCHIVES: usize = 4;

/// Takes a permit to receive an archive.
pub(in super::super) fn place_for_archive(state: &Service) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&state.archives).try_acquire_owned().map_err(|_| {
        let message = format!("{MAX_ARCHIVES} archives are being received, which is the limit; retry later");
        Refusal::new(ApiCode::RateLimited, message).detail("scope", "global").retry_after(5)
    })
}

/// A reply, or an error reply that is already written.
type Written = Result<Response, Response>;

/// `GET /.well-known/openwop-registry`
pub(in super::super) async fn well_known(call: CheckedRequest) -> HandlerResult {
    Ok(response::json(200, &packs::registry::well_known(call.state.pack_registries.rules())))
}

/// `GET /v1/index.json`
pub(in super::super) async fn index(call: CheckedRequest) -> HandlerResult {
    let index = call.state.pack_registries.offered().index(now(&call), |name| is_for_reader(&call, name));
    Ok(response::json(200, &index))
}

/// `GET /v1/packs/-/search`
pub(in super::super) async fn search(call: CheckedRequest) -> HandlerResult {
    let query = call.query.text("q").unwrap_or_default();
    let found = call.state.pack_registries.offered().search(query, |name| is_for_reader(&call, name));
    Ok(response::json(200, &found))
}

/// `GET /v1/packs/-/by-type/{typeId}`
pub(in super::super) async fn by_type(call: CheckedRequest) -> HandlerResult {
    let type_id = call.param("typeId");
    let found = call.state.pack_registries.offered().by_type(type_id, |name| is_for_reader(&call, name));
    Ok(response::json(200, &found))
}

/// `GET /keys/{keyId}.pub`
pub(in super::super) async fn public_key(call: CheckedRequest) -> HandlerResult {
    let id = call.param("keyId");
    let known =
        call.state.pack_registries.rules().keys.iter().find(|key| key.id == id).map(|key| key.key.to_pem());
    match known.or_else(|| call.state.pack_registries.offered().public_key(id)) {
        Some(pem) => Ok(bytes(pem, HeaderValue::from_static("application/x-pem-file"))),
        None => {
            Ok(errors::flat(404, "key_not_found", "no pack was signed with this key", Default::default()))
        }
    }
}

macro_rules! both {
    ($($(#[$doc:meta])* $operation:ident = $work:ident;)+) => {
        $(
            $(#[$doc])*
            pub(in super::super) async fn $operation(call: CheckedRequest) -> HandlerResult {
                let registry = Arc::clone(call.state.pack_registries.offered());
                $work(&call, registry).await
            }
        )+

        /// The same operations on the test catalogue.
        pub(in super::super) mod tests_of {
            use super::{HandlerResult, Arc, CheckedRequest, missing};

            $(
                $(#[$doc])*
                pub(in super::super::super) async fn $operation(call: CheckedRequest) -> HandlerResult {
                    let registry = Arc::clone(call.state.pack_registries.tests().ok_or_else(missing)?);
                    super::$work(&call, registry).await
                }
            )+

            /// `POST /v1/packs-test/reset`
            pub(in super::super::super) async fn reset(call: CheckedRequest) -> HandlerResult {
                let registry = Arc::clone(call.state.pack_registries.tests().ok_or_else(missing)?);
                super::reset_registry(&call, registry).await
            }
        }
    };
}

both! {
    /// `GET …/{name}`
    metadata = read_pack;
    /// `GET …/{name}/-/{version}.json`
    manifest = read_manifest;
    /// `GET …/{name}/-/{version}.tgz`
    archive = read_archive;
    /// `GET …/{name}/-/{version}.sig`
    signature = read_signature;
    /// `PUT …/{name}/-/{version}.tgz`
    publish = put_archive;
    /// `DELETE …/{name}/-/{version}`
    unpublish = unpublish_version;
    /// `POST …/{name}/-/{version}/deprecate`
    deprecate = mark_deprecated;
    /// `DELETE …/{name}/-/{version}/deprecate`
    undeprecate = unmark_deprecated;
    /// `POST …/{name}/-/{version}/yank`
    yank = mark_yanked;
    /// `DELETE …/{name}/-/{version}/yank`
    unyank = unmark_yanked;
    /// `GET …/{name}/-/keychain`
    keychain = read_keychain;
    /// `POST …/{name}/-/keychain/rotate`
    rotate = rotate_key;
}

fn missing() -> Refusal {
    Refusal::new(ApiCode::NotFound, "this host has no test catalogue")
}

fn now(call: &CheckedRequest) -> Timestamp {
    Timestamp(call.state.runs.records().now().0)
}

fn whole(written: Written) -> HandlerResult {
    Ok(written.unwrap_or_else(|refused| refused))
}

/// Whether a request has no key. Such a caller cannot read packs that were published as private before the registry became public.
fn is_stranger(call: &CheckedRequest) -> bool {
    call.caller.scopes.is_empty()
}

/// Whether the caller may read a pack.
fn is_for_reader(call: &CheckedRequest, name: &PackName) -> bool {
    !is_stranger(call) || name.scope() != packs::name::Scope::Private
}

fn name(call: &CheckedRequest) -> Result<PackName, Response> {
    // This path has no version; any valid one will do.
    addressed(call, "0.0.0").map(|(name, _)| name)
}

fn address(call: &CheckedRequest) -> Result<(PackName, Version), Response> {
    addressed(call, call.param("version"))
}

fn addressed(call: &CheckedRequest, version: &str) -> Result<(PackName, Version), Response> {
    let (name, version) =
        read_address(call.param("name"), version).map_err(|error| errors::publish(&error))?;
    if !is_for_reader(call, &name) {
        let message = "pack not found";
        return Err(errors::flat(404, "pack_not_found", message, Default::default()));
    }
    Ok((name, version))
}

fn bytes(body: impl Into<Body>, media: HeaderValue) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, media);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}

async fn read_pack(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let written = || {
        let document = registry.pack(&name(call)?).map_err(|error| errors::registry(&error))?;
        Ok(response::json(200, &document))
    };
    whole(written())
}

async fn read_manifest(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let written = || {
        let (name, version) = address(call)?;
        let document =
            registry.version_manifest(&name, &version).map_err(|error| errors::registry(&error))?;
        Ok(response::json(200, &document))
    };
    whole(written())
}

async fn read_archive(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let (name, version) = match address(call) {
        Ok(address) => address,
        Err(refused) => return Ok(refused),
    };
    match on_a_thread(move || registry.archive(&name, &version)).await? {
        Ok((integrity, archive)) => {
            let mut response = bytes(archive, HeaderValue::from_static(ARCHIVE));
            if let Ok(tag) = HeaderValue::from_str(&format!("\"{integrity}\"")) {
                response.headers_mut().insert(ETAG, tag);
            }
            Ok(response)
        }
        Err(error) => Ok(errors::registry(&error)),
    }
}

async fn read_signature(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let written = || {
        let (name, version) = address(call)?;
        let signature = registry.signature(&name, &version).map_err(|error| errors::registry(&error))?;
        Ok(bytes(signature.to_vec(), HeaderValue::from_static("application/octet-stream")))
    };
    whole(written())
}

async fn put_archive(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let busy = |_| Refusal::unavailable("the registry is shutting down", 1);
    let place = Arc::clone(&call.state.pack_registries.unpacking).acquire_owned().await.map_err(busy)?;
    let header = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (content_type, sha256) = (header("content-type"), header("x-pack-sha256"));
    let signing_method = header("x-pack-signing-method");
    let (name, version) = (call.param("name").to_owned(), call.param("version").to_owned());
    // The publisher is the tenant and not the key, because keys are replaced.
    let (tenant, now, body) = (call.caller.tenant.clone(), now(call), call.message.clone());
    let may_publish_core = call.caller.may(Scope::Admin);
    let rules = Arc::clone(call.state.pack_registries.rules());
    let published = on_a_thread(move || {
        let _place = place;
        let request = PublishRequest {
            name: &name,
            version: &version,
            content_type: content_type.as_deref(),
            sha256: sha256.as_deref(),
            signing_method: signing_method.as_deref(),
            body: &body,
        };
        let accepted = check(&request, &rules)?;
        let publisher = Publisher { id: tenant.as_str(), may_publish_core };
        let published = registry.publish(&accepted, &body, publisher, now)?;
        Ok::<_, PublishRefusal>((published, accepted.integrity))
    });
    match published.await? {
        Ok((published, integrity)) => {
            // Publishing the same version again records another audit entry, which makes up for one that was lost.
            note(call, "pack.published", &json!({"integrity": integrity.to_string()})).await?;
            let status = if published == Published::New { 201 } else { 200 };
            let body = json!({
                "name": call.param("name"), "version": call.param("version"), "integrity": integrity.to_string(),
            });
            Ok(response::json(status, &body))
        }
        Err(refused) => Ok(errors::refusal(&refused)),
    }
}

/// Records a change in the audit log.
async fn note(call: &CheckedRequest, action: &str, more: &Value) -> Result<(), Refusal> {
    let mut details = json!({"pack": call.param("name"), "version": call.param("version")});
    if let (Value::Object(details), Value::Object(more)) = (&mut details, more) {
        details.extend(more.clone());
    }
    call.state.runs.audit().note(&call.caller, action, &details).await
}

/// Changes a version and records it. This accesses the disk, so it runs on a blocking thread.
async fn changed(
    call: &CheckedRequest,
    action: &str,
    change: impl FnOnce(&PackName, &Version, Publisher<'_>) -> Result<(), packs::registry::RegistryError>
    + Send
    + 'static,
    success: impl FnOnce() -> Response,
) -> HandlerResult {
    let (name, version) = match address(call) {
        Ok(address) => address,
        Err(refused) => return Ok(refused),
    };
    let tenant = call.caller.tenant.clone();
    let may_publish_core = call.caller.may(Scope::Admin);
    let work = move || change(&name, &version, Publisher { id: tenant.as_str(), may_publish_core });
    match on_a_thread(work).await? {
        Ok(()) => {
            note(call, action, &Value::Null).await?;
            Ok(success())
        }
        Err(error) => Ok(errors::registry(&error)),
    }
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    response
}

fn state(name: &'static str, value: bool) -> impl FnOnce() -> Response {
    move || response::json(200, &json!({name: value}))
}

async fn unpublish_version(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let now = now(call);
    let change = move |name: &PackName, version: &Version, publisher: Publisher<'_>| {
        registry.unpublish(name, version, publisher, now)
    };
    changed(call, "pack.unpublished", change, nothing).await
}

async fn mark_deprecated(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let change = Deprecation::from(call.body_as::<Deprecate>()?);
    let change = move |name: &PackName, version: &Version, publisher: Publisher<'_>| {
        registry.deprecate(name, version, publisher, Some(change))
    };
    changed(call, "pack.deprecated", change, state("deprecated", true)).await
}

async fn unmark_deprecated(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let change = move |name: &PackName, version: &Version, publisher: Publisher<'_>| {
        registry.deprecate(name, version, publisher, None)
    };
    changed(call, "pack.undeprecated", change, state("deprecated", false)).await
}

async fn mark_yanked(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let change = Yank::from(call.body_as::<Because>()?);
    let change = move |name: &PackName, version: &Version, publisher: Publisher<'_>| {
        registry.yank(name, version, publisher, Some(change))
    };
    changed(call, "pack.yanked", change, state("yanked", true)).await
}

async fn unmark_yanked(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let change = move |name: &PackName, version: &Version, publisher: Publisher<'_>| {
        registry.yank(name, version, publisher, None)
    };
    changed(call, "pack.unyanked", change, state("yanked", false)).await
}

async fn read_keychain(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let written = || {
        let name = name(call)?;
        let keys = registry.keychain(&name).map_err(|error| errors::registry(&error))?;
        Ok(response::json(200, &json!({"name": name, "keys": keys})))
    };
    whole(written())
}

async fn rotate_key(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let name = match name(call) {
        Ok(name) => name,
        Err(refused) => return Ok(refused),
    };
    let request = RotateRequest::from(call.body_as::<RotateKey>()?);
    let tenant = call.caller.tenant.clone();
    let may_publish_core = call.caller.may(Scope::Admin);
    let work = move || registry.rotate(&name, &request, Publisher { id: tenant.as_str(), may_publish_core });
    match on_a_thread(work).await? {
        Ok(key) => {
            note(call, "pack.key_rotated", &json!({"kid": key.kid})).await?;
            Ok(response::json(200, &json!({"key": key})))
        }
        Err(error) => Ok(errors::registry(&error)),
    }
}

async fn reset_registry(call: &CheckedRequest, registry: Arc<PackRegistry>) -> HandlerResult {
    let Nothing {} = call.body_as()?;
    match on_a_thread(move || registry.reset()).await? {
        Ok(cleared) => {
            call.state
                .runs
                .audit()
                .note(&call.caller, "pack.tests_reset", &json!({"cleared": cleared}))
                .await?;
            Ok(response::json(200, &json!({"cleared": cleared})))
        }
        Err(error) => Ok(errors::registry(&error)),
    }
}
