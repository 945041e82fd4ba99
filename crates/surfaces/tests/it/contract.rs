//! The contracts of the ports, each one set of tests that every adapter passes.
//!
//! They live here and not in the crate, so that nothing of them is in the product; an adapter of a server runs them from its own module
//! of this binary: `crate::contract::queue::all!(open())`, where `open()` gives the port and whatever has to live as long as it.

pub(crate) mod blob;
pub(crate) mod cache;
pub(crate) mod fs;
pub(crate) mod kv;
pub(crate) mod queue;
pub(crate) mod table;

/// Runs every law of a contract against a port that `open` makes. What `open` returns beside the port is kept until the end.
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
