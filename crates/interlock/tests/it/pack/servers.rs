//! Registries that are servers, and the keys they receive.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use packs::integrity::Integrity;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

use crate::program::{interlock, run_command, text};
use crate::serve::{KEY, Served};

/// A `pack` command on a data directory with a local key.
fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = interlock(&["pack"]);
    command.args(arguments).args(["--json", "--data-dir"]).arg(data).env("INTERLOCK_API_KEY", KEY);
    command
}

fn run(command: &mut Command) -> (i32, Value) {
    let output = run_command(command, b"");
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    (output.status.code().unwrap(), document)
}

fn pack(data: &Path, arguments: &[&str]) -> (i32, Value) {
    run(&mut command(data, arguments))
}

/// A pack in a folder.
fn skeleton(home: &Path) -> String {
    let folder = home.join("tools").to_str().unwrap().to_owned();
    assert_eq!(pack(home, &["new", "vendor.acme.tools", &folder]).0, 0);
    folder
}

/// Responses by path.
type Routes = HashMap<String, Vec<u8>>;

/// The prefix of a redirecting route, followed by the target.
const MOVED: &[u8] = b"moved to ";

/// A foreign server that responds at these paths only, and records the heads of all requests.
fn stranger(routes: Routes) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (heads, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let head = answer(&mut BufReader::new(stream.unwrap()), &routes);
            if heads.send(head).is_err() {
                return;
            }
        }
    });
    (url, received)
}

/// Answers one request and returns its head.
fn answer(stream: &mut BufReader<impl Read + Write>, routes: &Routes) -> String {
    let head = read_head(stream);
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = match routes.get(path) {
        None => ("404 Not Found".to_owned(), &b"{}"[..]),
        Some(body) if body.starts_with(MOVED) => {
            (format!("302 Found\r\nlocation: {}", text(&body[MOVED.len()..])), &b""[..])
        }
        Some(body) => ("200 OK".to_owned(), &body[..]),
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    stream.get_mut().write_all(body).unwrap();
    stream.get_mut().flush().unwrap();
    head
}

/// The head of a request in lower case; the body is skipped.
fn read_head(stream: &mut BufReader<impl Read>) -> String {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        head.push_str(&line);
        head.push('\n');
        if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
    head
}

#[test]
fn the_local_key_is_never_sent_to_other_servers() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let folder = skeleton(data);
    std::fs::create_dir_all(data.join("keys")).unwrap();
    std::fs::write(data.join("keys/local-api-key"), "the-local-key-of-this-host").unwrap();
    let (url, received) = stranger(Routes::new());

    let (code, refused) = pack(data, &["install", "vendor.acme.tools", "--registry", &url]);
    assert_eq!((code, &refused["code"]), (1, &Value::from("pack_not_found")), "{refused}");
    let head = received.recv().unwrap();
    assert!(head.starts_with("get /v1/packs/vendor.acme.tools "), "{head}");
    assert!(!head.contains("authorization"), "{head}");
    let mut without = command(data, &["install", "vendor.acme.tools", "--registry", &url]);
    assert_eq!(run(without.env_remove("INTERLOCK_API_KEY")).1["code"], "pack_not_found");
    assert!(!received.recv().unwrap().contains("authorization"), "nor is the key in the file");

    let publish = ["publish", &folder, "--registry", &url];
    let (code, refused) = pack(data, &publish);
    assert_eq!((code, &refused["code"]), (2, &Value::from("KEY_REQUIRED")), "{refused}");
    assert!(refused["suggestion"].as_str().unwrap().contains("--api-key"), "{refused}");
    assert!(received.try_recv().is_err(), "no request was sent");

    let given = data.join("given.key");
    std::fs::write(&given, "given-for-that-registry\n").unwrap();
    let (_, refused) = pack(data, &[&publish[..], &["--api-key", given.to_str().unwrap()]].concat());
    assert_eq!(refused["code"], "HOST_REFUSED", "{refused}");
    let head = received.recv().unwrap();
    assert!(head.starts_with("put /v1/packs/vendor.acme.tools/-/0.1.0.tgz "), "{head}");
    assert!(head.contains("authorization: bearer given-for-that-registry"), "{head}");
}

#[test]
fn a_public_registry_is_readable_without_a_key() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, workflows) = (here.path().join("data"), here.path().join("workflows"));
    std::fs::create_dir_all(&data).unwrap();
    std::fs::create_dir_all(&workflows).unwrap();
    std::fs::write(data.join("config.toml"), "[registry]\npublic = true\n").unwrap();
    let folder = skeleton(here.path());
    let served = Served::on(&data, &workflows);

    // The server of this data directory gets the local key, also under another of its names.
    let by_name = served.url.replace("127.0.0.1", "localhost");
    let (code, published) = pack(&data, &["publish", &folder, "--registry", &by_name]);
    assert_eq!((code, &published["outcome"]), (0, &Value::from("published")), "{published}");

    let lock = here.path().join("pack-lock.json");
    let install = ["install", "vendor.acme.tools@^0.1", "--registry", &served.url, "--lockfile"];
    let install = [&install[..], &[lock.to_str().unwrap()]].concat();
    // The other host has its own local key, which this server does not know: sending it would give
    // 401.
    let mut elsewhere_with = command(elsewhere.path(), &install);
    let (code, installed) = run(elsewhere_with.env("INTERLOCK_API_KEY", "a-key-of-another-host-0123456789"));
    assert_eq!(code, 0, "{installed}");
    assert_eq!(installed["installed"][0]["integrity"], published["integrity"]);
    let resolved = format!("{}/v1/packs/vendor.acme.tools/-/0.1.0.tgz", served.url);
    assert!(std::fs::read_to_string(&lock).unwrap().contains(&resolved));
    assert_eq!(run(command(elsewhere.path(), &install).env_remove("INTERLOCK_API_KEY")).0, 0);
    let publish = ["publish", &folder, "--registry", &served.url];
    assert_eq!(
        pack(elsewhere.path(), &publish).1["code"],
        "KEY_REQUIRED",
        "reading is public, publishing is not"
    );
}

#[test]
fn a_private_registry_requires_its_key() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, workflows) = (here.path().join("data"), here.path().join("workflows"));
    std::fs::create_dir_all(&workflows).unwrap();
    let folder = skeleton(here.path());
    let served = Served::on(&data, &workflows);
    let key = |name: &str, scope: &str| {
        let mut command = interlock(&["key", "new-api-key", "--json", "--scope", scope, "--data-dir"]);
        let made = run_command(command.arg(&data), b"");
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let file = elsewhere.path().join(name);
        std::fs::write(&file, made["key"].as_str().unwrap()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (reader, writer) = (key("reader", "manifest:read"), key("writer", "packs:publish"));

    let publish = ["publish", &folder, "--registry", &served.url];
    assert_eq!(pack(elsewhere.path(), &publish).1["code"], "KEY_REQUIRED");
    let (code, refused) = pack(elsewhere.path(), &[&publish[..], &["--api-key", &reader]].concat());
    assert_eq!((code, &refused["code"]), (1, &Value::from("HOST_REFUSED")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("forbidden"), "{refused}");
    let published = pack(elsewhere.path(), &[&publish[..], &["--api-key", &writer]].concat()).1;
    assert_eq!(published["outcome"], "published", "{published}");

    let install = ["install", "vendor.acme.tools", "--registry", &served.url];
    let (code, refused) = pack(elsewhere.path(), &install);
    assert_eq!((code, &refused["code"]), (2, &Value::from("KEY_REQUIRED")), "{refused}");
    // A foreign pack of that name does not replace the private one.
    let other = here.path().join("other").to_str().unwrap().to_owned();
    assert_eq!(pack(here.path(), &["publish", &folder, "--registry", &other]).0, 0);
    let both = [&install[..], &["--registry", &other]].concat();
    assert_eq!(pack(elsewhere.path(), &both).1["code"], "KEY_REQUIRED");
    std::fs::write(elsewhere.path().join("wrong"), "an-unknown-api-key--0123").unwrap();
    let wrong = elsewhere.path().join("wrong").to_str().unwrap().to_owned();
    let (_, refused) = pack(elsewhere.path(), &[&both[..], &["--api-key", &wrong]].concat());
    assert_eq!(refused["code"], "pack_registry_unreachable", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("rejected"), "{refused}");
    let (code, installed) = pack(elsewhere.path(), &[&install[..], &["--api-key", &reader]].concat());
    assert_eq!(code, 0, "{installed}");
    assert_eq!(installed["installed"][0]["integrity"], published["integrity"]);
    assert_eq!(pack(&data, &install).0, 0, "its own data directory needs no key");

    // A lockfile names registries, but does not decide which of them gets a key.
    let lock = here.path().join("pack-lock.json");
    let lock = lock.to_str().unwrap();
    assert_eq!(pack(&data, &[&install[..], &["--lockfile", lock]].concat()).0, 0);
    let third = tempfile::tempdir().unwrap();
    let locked = ["install", "--locked", lock];
    assert_eq!(pack(third.path(), &locked).1["code"], "KEY_REQUIRED");
    let (code, refused) = pack(third.path(), &[&locked[..], &["--api-key", &reader]].concat());
    assert_eq!(code, 2, "{refused}");
    let for_whom = format!("{reader}={}", served.url);
    assert!(refused["message"].as_str().unwrap().contains(&for_whom), "{refused}");
    let (code, installed) = pack(third.path(), &[&locked[..], &["--api-key", &for_whom]].concat());
    assert_eq!((code, &installed["installed"][0]["integrity"]), (0, &published["integrity"]), "{installed}");
}

#[test]
fn a_key_belongs_to_one_named_registry() {
    let home = tempfile::tempdir().unwrap();
    let key = home.path().join("some.key");
    std::fs::write(&key, "some-key").unwrap();
    std::fs::write(home.path().join("empty.key"), "\n").unwrap();
    let (key, empty) = (key.to_str().unwrap(), home.path().join("empty.key"));
    let elsewhere = format!("{key}=https://other.example");
    let folder = home.path().join("registry");
    let install = |registry: &str, key: &str| {
        pack(home.path(), &["install", "vendor.acme.tools", "--registry", registry, "--api-key", key])
    };
    for (registry, key, expected) in [
        ("http://127.0.0.1:9", elsewhere.as_str(), "not one of the registries"),
        (folder.to_str().unwrap(), key, "none of the registries is a server"),
        ("http://127.0.0.1:9", empty.to_str().unwrap(), "does not contain a key"),
        ("http://me:secret@127.0.0.1:9", key, "must not contain a password"),
    ] {
        let (code, refused) = install(registry, key);
        assert_eq!(code, 2, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
}

/// The document of a version, and its archive.
fn offered(routes: &mut Routes, version: &str, document: Value, archive: &[u8]) {
    let path = format!("/v1/packs/vendor.acme.tools/-/{version}");
    let mut whole = json!({
        "name": "vendor.acme.tools", "version": version, "integrity": Integrity::of(archive).to_string(),
    });
    whole.as_object_mut().unwrap().extend(document.as_object().unwrap().clone());
    routes.insert(format!("{path}.json"), whole.to_string().into_bytes());
    routes.insert(format!("{path}.tgz"), archive.to_vec());
}

fn listed(routes: &mut Routes, versions: impl IntoIterator<Item = String>) {
    let versions: serde_json::Map<String, Value> =
        versions.into_iter().map(|version| (version, json!({"yanked": false}))).collect();
    let document = json!({"name": "vendor.acme.tools", "versions": versions});
    routes.insert("/v1/packs/vendor.acme.tools".to_owned(), document.to_string().into_bytes());
}

/// The archive of a new pack with that name.
fn archive_of(home: &Path, name: &str) -> Vec<u8> {
    let (folder, file) = (home.join(name), home.join(format!("{name}.tgz")));
    pack(home, &["new", name, folder.to_str().unwrap(), "--kind", "card"]);
    pack(home, &["check", folder.to_str().unwrap(), "--output", file.to_str().unwrap()]);
    std::fs::read(file).unwrap()
}

#[test]
fn a_registry_that_returns_another_pack_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let other = archive_of(data, "core.openwop.http");
    let mut routes = Routes::new();
    listed(&mut routes, ["0.1.0".to_owned()]);
    // The digest matches the other pack.
    offered(&mut routes, "0.1.0", json!({}), &other);
    let (url, _received) = stranger(routes);
    let (code, refused) = pack(data, &["install", "vendor.acme.tools", "--registry", &url]);
    assert_eq!((code, &refused["code"]), (1, &Value::from("pack_integrity_failure")), "{refused}");
    assert_eq!(refused["details"]["found"], "core.openwop.http@0.1.0");
    assert_eq!(pack(data, &["list"]).1["packs"], json!([]));
}

#[test]
fn an_old_version_is_found_among_many_newer_ones() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let mut routes = Routes::new();
    listed(&mut routes, (0..120).map(|n| format!("0.1.{n}")));
    offered(&mut routes, "0.1.0", json!({}), &archive_of(data, "vendor.acme.tools"));
    let (url, received) = stranger(routes);
    let (code, installed) = pack(data, &["install", "vendor.acme.tools@0.1.0", "--registry", &url]);
    assert_eq!((code, &installed["installed"][0]["version"]), (0, &Value::from("0.1.0")), "{installed}");
    let paths: Vec<String> =
        received.try_iter().map(|head| head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(paths.len(), 3, "the list, the version and its archive: {paths:?}");
}

#[test]
fn archive_redirects_do_not_forward_the_key() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let archive = archive_of(data, "vendor.acme.tools");
    let (mirror, at_mirror) = stranger(Routes::from([("/a.tgz".to_owned(), archive.clone())]));
    let mut routes = Routes::new();
    listed(&mut routes, ["0.1.0".to_owned(), "0.2.0".to_owned()]);
    for (version, to) in [("0.1.0", format!("{mirror}/a.tgz")), ("0.2.0", "0.2.0.tgz".to_owned())] {
        offered(&mut routes, version, json!({}), &archive);
        routes
            .insert(format!("/v1/packs/vendor.acme.tools/-/{version}.tgz"), [MOVED, to.as_bytes()].concat());
    }
    let (url, received) = stranger(routes);
    let given = data.join("given.key");
    std::fs::write(&given, "given-for-that-registry").unwrap();
    let install = |pack_id: &str| {
        pack(data, &["install", pack_id, "--registry", &url, "--api-key", given.to_str().unwrap()])
    };
    let (code, installed) = install("vendor.acme.tools@0.1.0");
    assert_eq!((code, &installed["installed"][0]["version"]), (0, &Value::from("0.1.0")), "{installed}");
    assert!(received.try_iter().all(|head| head.contains("authorization: bearer given-for-that-registry")));
    let head = at_mirror.recv().unwrap();
    assert!(head.starts_with("get /a.tgz ") && !head.contains("authorization"), "{head}");
    let (code, refused) = install("vendor.acme.tools@0.2.0");
    assert_ne!(code, 0, "the archive redirects to itself");
    assert!(refused["message"].as_str().unwrap().contains("redirects more than 5 times"), "{refused}");
}

#[test]
fn a_version_with_an_invalid_dependency_is_not_installed() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let archive = archive_of(data, "vendor.acme.tools");
    let mut routes = Routes::new();
    listed(&mut routes, ["0.1.0".to_owned()]);
    offered(&mut routes, "0.1.0", json!({"dependencies": {"vendor.acme.base": "newest"}}), &archive);
    let (url, _received) = stranger(routes);
    let (code, refused) = pack(data, &["install", "vendor.acme.tools", "--registry", &url]);
    assert_eq!((code, &refused["code"]), (1, &Value::from("pack_version_not_found")), "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("cannot be used") && message.contains("vendor.acme.base"), "{message}");
    assert_eq!(pack(data, &["list"]).1["packs"], json!([]));
}

#[test]
fn the_local_key_never_reaches_a_proxy() {
    let home = tempfile::tempdir().unwrap();
    let (data, workflows) = (home.path().join("data"), home.path().join("workflows"));
    std::fs::create_dir_all(&workflows).unwrap();
    let folder = skeleton(home.path());
    let served = Served::on(&data, &workflows);
    let (proxy, received) = stranger(Routes::new());
    let through = |command: &mut Command| run(command.env("http_proxy", &proxy).env_remove("no_proxy"));
    let (code, published) = through(&mut command(&data, &["publish", &folder, "--registry", &served.url]));
    assert_eq!((code, &published["outcome"]), (0, &Value::from("published")), "{published}");
    let mut unknown = interlock(&["run", "nothing-of-the-kind", "--json", "--data-dir"]);
    unknown.arg(&data).env("INTERLOCK_API_KEY", KEY);
    let (_, refused) = through(&mut unknown);
    assert_eq!(refused["code"], "HOST_REFUSED", "the server answered: {refused}");
    // A key for a server on this machine must not reach a proxy either.
    let given = home.path().join("given.key");
    std::fs::write(&given, KEY).unwrap();
    let given = ["publish", &folder, "--registry", &served.url, "--api-key", given.to_str().unwrap()];
    assert_eq!(through(&mut command(&data, &given)).0, 0);
    assert!(received.try_recv().is_err(), "no request reached the proxy");
    // A remote registry is contacted through the proxy.
    let elsewhere = ["install", "vendor.acme.tools", "--registry", "http://packs.example"];
    assert_eq!(through(&mut command(&data, &elsewhere)).1["code"], "pack_not_found");
    let head = received.recv().unwrap();
    assert!(head.starts_with("get http://packs.example/v1/packs/vendor.acme.tools "), "{head}");
}

/// The only name in the test certificate.
const PROVEN: &str = "https://hooks.example.com";

/// A proxy behind which every server has the certificate of [`PROVEN`] and responds at these paths.
fn proven(routes: Routes) -> (String, Receiver<String>) {
    let certificate = include_bytes!("../../../../runs/tests/tls/server.der").as_slice().into();
    let key =
        PrivatePkcs8KeyDer::from(include_bytes!("../../../../runs/tests/tls/server.key.der").as_slice());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
        .unwrap();
    let settings = Arc::new(settings);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (heads, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            assert!(read_head(&mut stream).starts_with("connect hooks.example.com:443 "));
            let mut stream = stream.into_inner();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let mut connection = rustls::ServerConnection::new(Arc::clone(&settings)).unwrap();
            // A client that does not trust the certificate disconnects here.
            while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
            if connection.is_handshaking() {
                continue;
            }
            let mut stream = BufReader::new(rustls::StreamOwned::new(connection, stream));
            let head = answer(&mut stream, &routes);
            stream.get_mut().conn.send_close_notify();
            let _ = stream.get_mut().flush();
            if heads.send(head).is_err() {
                return;
            }
        }
    });
    (url, received)
}

#[test]
fn a_registry_with_an_untrusted_certificate_is_skipped_with_a_note() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path();
    let at = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let archive = archive_of(data, "vendor.acme.tools");
    let mut routes = Routes::new();
    listed(&mut routes, ["0.1.0".to_owned()]);
    offered(&mut routes, "0.1.0", json!({}), &archive);
    let (proxy, received) = proven(routes);
    let authority = include_bytes!("../../../../runs/tests/tls/authority.der");
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{authority}\n-----END CERTIFICATE-----\n");
    std::fs::write(at("authority.pem"), pem).unwrap();
    std::fs::write(at("given.key"), "given-for-that-registry").unwrap();
    std::fs::write(at("tools.tgz"), &archive).unwrap();
    assert_eq!(pack(data, &["publish", &at("tools.tgz"), "--registry", &at("folder")]).0, 0);

    let install = |data: &str, authority: &str, more: &[&str]| {
        let first = ["install", "vendor.acme.tools", "--registry", PROVEN];
        let mut command = command(Path::new(data), &[&first[..], more].concat());
        command.env("https_proxy", &proxy).env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR");
        let output = run_command(&mut command, b"");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), document, text(&output.stderr))
    };
    let (code, installed, printed) = install(
        &at("one"),
        &at("authority.pem"),
        &["--api-key", &at("given.key"), "--registry", &at("folder")],
    );
    assert_eq!((code, printed.as_str()), (0, ""), "{installed}");
    for _ in 0..3 {
        assert!(received.recv().unwrap().contains("authorization: bearer given-for-that-registry"));
    }
    // A server with an untrusted certificate is not used, and not silently replaced.
    std::fs::write(at("untrusted.pem"), "").unwrap();
    let (code, installed, printed) =
        install(&at("two"), &at("untrusted.pem"), &["--registry", &at("folder")]);
    assert_eq!((code, &installed["installed"][0]["version"]), (0, &json!("0.1.0")), "{installed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(
        printed.contains("Skipped a registry") && printed.contains(PROVEN) && printed.contains("certificate"),
        "{printed}"
    );
    let (code, refused, _) = install(&at("two"), &at("untrusted.pem"), &[]);
    assert_eq!((code, &refused["code"]), (1, &json!("pack_registry_unreachable")), "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("certificate"), "{refused}");
    assert!(!refused.to_string().contains("its log"), "that advice is for the local server: {refused}");
    assert!(received.try_recv().is_err(), "no request reached it");
}
