//! Contract tests of the ports; every adapter runs all of them.
//!
//! They are test code, so the product does not contain them. A server adapter runs them from its own module of this
//! binary: `crate::contract::queue::all!(open())`, where `open()` returns the port and a guard to keep alive.

pub(crate) mod blob;
pub(crate) mod cache;
pub(crate) mod fs;
pub(crate) mod kv;
pub(crate) mod queue;
pub(crate) mod table;

/// Runs every test of a contract on a port from `open`. The second value that `open` returns is kept alive until the
/// end.
macro_rules! hold {
    ($contract:ident, $open:expr, [$($law:ident),+ $(,)?]) => {
        $(
            #[tokio::test]
            async fn $law() {
                let (port, _kept) = $open;
                crate::contract::$contract::laws::$law(&*port).await;
            }
        )+
    };
}
pub(crate) use hold;

macro_rules! embedded {
    ($module:ident, $contract:ident, $port:path, $get:ident) => {
        mod $module {
            use crate::helper::Host;

            fn open() -> (std::sync::Arc<dyn $port>, Host) {
                let host = Host::open();
                (std::sync::Arc::clone(host.surfaces.$get()), host)
            }

            super::$contract::all!(open());
        }
    };
}

embedded!(embedded_blob, blob, surfaces::blob::Blobs, blobs);
embedded!(embedded_cache, cache, surfaces::cache::Cache, cache);
embedded!(embedded_fs, fs, surfaces::fs::Files, files);
embedded!(embedded_kv, kv, surfaces::kv::Kv, kv);
embedded!(embedded_queue, queue, surfaces::queue::Queue, queue);
embedded!(embedded_table, table, surfaces::table::Tables, tables);
