//! Redacts replies.

use super::recover;
use crate::provider::Reply;
use crate::redact::Redactor;

/// Redacts a reply before it is recorded. Idempotent.
///
/// Secrets that are escaped inside a JSON document are found too; the document is then serialized again.
pub fn redacted(mut reply: Reply, redactor: &Redactor) -> Reply {
    if !redactor.has_secrets() {
        return reply;
    }
    reply.text = document(&reply.text, redactor);
    reply.reasoning = reply.reasoning.map(|text| redactor.clean(&text));
    for call in &mut reply.tool_calls {
        call.name = redactor.clean(&call.name);
        call.arguments = document(&call.arguments, redactor);
    }
    if let Some(refusal) = &mut reply.refusal {
        refusal.text = refusal.text.take().map(|text| redactor.clean(&text));
        refusal.category = refusal.category.take().map(|text| redactor.clean(&text));
    }
    reply
}

/// Redacts a text that may be a JSON document. Only a text with an escape can hide a secret from a plain search.
fn document(text: &str, redactor: &Redactor) -> String {
    let text = redactor.clean(text);
    if let Some(mut found) = recover::read(&text).filter(|_| text.contains('\\'))
        && redactor.value(&mut found.value) > 0
    {
        return found.value.to_string();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Secret;

    #[test]
    fn redacts_plain_and_escaped_secrets() {
        let redactor = Redactor::new([Secret::new("k", "pass\"word\\1")]);
        for text in
            ["it is pass\"word\\1", "{\"a\":\"pass\\\"word\\\\1\"}", "{\"a\":\"p\\u0061ss\\\"word\\\\1\"}"]
        {
            let clean = redacted(Reply::text(text), &redactor);
            assert!(clean.text.contains("[REDACTED:k]"), "{text} {}", clean.text);
            assert_eq!(redacted(clean.clone(), &redactor), clean);
        }
        assert_eq!(redacted(Reply::text("pass"), &redactor).text, "pass");
    }
}
