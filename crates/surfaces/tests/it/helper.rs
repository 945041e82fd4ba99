//! Surfaces in a temporary folder.

use canon::time::Timestamp;
use serde_json::Value;
use surfaces::{Limits, Options, Scope, Surface, SurfaceCall, SurfaceError, Surfaces, Tenant};

/// The start time of tests.
pub(crate) const NOW: u64 = 1_700_000_000_000;

pub(crate) struct Host {
    pub(crate) surfaces: Surfaces,
    pub(crate) folder: tempfile::TempDir,
    limits: Limits,
}

impl Host {
    pub(crate) fn open() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let folder = tempfile::tempdir().unwrap();
        let surfaces = open(folder.path(), &limits);
        Self { surfaces, folder, limits }
    }

    /// Closes and reopens everything.
    pub(crate) fn reopened(self) -> Self {
        self.reopened_with(|_| ())
    }

    /// Reopens with different limits.
    pub(crate) fn reopened_with(self, change: impl FnOnce(&mut Limits)) -> Self {
        let Self { surfaces, folder, mut limits } = self;
        drop(surfaces);
        change(&mut limits);
        let surfaces = open(folder.path(), &limits);
        Self { surfaces, folder, limits }
    }

    pub(crate) async fn try_at(
        &self,
        at: u64,
        tenant: &str,
        op: &str,
        args: Value,
    ) -> Result<Value, SurfaceError> {
        self.surfaces.call(call(tenant, op, args, at, None)).await
    }

    /// A call of `surface.op` as `tenant` that fails.
    pub(crate) async fn refused(&self, tenant: &str, op: &str, args: Value) -> String {
        let error = self.try_at(NOW, tenant, op, args).await.unwrap_err();
        error.code.as_str().to_owned()
    }

    pub(crate) async fn at(&self, at: u64, tenant: &str, op: &str, args: Value) -> Value {
        let shown = format!("{op} {args}");
        self.try_at(at, tenant, op, args).await.unwrap_or_else(|error| panic!("{shown}: {error:?}"))
    }

    pub(crate) async fn call(&self, tenant: &str, op: &str, args: Value) -> Value {
        self.at(NOW, tenant, op, args).await
    }

    pub(crate) async fn once(
        &self,
        effect: &str,
        tenant: &str,
        op: &str,
        args: Value,
    ) -> Result<Value, SurfaceError> {
        self.surfaces.call(call(tenant, op, args, NOW, Some(effect))).await
    }
}

fn open(folder: &std::path::Path, limits: &Limits) -> Surfaces {
    let mut options = Options::new(folder.join("surfaces"));
    options.limits = limits.clone();
    Surfaces::open(&options).unwrap()
}

pub(crate) fn call(tenant: &str, op: &str, args: Value, at: u64, effect: Option<&str>) -> SurfaceCall {
    let (surface, op) = op.split_once('.').unwrap();
    let Value::Object(args) = args else { panic!("arguments are an object") };
    SurfaceCall {
        tenant: Tenant::new(tenant).unwrap(),
        surface: Surface::parse(surface).unwrap(),
        op: op.to_owned(),
        args,
        effect: effect.map(str::to_owned),
        now: Timestamp(at),
    }
}

pub(crate) fn scope(tenant: &str) -> Scope {
    scope_at(tenant, NOW)
}

pub(crate) fn scope_at(tenant: &str, at: u64) -> Scope {
    Scope::new(Tenant::new(tenant).unwrap(), Timestamp(at))
}
