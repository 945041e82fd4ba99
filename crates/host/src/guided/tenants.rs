//! The guided sessions of each tenant.
//!
//! The data directory itself is the tenant `default`; tenant T has the same layout below `tenants/<T>/`, with signing keys of its own,
//! so that a token of one tenant is no token of another. Workflows are shared: which there are is a matter of the host.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use storage::StoreError;
use storage::disk::{DiskPath, RealDisk};
use storage::files::SessionFiles;

use super::refusal::{Refusal, not_a_tenant};
use super::{Guided, Verifier};
use crate::catalogue::Catalogue;
use crate::system::{Clock, Entropy};

/// The tenant of the data directory itself.
pub const DEFAULT_TENANT: &str = "default";
/// The longest name of a tenant, in characters.
pub(super) const MAX_TENANT: usize = 64;
/// How many tenants are kept open besides the default one. Each holds a few folded sessions and an index; one that was closed is
/// opened again when it is asked for.
const OPEN: usize = 64;

/// Whether a text can be the name of a tenant: 1 to 64 lower-case letters, digits, `-` and `_`. Such a name is one name of a path,
/// and none that leads elsewhere.
pub fn is_tenant_name(text: &str) -> bool {
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=MAX_TENANT).contains(&text.len()) && text.bytes().all(is_name)
}

/// The guided service of every tenant of a data directory, opened when it is first asked for.
pub struct Tenants {
    disk: Arc<RealDisk>,
    catalogue: Catalogue,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    default: Arc<Guided>,
    verifier: Option<Arc<Verifier>>,
    /// The one that was asked for last is the last.
    open: Mutex<VecDeque<(String, Arc<Guided>)>>,
}

impl fmt::Debug for Tenants {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tenants").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Tenants {
    /// The tenants of a data directory, which all choose from the same workflows.
    ///
    /// # Errors
    /// A directory of a newer version, or one that cannot be read.
    pub fn new(
        disk: Arc<RealDisk>,
        catalogue: Catalogue,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, StoreError> {
        let files = SessionFiles::open(Arc::clone(&disk) as _)?;
        let default =
            Arc::new(Guided::new(files, catalogue.clone(), Arc::clone(&clock), Arc::clone(&entropy)));
        Ok(Self { disk, catalogue, clock, entropy, default, verifier: None, open: Mutex::default() })
    }

    /// Verifies the evidence of every tenant with this. A tenant that is open already goes on as it is.
    #[must_use]
    pub fn verifying_with(self, verifier: Arc<Verifier>) -> Self {
        self.default.verify_with(&verifier);
        Self { verifier: Some(verifier), ..self }
    }

    /// Ends every command that runs for a session, and lets none begin: for the end of the process.
    pub fn stop_verifying(&self) {
        if let Some(verifier) = &self.verifier {
            verifier.stop();
        }
    }

    /// The guided service of a tenant. Blocks while one is opened.
    ///
    /// # Errors
    /// A text that cannot be the name of a tenant, and trouble with the disk.
    pub fn guided(&self, tenant: &str) -> Result<Arc<Guided>, Refusal> {
        if tenant == DEFAULT_TENANT {
            return Ok(Arc::clone(&self.default));
        }
        if !is_tenant_name(tenant) {
            return Err(not_a_tenant(tenant));
        }
        if let Some(guided) = self.opened(tenant) {
            return Ok(guided);
        }
        // Opened beside the lock: a slow disk holds up nobody who needs another tenant. Of two that are opened at once one is
        // dropped, which is no harm, as any number of processes may share a directory.
        let dir = DiskPath::root("tenants").join(tenant);
        let disk = self.disk.open_below(&dir).map_err(|cause| StoreError::Disk {
            doing: "open",
            path: dir.to_string(),
            cause,
        })?;
        let files = SessionFiles::open(Arc::new(disk))?;
        let (clock, entropy) = (Arc::clone(&self.clock), Arc::clone(&self.entropy));
        let guided = Arc::new(Guided::new(files, self.catalogue.clone(), clock, entropy));
        if let Some(verifier) = &self.verifier {
            guided.verify_with(verifier);
        }
        Ok(self.keep(tenant, guided))
    }

    /// The service of a tenant that is open, which is now the one asked for last.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;
    use crate::catalogue::CatalogueOptions;
    use crate::guided::api::{ContinueRequest, Handle, Intent, ResumeRequest, StartRequest};
    use crate::system::{ManualClock, SeededEntropy};

    fn tenants(dir: &std::path::Path) -> Tenants {
        Tenants::new(
            Arc::new(RealDisk::open(dir).unwrap()),
            Catalogue::new(CatalogueOptions::default()),
            Arc::new(ManualClock::at(1_700_000_000_000)),
            Arc::new(SeededEntropy::new(1)),
        )
        .unwrap()
    }

    fn start(guided: &Guided) -> String {
        let request = StartRequest {
            workflow_id: "wr.bug_investigation".into(),
            goal: "find out".into(),
            ..StartRequest::default()
        };
        guided.start(request).unwrap().continue_token.unwrap()
    }

    #[test]
    fn tenants_do_not_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path());
        let (default, acme, other) = (
            tenants.guided(DEFAULT_TENANT).unwrap(),
            tenants.guided("acme").unwrap(),
            tenants.guided("other").unwrap(),
        );
        let token = start(&acme);
        for (name, guided, runs) in [("default", &default, 0), ("acme", &acme, 1), ("other", &other, 0)] {
            let found = guided.resume(&ResumeRequest::default()).unwrap();
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
        assert_eq!(other.proceed(call.clone()).unwrap_err().envelope().code(), "TOKEN_BAD_SIGNATURE");
        acme.proceed(call).unwrap();
        assert!(Arc::ptr_eq(&acme, &tenants.guided("acme").unwrap()));
    }

    #[test]
    fn a_tenant_has_a_directory_that_only_its_owner_can_open() {
        let dir = tempfile::tempdir().unwrap();
        start(&tenants(dir.path()).guided("acme").unwrap());
        for made in ["tenants", "tenants/acme", "tenants/acme/sessions", "tenants/acme/keys"] {
            let mode = std::fs::metadata(dir.path().join(made)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{made}");
        }
    }

    #[test]
    fn names_that_are_no_tenants() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path());
        let long = "a".repeat(65);
        for name in ["", ".", "..", "../x", "/etc", "a/b", "A", "a b", "é", "a\0", &long] {
            assert_eq!(tenants.guided(name).unwrap_err().envelope().code(), "TENANT_INVALID", "{name:?}");
        }
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was made for them");
    }

    #[test]
    fn a_link_in_the_place_of_a_tenant_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        symlink(elsewhere.path(), dir.path().join("tenants/acme")).unwrap();
        assert!(tenants(dir.path()).guided("acme").is_err());
        assert!(std::fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_bounded_number_of_tenants_is_kept_open() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = tenants(dir.path());
        let first = tenants.guided("t0").unwrap();
        for n in 1..OPEN {
            tenants.guided(&format!("t{n}")).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &tenants.guided("t0").unwrap()), "asked for again, it is the last to go");
        tenants.guided("one-more").unwrap();
        assert_eq!(tenants.open.lock().unwrap().len(), OPEN);
        assert!(Arc::ptr_eq(&first, &tenants.guided("t0").unwrap()));
    }
}
