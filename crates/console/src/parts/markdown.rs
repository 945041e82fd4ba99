//! Renders and sanitises Markdown from users and agents.

use std::collections::HashSet;
use std::sync::OnceLock;

use ammonia::{Builder, UrlRelative};
use maud::{Markup, PreEscaped};
use pulldown_cmark::{Options, Parser, html};

/// The longest rendered input, in bytes. The output is at most half as long again.
const MAX_BYTES: usize = 32 << 10;

/// Markdown as safe markup: no scripts, styles, forms or external images.
pub(crate) fn markdown(text: &str) -> Markup {
    let mut kept = MAX_BYTES;
    loop {
        let rendered = rendered(&canon::budget::truncate(text, kept));
        if rendered.len() <= MAX_BYTES + MAX_BYTES / 2 || kept < 64 {
            return PreEscaped(rendered);
        }
        // Input with many escapes and elements grows, so render less of it.
        kept /= 2;
    }
}

fn rendered(text: &str) -> String {
    let parser = Parser::new_ext(
        text,
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS,
    );
    let mut rendered = String::with_capacity(text.len() * 2);
    html::push_html(&mut rendered, parser);
    sanitiser().clean(&rendered).to_string()
}

fn sanitiser() -> &'static Builder<'static> {
    static SANITISER: OnceLock<Builder<'static>> = OnceLock::new();
    SANITISER.get_or_init(|| {
        let tags = [
            "a",
            "p",
            "br",
            "hr",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "em",
            "strong",
            "del",
            "code",
            "pre",
            "blockquote",
            "ul",
            "ol",
            "li",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        ];
        let mut builder = Builder::empty();
        builder
            .tags(HashSet::from(tags))
            .clean_content_tags(HashSet::from(["script", "style"]))
            .add_tag_attributes("a", ["href"])
            .url_schemes(HashSet::from(["https", "http", "mailto"]))
            .url_relative(UrlRelative::Deny)
            .link_rel(Some("noopener noreferrer nofollow"));
        builder
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_markdown_is_kept() {
        let shown =
            markdown("# Title\n\n*a* **b** `c` [d](https://example.org/?a=1&b=2)\n\n| x |\n|---|\n| y |").0;
        for kept in
            ["<h1>Title</h1>", "<em>a</em>", "<strong>b</strong>", "<code>c</code>", "<td>y</td>", "noopener"]
        {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
    }

    #[test]
    fn active_content_is_removed() {
        let attacks = [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "![x](https://example.org/pixel)",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html;base64,PHNjcmlwdD4=)",
            "[x](/sign-out)",
            "<a href='vbscript:x' onclick=alert(1)>x</a>",
            "<form action=/sign-out><button>x</button></form>",
            "<iframe src=https://example.org></iframe>",
            "<svg><script>alert(1)</script></svg>",
            "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
            "<p style='background:url(https://example.org)' id=main class=notice>x</p>",
            "<base href=https://example.org>",
        ];
        let forbidden = [
            "<script",
            "onerror",
            "onclick",
            "<img",
            "javascript:",
            "vbscript:",
            "data:",
            "<form",
            "<iframe",
            "<svg",
            "style",
            "id=",
            "class=",
            "<base",
            "href=\"/",
            "alert(1)</",
        ];
        for attack in attacks {
            let shown = markdown(attack).0.to_lowercase();
            for piece in forbidden {
                assert!(!shown.contains(piece), "{piece} in {shown}, from {attack}");
            }
        }
    }
}
