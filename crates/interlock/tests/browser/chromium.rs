//! A real browser: Chromium, driven over `WebDriver` by the `chromedriver` of the same package.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, json};
use tempfile::TempDir;

/// Where Debian's packages install the two programs.
const DRIVER: &str = "/usr/bin/chromedriver";
const CHROMIUM: &str = "/usr/bin/chromium";

/// Flags for a headless browser without network access and persistent state.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,900",
];

/// A browser, closed when dropped.
pub(crate) struct Chromium {
    pub(crate) client: Client,
    driver: Child,
    _profile: TempDir,
}

impl Chromium {
    /// Starts a browser. Without one the test is skipped with a message, or fails where tests must
    /// not be skipped.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(&[], None).await
    }

    /// Starts a browser that prefers a dark colour scheme.
    pub(crate) async fn start_dark() -> Option<Self> {
        Self::start_with(&["--blink-settings=preferredColorScheme=0"], None).await
    }

    /// Starts a browser with a phone's width. Windows cannot be made that narrow.
    pub(crate) async fn start_phone(width: u32) -> Option<Self> {
        Self::start_with(&[], Some(width)).await
    }

    async fn start_with(more: &[&str], phone: Option<u32>) -> Option<Self> {
        if !Path::new(DRIVER).exists() || !Path::new(CHROMIUM).exists() {
            assert!(
                std::env::var_os("INTERLOCK_SKIP_NOTHING").is_none(),
                "{CHROMIUM} and {DRIVER} are needed: install the packages chromium and chromium-driver",
            );
            // Bypass the capture of the test harness: a skipped test must be visible.
            let printed = "SKIPPED: a browser test needs the Debian packages chromium and chromium-driver\n";
            std::io::stderr().write_all(printed.as_bytes()).unwrap();
            return None;
        }
        let (driver, printed, port) = start_driver();
        // Drain the output, so that the driver never blocks on it.
        std::thread::spawn(move || printed.for_each(drop));
        let profile = TempDir::new().unwrap();
        let mut arguments: Vec<String> =
            ARGUMENTS.iter().chain(more).map(|&argument| argument.to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let mut options = json!({"binary": CHROMIUM, "args": arguments});
        if let Some(width) = phone {
            let metrics = json!({"width": width, "height": 844, "pixelRatio": 1.0, "touch": true});
            options["mobileEmulation"] = json!({"deviceMetrics": metrics});
        }
        let wanted = Map::from_iter([("goog:chromeOptions".to_owned(), options)]);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("the browser starts");
        Some(Self { client, driver, _profile: profile })
    }

    pub(crate) async fn goto(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// The visible text of the page.
    pub(crate) async fn text(&self) -> String {
        self.client.find(Locator::Css("body")).await.unwrap().text().await.unwrap()
    }

    /// Waits for an element, also across a navigation.
    async fn find(&self, locator: Locator<'_>) -> Result<Element, CmdError> {
        loop {
            match self.client.wait().for_element(locator).await {
                Err(error) if error.to_string().contains("aborted by navigation") => {}
                found => return found,
            }
        }
    }

    /// Waits for the first element of a selector.
    pub(crate) async fn see(&self, css: &str) -> Element {
        match self.find(Locator::Css(css)).await {
            Ok(element) => element,
            Err(error) => panic!("no `{css}` ({error}) on:\n{}", self.text().await),
        }
    }

    /// Waits until the page shows a text, for example after a live update.
    pub(crate) async fn see_text(&self, wanted: &str) {
        let xpath = format!("//body[contains(., {wanted:?})]");
        if let Err(error) = self.find(Locator::XPath(&xpath)).await {
            panic!("no {wanted:?} ({error}) on:\n{}", self.text().await);
        }
    }

    pub(crate) async fn click(&self, css: &str) {
        self.see(css).await.click().await.unwrap();
    }

    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let element = self.see(css).await;
        element.clear().await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// Saves a screenshot to the test output.
    pub(crate) async fn picture(&self, name: &str) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), self.client.screenshot().await.unwrap()).unwrap();
    }
}

impl Chromium {
    /// Saves a full-page screenshot with a given width.
    pub(crate) async fn whole_picture(&self, name: &str, width: u32) {
        self.client.set_window_size(width, 900).await.unwrap();
        let script = "return Math.ceil(document.documentElement.scrollHeight)";
        let height = self.client.execute(script, vec![]).await.unwrap().as_u64().unwrap();
        let height = u32::try_from(height.clamp(500, 2600)).unwrap();
        // The window of a headless browser includes a frame.
        self.client.set_window_size(width, height + 140).await.unwrap();
        self.picture(name).await;
        self.client.set_window_size(1280, 900).await.unwrap();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The browser is in the process group of its driver and would outlive it.
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
    }
}

/// Starts a driver and reads its port.
///
/// The driver chooses a free IPv4 port and exits if another test uses the same IPv6 port, so this
/// is retried.
fn start_driver() -> (Child, Lines<BufReader<ChildStdout>>, u16) {
    for _ in 0..8 {
        let mut driver = Command::new(DRIVER)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = printed.by_ref().map_while(Result::ok).find_map(|line| {
            line.strip_suffix('.')?.split_once("successfully on port ")?.1.parse::<u16>().ok()
        });
        match port {
            Some(port) => return (driver, printed, port),
            None => drop(driver.wait()),
        }
    }
    panic!("{DRIVER} ended eight times without saying where it listens");
}
