//! Servers from system packages, private to this process.
//!
//! A server runs under a shell that waits for the end of its input. The input ends with this process; then the server
//! is stopped and its folder removed. A missing server is reported, and with `INTERLOCK_SKIP_NOTHING=1` it is a
//! failure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server and its folder.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    /// Its input keeps the server running.
    child: Child,
}

impl Server {
    /// Starts the script. `$1` is an empty folder; the script calls `hold PID` when its server runs.
    fn start(script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("il-").tempdir().unwrap().keep();
        let script = format!(
            "hold() {{ cat > /dev/null; kill -TERM $1; wait $1; rm -rf \"$folder\"; }}\nfolder=$1; cd \"$folder\"\n{script}"
        );
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { folder, child }
    }

    /// Waits until the server is visible.
    fn wait<T>(&self, mut seen: impl FnMut(&Path) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(seen) = seen(&self.folder) {
                return seen;
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn missing(what: &str) {
    let said = format!("{what} is not installed, so its tests were SKIPPED");
    assert!(std::env::var_os("INTERLOCK_SKIP_NOTHING").is_none_or(|value| value != "1"), "{said}");
    eprintln!("{said}");
}

/// The newest PostgreSQL of the packages `postgresql-*`.
fn postgres_programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.retain(|programs| programs.join("initdb").exists() && programs.join("postgres").exists());
    versions.sort();
    versions.pop()
}

/// The address of an empty database. All tests of the process share one server, and each has its own database.
pub(crate) async fn postgres() -> Option<String> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = tokio::task::spawn_blocking(|| {
        SERVER.get_or_init(|| {
            let Some(programs) = postgres_programs() else {
                missing("the package postgresql");
                return None;
            };
            let programs = programs.display();
            // The server refuses to run as root. Durability is not needed in a test.
            let server = Server::start(&format!(
                "if [ \"$(id -u)\" = 0 ]; then chown postgres \"$folder\"; as='setpriv --reuid=postgres --regid=postgres --init-groups'; else as=; fi
                 $as {programs}/initdb -D \"$folder/data\" -U postgres -A trust -N -E UTF8 --locale=C || exit 1
                 $as {programs}/postgres -D \"$folder/data\" -k \"$folder\" -c listen_addresses= -c fsync=off -c max_connections=200 \
                     -c shared_buffers=16MB &
                 hold $!"
            ));
            server.wait(|folder| {
                let log = std::fs::read_to_string(folder.join("log")).ok()?;
                log.contains("database system is ready to accept connections").then_some(())
            });
            Some(server)
        })
    });
    let server = server.await.unwrap().as_ref()?;
    let address = |name: &str| format!("host={} user=postgres dbname={name}", server.folder.display());
    let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (client, connection) =
        tokio_postgres::connect(&address("postgres"), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    Some(address(&name))
}

/// A NATS server with JetStream and its address. The caller owns it and may stop it.
pub(crate) async fn nats() -> Option<(String, Server)> {
    if !Path::new("/usr/sbin/nats-server").exists() && !Path::new("/usr/bin/nats-server").exists() {
        missing("the package nats-server");
        return None;
    }
    let started = tokio::task::spawn_blocking(|| {
        let server = Server::start(
            "PATH=$PATH:/usr/sbin
             nats-server -js -sd \"$folder/store\" -a 127.0.0.1 -p -1 --ports_file_dir \"$folder\" &
             hold $!",
        );
        let address = server.wait(|folder| {
            let ports = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
            let ports =
                ports.filter(|path| path.extension().is_some_and(|extension| extension == "ports")).last()?;
            let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(ports).ok()?).ok()?;
            Some(ports["nats"][0].as_str()?.to_owned())
        });
        (address, server)
    });
    Some(started.await.unwrap())
}
