//! The plugin origin: it exists only if configured, and serves only plugins.

use tempfile::TempDir;

use super::{KEY, Served, examples};
use crate::program::{interlock, root};

#[tokio::test]
async fn plugins_have_a_separate_origin_or_are_not_advertised() {
    let data = TempDir::new().unwrap();
    let discover = async |served: &Served| served.ask("GET", "/.well-known/openwop", None, KEY, None).await.1;
    let policy = async |served: &Served| {
        let page = reqwest::get(format!("{}/console/sign-in", served.url)).await.unwrap();
        page.headers()["content-security-policy"].to_str().unwrap().to_owned()
    };
    let served = Served::on(data.path(), &examples());
    assert_eq!(discover(&served).await.get("uiPlugins"), None);
    assert!(!policy(&served).await.contains("frame-src"));
    served.kill();

    std::fs::write(data.path().join("config.toml"), "[plugins]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let served = Served::on(data.path(), &examples());
    let advertised = discover(&served).await["uiPlugins"].clone();
    assert_eq!(advertised["supported"], true, "{advertised}");
    let policy = policy(&served).await;
    let (_, origin) = policy.split_once("frame-src ").expect("the page names the origin");
    assert!(origin.starts_with("http://127.0.0.1:") && origin != served.url, "{origin}");
    for path in ["/", "/sign-in", "/v1/runs", "/.well-known/openwop", "/vendor.acme.x/1.0.0/index.html"] {
        let answer = reqwest::get(format!("{origin}{path}")).await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.headers().get("set-cookie"), None, "{path}");
    }
}

#[test]
fn the_console_and_plugins_must_have_different_origins() {
    let data = TempDir::new().unwrap();
    let settings = "[server]\npublic_url = \"https://host.example\"\n[plugins]\nlisten = \"127.0.0.1:0\"\npublic_url = \"https://HOST.example\"\n";
    std::fs::write(data.path().join("config.toml"), settings).unwrap();
    let output =
        interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data.path()).output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("CONFIG_INVALID") && message.contains("plugins.public_url"), "{message}");
}

/// Finding H5: a plugin can reach the network through WebRTC, which its manifest does not show.
#[test]
fn installing_a_plugin_warns_about_webrtc() {
    let data = TempDir::new().unwrap();
    std::fs::write(data.path().join("config.toml"), "[plugins]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let installed = |pack: &str| {
        let mut command = interlock(&["pack", "install", "--trust", "open", "--data-dir"]);
        let output = command.arg(data.path()).arg(root().join("examples").join(pack)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(installed("plugins/artifact-editor").contains("can send the data they read to any address"));
    assert!(!installed("packs/word-count").contains("WebRTC"), "a pack without plugins");
}
