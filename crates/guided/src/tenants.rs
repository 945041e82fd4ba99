//! The guided sessions of each tenant.
//!
//! The root store has the sessions of the tenant `default`. Every other tenant has its own store with its own signing
//! keys, so a token of one tenant is not valid for another. All tenants share the workflows of the host.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use catalogue::Catalogue;
use ports::sessions::{SessionStores, StoreError};
use system::{Clock, Entropy};
use tokio::sync::Notify;

use super::refusal::{Refusal, not_a_tenant};
use super::{Guided, GuidedOptions, Verifier};

/// The tenant of the data directory itself.
pub const DEFAULT_TENANT: &str = "default";
/// The maximum length of a tenant name, in characters.
pub(super) const MAX_TENANT: usize = 64;
/// The maximum number of open tenants besides the default one. Each keeps some folded sessions and an index in memory. A
/// closed tenant is opened again on demand.
const OPEN: usize = 64;

/// Whether a string is a valid tenant name: 1 to 64 lower-case letters, digits, `-` and `_`. A valid name is a single
/// path component.
pub fn is_tenant_name(text: &str) -> bool {
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=MAX_TENANT).contains(&text.len()) && text.bytes().all(is_name)
}

/// The dependencies of the guided services of all tenants.
#[derive(Clone)]
pub struct TenantsOptions {
    /// Opens the store of a tenant.
    pub stores: Arc<dyn SessionStores>,
    /// The workflows, shared by all tenants.
    pub catalogue: Catalogue,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Verifies the evidence of every tenant.
    pub verifier: Arc<Verifier>,
}

/// The guided service of every tenant, opened on first use.
pub struct Tenants {
    options: TenantsOptions,
    /// Notified whenever this process advances a session of any tenant.
    advanced: Arc<Notify>,
    default: Arc<Guided>,
    /// The most recently used tenant is last.
    open: Mutex<VecDeque<(String, Arc<Guided>)>>,
}

impl fmt::Debug for Tenants {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tenants").field("stores", &self.options.stores).finish_non_exhaustive()
    }
}

impl Tenants {
    /// Opens the tenants of a store.
    ///
    /// # Errors
    /// The store was written by a newer version, or cannot be read.
    pub async fn open(options: TenantsOptions) -> Result<Self, StoreError> {
        let advanced = Arc::new(Notify::new());
        let default = options.open(None, &advanced).await?;
        Ok(Self { options, advanced, default, open: Mutex::default() })
    }

    /// Notified whenever this process advances a session of any tenant.
    pub const fn advanced(&self) -> &Arc<Notify> {
        &self.advanced
    }

    /// The catalogue of workflows that all tenants share.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.options.catalogue
    }

    /// Kills all running verification commands and starts no more. Called at shutdown.
    pub fn stop_verifying(&self) {
        self.options.verifier.stop();
    }

    /// The guided service of a tenant.
    ///
    /// # Errors
    /// An invalid name, and errors of the store.
    pub async fn guided(&self, tenant: &str) -> Result<Arc<Guided>, Refusal> {
        if tenant == DEFAULT_TENANT {
            return Ok(Arc::clone(&self.default));
        }
        if !is_tenant_name(tenant) {
            return Err(not_a_tenant(tenant));
        }
        if let Some(guided) = self.opened(tenant) {
            return Ok(guided);
        }
        // Opened without holding the lock, so that a slow disk does not delay other tenants. If two calls open the same
        // tenant concurrently, the second instance is dropped. This is safe because several processes may share a store.
        let guided = self.options.open(Some(tenant), &self.advanced).await?;
        Ok(self.keep(tenant, guided))
    }

    /// The service of an open tenant. Marks it as the most recently used.
    fn opened(&self, tenant: &str) -> Option<Arc<Guided>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let place = open.iter().position(|(name, _)| name == tenant)?;
        let found = open.remove(place)?;
        let guided = Arc::clone(&found.1);
        open.push_back(found);
        Some(guided)
    }

    fn keep(&self, tenant: &str, guided: Arc<Guided>) -> Arc<Guided> {
        if let Some(first) = self.opened(tenant) {
            return first;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((tenant.to_owned(), Arc::clone(&guided)));
        if open.len() > OPEN {
            open.pop_front();
        }
        guided
    }
}

impl TenantsOptions {
    async fn open(&self, tenant: Option<&str>, advanced: &Arc<Notify>) -> Result<Arc<Guided>, StoreError> {
        let options = self.clone();
        Ok(Arc::new(Guided::new(GuidedOptions {
            store: self.stores.open(tenant).await?,
            catalogue: options.catalogue,
            clock: options.clock,
            entropy: options.entropy,
            verifier: options.verifier,
            advanced: Arc::clone(advanced),
        })))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use catalogue::CatalogueOptions;
    use storage::disk::RealDisk;
    use storage::files::FileTenants;
    use system::{ManualClock, SeededEntropy};

    use super::*;
    use crate::api::{ContinueRequest, Handle, Intent, ResumeRequest, StartRequest};

    async fn tenants(dir: &std::path::Path) -> Tenants {
        let options = TenantsOptions {
            stores: Arc::new(FileTenants::new(Arc::new(RealDisk::open(dir).unwrap()))),
            catalogue: Catalogue::new(CatalogueOptions::default()),
            clock: Arc::new(ManualClock::at(1_700_000_000_000)),
            entropy: Arc::new(SeededEntropy::new(1)),
            verifier: Verifier::none(),
        };
        Tenants::open(options).await.unwrap()
    }

    async fn start(guided: &Guided) -> String {
        let request = StartRequest {
            workflow_id: "wr.bug_investigation".into(),
            goal: "find out".into(),
            ..StartRequest::default()
        };
        guided.start(request).await.unwrap().continue_token.unwrap()
    }

    #[tokio::test]
    async fn tenants_do_not_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path()).await;
        let (default, acme, other) = (
            tenants.guided(DEFAULT_TENANT).await.unwrap(),
            tenants.guided("acme").await.unwrap(),
            tenants.guided("other").await.unwrap(),
        );
        let token = start(&acme).await;
        for (name, guided, runs) in [("default", &default, 0), ("acme", &acme, 1), ("other", &other, 0)] {
            let found = guided.resume(&ResumeRequest::default()).await.unwrap();
            assert_eq!(found.total_eligible, runs, "{name}");
        }
        let call = ContinueRequest {
            handle: Handle::Single(token),
            intent: Intent::Rehydrate,
            notes_markdown: None,
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        };
        assert_eq!(other.proceed(call.clone()).await.unwrap_err().envelope().code(), "TOKEN_BAD_SIGNATURE");
        acme.proceed(call).await.unwrap();
        assert!(Arc::ptr_eq(&acme, &tenants.guided("acme").await.unwrap()));
    }

    #[tokio::test]
    async fn a_tenant_has_a_directory_that_only_its_owner_can_open() {
        let dir = tempfile::tempdir().unwrap();
        start(&tenants(dir.path()).await.guided("acme").await.unwrap()).await;
        for made in ["tenants", "tenants/acme", "tenants/acme/sessions", "tenants/acme/keys"] {
            let mode = std::fs::metadata(dir.path().join(made)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{made}");
        }
    }

    #[tokio::test]
    async fn invalid_names_of_tenants_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path()).await;
        let long = "a".repeat(65);
        for name in ["", ".", "..", "../x", "/etc", "a/b", "A", "a b", "é", "a\0", &long] {
            let refusal = tenants.guided(name).await.unwrap_err();
            assert_eq!(refusal.envelope().code(), "TENANT_INVALID", "{name:?}");
        }
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was created for them");
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_a_tenant_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        symlink(elsewhere.path(), dir.path().join("tenants/acme")).unwrap();
        assert!(tenants(dir.path()).await.guided("acme").await.is_err());
        assert!(std::fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    }

    #[tokio::test]
    async fn a_bounded_number_of_tenants_is_kept_open() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path()).await;
        let first = tenants.guided("t0").await.unwrap();
        for n in 1..OPEN {
            tenants.guided(&format!("t{n}")).await.unwrap();
        }
        assert!(
            Arc::ptr_eq(&first, &tenants.guided("t0").await.unwrap()),
            "used again, it is the last to go"
        );
        tenants.guided("one-more").await.unwrap();
        assert_eq!(tenants.open.lock().unwrap().len(), OPEN);
        assert!(Arc::ptr_eq(&first, &tenants.guided("t0").await.unwrap()));
    }
}
