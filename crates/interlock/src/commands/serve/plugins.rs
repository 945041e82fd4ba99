//! The plugin origin: a separate listener that serves only plugins.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use canon::error::Envelope;
use plugins::Plugins;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::cannot_listen;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

const FOLDER: &str = "packs";

/// The installed plugins, and the address that serves them, if any.
pub(super) struct Frames {
    installed: Arc<Plugins>,
    listener: Option<(TcpListener, SocketAddr)>,
}

pub(super) struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Frames {
    /// Binds the configured address and loads the installed packs.
    pub(super) fn open(settings: &Settings, public_url: &str) -> Result<Self, Failure> {
        let listener = match settings.plugins_listen.value {
            None => None,
            Some(wanted) => {
                let bound = TcpListener::bind(wanted).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    let address = listener.local_addr()?;
                    Ok((listener, address))
                });
                Some(bound.map_err(|cause| cannot_listen(wanted, &cause))?)
            }
        };
        let origin = listener.as_ref().map(|(_, address)| {
            settings.plugins_url.value.clone().unwrap_or_else(|| format!("http://{address}"))
        });
        if origin.as_deref().is_some_and(|origin| is_same(origin, public_url)) {
            let message =
                "`plugins.public_url` has the same origin as the console; plugins need a separate origin";
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Use another host name or port for plugins.")
                .detail("key", "plugins.public_url")
                .into());
        }
        let folder = settings.data_dir.value.join(FOLDER);
        let installed = Plugins::open(&folder, origin, public_url).map_err(|error| -> Failure {
            Envelope::new(storage::StoreErrorCode::StoreIo, error.to_string())
                .suggest("Check that the data directory is writable and that the disk is not full.")
                .detail("folder", folder.display().to_string())
                .into()
        })?;
        Ok(Self { installed: Arc::new(installed), listener })
    }

    pub(super) fn installed(&self) -> Arc<Plugins> {
        Arc::clone(&self.installed)
    }

    pub(super) fn are_served(&self) -> bool {
        self.listener.is_some()
    }

    /// Starts serving plugins, if an address is configured.
    pub(super) fn serve(&self, settings: server::http::Settings) -> Result<Option<Serving>, Failure> {
        let Some((listener, address)) = &self.listener else { return Ok(None) };
        let listener = listener.try_clone().and_then(tokio::net::TcpListener::from_std);
        let listener = listener.map_err(|cause| cannot_listen(*address, &cause))?;
        let router = console::plugin_frames(self.installed());
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            // A dropped sender also means stop.
            let _ = stopped.await;
        };
        let task = tokio::spawn(server::http::serve_router(listener, router, settings, stopped));
        Ok(Some(Serving { stop, task }))
    }
}

impl Serving {
    /// Stops accepting requests and waits for those in progress.
    pub(super) async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Whether two URLs have the same origin.
fn is_same(origin: &str, public_url: &str) -> bool {
    let trimmed = |text: &str| text.trim_end_matches('/').to_ascii_lowercase();
    let (origin, url) = (trimmed(origin), trimmed(public_url));
    url == origin || url.strip_prefix(&origin).is_some_and(|rest| rest.starts_with('/'))
}
