//! Style sheet and scripts, served under names that contain a hash of their content.

use axum::response::{IntoResponse as _, Response};
use canon::digest::Digest;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::mount::BASE;

struct Asset {
    name: String,
    kind: &'static str,
    bytes: &'static [u8],
}

pub(crate) struct Assets {
    style: Asset,
    script: Asset,
    plugins: Asset,
    icon: Asset,
}

impl Assets {
    pub(crate) fn new() -> Self {
        Self {
            style: Asset::new(
                "console",
                "css",
                "text/css; charset=utf-8",
                include_bytes!("../assets/console.css"),
            ),
            script: Asset::new(
                "console",
                "js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/console.js"),
            ),
            plugins: Asset::new(
                "plugins",
                "js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/plugins.js"),
            ),
            icon: Asset::new("mark", "svg", "image/svg+xml", include_bytes!("../assets/mark.svg")),
        }
    }

    pub(crate) fn style(&self) -> String {
        format!("{BASE}/assets/{}", self.style.name)
    }

    pub(crate) fn script(&self) -> String {
        format!("{BASE}/assets/{}", self.script.name)
    }

    pub(crate) fn plugins(&self) -> String {
        format!("{BASE}/assets/{}", self.plugins.name)
    }

    pub(crate) fn icon(&self) -> String {
        format!("{BASE}/assets/{}", self.icon.name)
    }

    /// Serves an asset. The name contains a hash of the content, so browsers may cache it forever.
    pub(crate) fn answer(&self, name: &str, headers: &HeaderMap) -> Response {
        let known = [&self.style, &self.script, &self.plugins, &self.icon];
        let found = known.into_iter().find(|asset| asset.name == name);
        let Some(asset) = found else {
            return (StatusCode::NOT_FOUND, "File not found. Reload the page.").into_response();
        };
        let tag = format!("\"{}\"", asset.name);
        let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut response =
            if is_known { StatusCode::NOT_MODIFIED.into_response() } else { asset.bytes.into_response() };
        let head = response.headers_mut();
        head.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
        head.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
        head.extend(HeaderValue::from_str(&tag).map(|tag| (ETAG, tag)));
        response
    }
}

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, bytes: &'static [u8]) -> Self {
        let print = &Digest::of_bytes(bytes).to_hex()[..16];
        Self { name: format!("{stem}-{print}.{ending}"), kind, bytes }
    }
}
