//! Compressed replies, for clients that accept them.

use std::io::Write as _;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderMap, HeaderValue};
use hyper::body::Body as _;

/// Smaller bodies are not compressed. The snapshot of the smallest run is larger, so compression applies to all snapshots, as advertised.
const WORTH_IT: u64 = 256;
/// Larger bodies are compressed on another thread, because the work would delay the requests that share this one.
const WORTH_A_THREAD: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Zstd,
}

impl Encoding {
    /// All encodings, in order of preference.
    pub(super) const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    /// The name in HTTP headers.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn encode(self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(bytes, 1),
        }
    }
}

/// The supported encoding that the client prefers.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let listed = headers.get_all(ACCEPT_ENCODING);
    let listed: Vec<(&str, f32)> = listed
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(weighed)
        .collect();
    let weight = |name: &str| {
        let exact = listed.iter().find(|(listed, _)| listed.eq_ignore_ascii_case(name));
        exact.or_else(|| listed.iter().find(|(listed, _)| *listed == "*")).map_or(0.0, |(_, weight)| *weight)
    };
    let best = Encoding::ALL.into_iter().map(|encoding| (encoding, weight(encoding.as_str())));
    // The first of equal weights: `max_by` would return the last.
    let best = best.fold(None, |best: Option<(Encoding, f32)>, (encoding, weight)| match best {
        Some((_, most)) if most >= weight => best,
        _ => Some((encoding, weight)),
    });
    best.filter(|(_, weight)| *weight > 0.0).map(|(encoding, _)| encoding)
}

/// Splits `gzip;q=0.5` into the name and its weight.
fn weighed(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

/// The media types that are worth compressing.
fn is_text(kind: &HeaderValue) -> bool {
    let pages = ["text/html", "text/css", "text/javascript", "image/svg+xml"];
    *kind == super::response::JSON || pages.iter().any(|page| kind.as_bytes().starts_with(page.as_bytes()))
}

/// Compresses the reply to a read if the client accepts it and the body is text of at least [`WORTH_IT`] bytes. Streams are not compressed.
pub(super) async fn encoded(mut response: Response, accepted: Option<Encoding>) -> Response {
    if !response.headers().get(CONTENT_TYPE).is_some_and(is_text) {
        return response;
    }
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    let size = response.body().size_hint().exact();
    let Some(encoding) = accepted.filter(|_| size.is_some_and(|size| size >= WORTH_IT)) else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    // The size is known, so the body is already in memory.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let compressed =
        compress(encoding, plain.clone()).await.filter(|compressed| compressed.len() < plain.len());
    let Some(compressed) = compressed else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
    parts.headers.remove(CONTENT_LENGTH);
    // A strong `ETag` identifies bytes, and the compressed bytes differ.
    if let Some(tag) = parts.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) {
        let tag = format!("{}-{}\"", tag.trim_end_matches('"'), encoding.as_str());
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            parts.headers.insert(ETAG, tag);
        }
    }
    Response::from_parts(parts, Body::from(compressed))
}

async fn compress(encoding: Encoding, plain: Bytes) -> Option<Vec<u8>> {
    if plain.len() < WORTH_A_THREAD {
        return encoding.encode(&plain).ok();
    }
    tokio::task::spawn_blocking(move || encoding.encode(&plain).ok()).await.ok().flatten()
}

/// Whether `If-None-Match` contains this tag, in any encoding.
pub(super) fn matches(headers: &HeaderMap, tag: &str) -> Option<HeaderValue> {
    let listed =
        headers.get_all(http::header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let bare = |tag: &str| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
        Encoding::ALL
            .iter()
            .find_map(|encoding| tag.strip_suffix(encoding.as_str())?.strip_suffix('-'))
            .unwrap_or(tag)
            .to_owned()
    };
    let wanted = bare(tag);
    let found = listed
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|one| *one == "*" || bare(one) == wanted)?;
    HeaderValue::from_str(if found == "*" { tag } else { found }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_encoding_is_used() {
        let cases = [
            ("", None),
            ("identity", None),
            ("br", None),
            ("gzip", Some(Encoding::Gzip)),
            ("GZIP, deflate, br", Some(Encoding::Gzip)),
            ("gzip, zstd", Some(Encoding::Zstd)),
            ("gzip;q=1.0, zstd;q=0.5", Some(Encoding::Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=x", None),
            ("*", Some(Encoding::Zstd)),
            ("zstd;q=0, *;q=0.1", Some(Encoding::Gzip)),
        ];
        for (text, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            assert_eq!(accepted(&headers), expected, "{text}");
        }
    }

    #[test]
    fn an_etag_matches_in_every_encoding() {
        let cases = [
            ("\"7\"", true),
            ("\"7-gzip\"", true),
            ("W/\"7-zstd\"", true),
            ("\"6\", \"7\"", true),
            ("*", true),
            ("\"8\"", false),
            ("\"7-br\"", false),
            ("", false),
        ];
        for (text, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::IF_NONE_MATCH, HeaderValue::from_static(text));
            assert_eq!(matches(&headers, "\"7\"").is_some(), expected, "{text}");
        }
    }
}
