//! A proxy between the store and PostgreSQL that cuts connections at chosen moments.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The message does not reach the server.
    Before,
    /// The message reaches the server and its reply is not awaited.
    While,
    /// The server has replied, and the reply does not reach the client.
    After,
}

impl Cut {
    pub(crate) const ALL: [Self; 3] = [Self::Before, Self::While, Self::After];
}

/// What the proxy is waiting for.
#[derive(Clone, Debug)]
struct Armed {
    /// The bytes of a message of the client.
    needle: Vec<u8>,
    /// How many further messages of that connection pass before the cut.
    skip: usize,
    cut: Cut,
    /// Whether connections are refused afterwards.
    then_refuse: bool,
}

#[derive(Default)]
struct State {
    armed: Option<Armed>,
    /// The connection that has sent the bytes.
    found: Option<usize>,
    has_cut: bool,
    refuses: bool,
}

impl State {
    /// Whether a connection is cut at this message of its client, and whether others are refused then.
    fn cut(&mut self, connection: usize, message: &[u8]) -> Option<(Cut, bool)> {
        let armed = self.armed.as_mut()?;
        match self.found {
            None if message.windows(armed.needle.len()).any(|part| part == armed.needle) => {
                self.found = Some(connection);
            }
            Some(found) if found == connection => armed.skip -= 1,
            None | Some(_) => return None,
        }
        if armed.skip > 0 {
            return None;
        }
        let cut = (armed.cut, armed.then_refuse);
        (self.armed, self.found, self.has_cut) = (None, None, true);
        Some(cut)
    }
}

pub(crate) struct Proxy {
    /// The URL of the database through the proxy.
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// A proxy in front of a database that is reached by a local socket.
    pub(crate) async fn start(url: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("il-proxy-").tempdir().unwrap();
        let behind = url.split(' ').find_map(|part| part.strip_prefix("host=")).unwrap();
        let server = PathBuf::from(behind).join(".s.PGSQL.5432");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            let mut connections = 0..;
            while let Ok((client, _)) = listener.accept().await {
                if shared.lock().unwrap().refuses {
                    continue;
                }
                let server = UnixStream::connect(&server).await.unwrap();
                tokio::spawn(pass(connections.next().unwrap(), client, server, Arc::clone(&shared)));
            }
        });
        let url = url.replace(behind, &folder.path().display().to_string());
        Self { url, state, _folder: folder }
    }

    /// Cuts the connection on which the client sends these bytes, after `skip` further messages.
    pub(crate) fn arm(&self, needle: &[u8], skip: usize, cut: Cut) {
        let armed = Armed { needle: needle.to_vec(), skip, cut, then_refuse: false };
        self.state.lock().unwrap().armed = Some(armed);
    }

    /// Cuts the connection after the reply, and then refuses all others.
    pub(crate) fn arm_and_refuse(&self, needle: &[u8]) {
        let armed = Armed { needle: needle.to_vec(), skip: 0, cut: Cut::After, then_refuse: true };
        self.state.lock().unwrap().armed = Some(armed);
    }

    /// Stops waiting, and accepts connections. Returns whether a connection was cut since the proxy was armed.
    pub(crate) fn disarm(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        std::mem::take(&mut *state).has_cut
    }
}

async fn pass(connection: usize, client: UnixStream, server: UnixStream, state: Arc<Mutex<State>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut replied) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Some(size) = read.ok().filter(|size| *size > 0) else { return };
                let message = &asked[..size];
                let cut = state.lock().unwrap().cut(connection, message);
                match cut {
                    Some((Cut::Before, _)) => return,
                    Some((Cut::While, _)) => {
                        let _ = to_server.write_all(message).await;
                        return;
                    }
                    Some((Cut::After, then_refuse)) => {
                        if to_server.write_all(message).await.is_ok() {
                            let _ = from_server.read(&mut replied).await;
                        }
                        state.lock().unwrap().refuses = then_refuse;
                        return;
                    }
                    None => {}
                }
                if to_server.write_all(message).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut replied) => {
                let Some(size) = read.ok().filter(|size| *size > 0) else { return };
                if to_client.write_all(&replied[..size]).await.is_err() {
                    return;
                }
            }
        }
    }
}
