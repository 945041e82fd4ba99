//! Content from agents cannot inject anything into a page.

use serde_json::json;

use crate::support::{KEY, Page, Site, workflow};

/// Texts that would act on a page that trusted them.
const CORPUS: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</pre><svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "[x](javascript:alert(1))",
    "<a href=javascript:alert(1)>x</a>",
    "\u{202e}<b>",
    "&lt;script&gt;",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
];

/// A page contains only its own elements; nothing in the corpus became one. Finding L3: what an approver reads is not reversed by
/// a control character.
#[track_caller]
fn is_inert(page: &Page) {
    for text in page.text.split('>').map(|rest| rest.split('<').next().unwrap_or_default()) {
        assert!(!text.contains('\u{202e}') || page.text.contains(&format!(">{text}</textarea>")), "{text}");
    }
    page.hides(&["<script>", "<img src=x", "<svg onload", "<iframe", "href=\"javascript:", "<b>"]);
    // Attributes follow a space within a tag; escaped text is not inside a tag.
    for tag in page.text.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        // Every second piece between quotes is an attribute value.
        let tag: String = tag.split('"').step_by(2).collect();
        for piece in [" onerror=", " onload=", " onmouseover=", "javascript:"] {
            assert!(!tag.contains(piece), "<{tag}>");
        }
    }
}

#[tokio::test]
async fn attack_corpus_in_every_untrusted_field() {
    let site = Site::open().await;
    let all = CORPUS.join(" ");
    let data = json!({
        "title": all, "description": all, "artifactData": {"text": all, all.as_str(): all}, "actions": ["accept", "edit-accept", "refine"],
        "approversList": [all], "artifactId": all,
    });
    let mut definition =
        workflow("hostile", &[("ask", "core.approvalGate", data), ("end", "core.noop", json!({}))]);
    definition["name"] = CORPUS[3].into();
    definition["nodes"][0]["name"] = CORPUS[1].into();
    let run = site.run(&definition, json!({"text": all})).await;
    let markdown =
        workflow("markdown", &[("ask", "core.approvalGate", json!({"title": "T", "artifactData": all}))]);
    let noted = site.run(&markdown, json!({})).await;
    let questions = json!({"questions": CORPUS.iter().map(|text| json!({"id": text, "question": text, "schema": {"enum": [text], "title": text, "description": text}})).collect::<Vec<_>>()});
    let asks = site.run(&workflow("asks", &[("ask", "core.clarificationGate", questions)]), json!({})).await;
    let custom = json!({"kind": "custom", "key": "k", "data": {"customKind": all, "payload": {"message": all, all.as_str(): all}}, "resumeSchema": {"properties": {all.as_str(): {"type": "string", "title": all, "description": all, "default": all}}}});
    let schema = site.run(&workflow("schema", &[("ask", "core.interrupt", custom)]), json!({})).await;
    let failing =
        site.run(&workflow("fails", &[("x", "core.fail", json!({"message": all}))]), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let mut paths = vec!["/".to_owned(), "/runs".to_owned(), "/approvals".to_owned()];
    for run in [&run, &noted, &asks, &schema, &failing] {
        for path in [
            "/runs/{run}",
            "/runs/{run}?node=ask",
            "/runs/{run}/events",
            "/runs/{run}/events?event=0",
            "/runs/{run}/graph",
            "/approvals/{run}",
        ] {
            paths.push(path.replace("{run}", run));
        }
    }
    paths.push(format!("/runs/{run}/diff?with={noted}"));
    for path in paths {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        is_inert(&page);
    }
}

#[tokio::test]
async fn attack_corpus_in_the_url() {
    let site = Site::open().await;
    let run = site.run(&crate::pages::waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    for attack in CORPUS {
        let text: String = form_urlencoded::byte_serialize(attack.as_bytes()).collect();
        let paths = [
            format!("/runs?workflow={text}&tag={text}&status={text}"),
            format!("/runs/{run}?node={text}&done={text}"),
            format!("/runs/{run}/diff?with={text}"),
            format!("/runs/{run}/artifact?id={text}"),
            format!("/approvals/{run}?node={text}"),
            format!("/{}", text.replace('+', "%20")),
            format!("/runs/{}", text.replace('+', "%20")),
        ];
        for path in paths {
            is_inert(&browser.get(&path).await);
        }
        is_inert(&site.visitor().get(&format!("/sign-in?to={text}")).await);
    }
}
