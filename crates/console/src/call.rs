//! A request that passed all checks, as handlers receive it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use canon::time::Timestamp;
use flow::id::RunId;
use maud::{Markup, html};
use runs::{ApiCode, Caller, Refusal, Runs, Scope};
use serde_json::Value;

use crate::composed::{Handle, Shell};
use crate::console::Shared;
use crate::{mount, parts};

pub struct PageRequest {
    pub(crate) console: Arc<Shared>,
    pub(crate) shell: Arc<Shell>,
    pub caller: Caller,
    /// Path parameters by name.
    pub(crate) params: Vec<(String, String)>,
    pub query: Fields,
    pub form: Fields,
    pub now: Timestamp,
    /// The render handle of this page.
    pub(crate) handle: Handle,
    /// The path within the console.
    pub(crate) path: String,
    pub(crate) csrf: String,
    pub(crate) regions: Mutex<Vec<Region>>,
}

/// A region of a page that is updated live.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) id: String,
    pub(crate) markup: String,
}

impl fmt::Debug for PageRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PageRequest").field("path", &self.path).finish_non_exhaustive()
    }
}

impl PageRequest {
    pub fn runs(&self) -> &Runs {
        &self.console.runs
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.caller.may(scope)
    }

    /// A path parameter.
    ///
    /// # Errors
    /// If policy gave the route a path without this parameter.
    pub fn param(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| {
            let message = format!("The path of this page has no `:{name}` parameter. Check the `pathAlias` operations of the console policy.");
            Refusal::new(ApiCode::NotFound, message)
        })
    }

    /// The run id in the path.
    ///
    /// # Errors
    /// As [`PageRequest::param`].
    pub fn run_id(&self) -> Result<RunId, Refusal> {
        self.param("runId").map(RunId::new)
    }

    /// The data that a module attached to the handle, if any.
    pub fn data(&self) -> &Value {
        self.handle.data.as_ref().unwrap_or(&Value::Null)
    }

    /// The address of this page.
    pub fn here(&self) -> String {
        mount::address(&self.path)
    }

    /// The address of what a module or a plugin names by a path: a page of the console, or else another path of this host.
    pub(crate) fn address(&self, path: &str) -> String {
        let page = path.split(['?', '#']).next().unwrap_or_default();
        if self.shell.find(page).is_some() { mount::address(path) } else { path.to_owned() }
    }

    /// The address of a page by its route key; `None` if policy hides it or the caller may not see it.
    pub fn link(&self, key: &str, params: &[(&str, &str)]) -> Option<String> {
        let route = self.shell.route(key)?;
        if !route.needs.iter().all(|scope| self.may(*scope)) {
            return None;
        }
        route.fill(params).map(|page| mount::address(&page))
    }

    /// A link with this text, or only the text if the page is not available.
    pub fn anchor(&self, key: &str, params: &[(&str, &str)], text: impl maud::Render) -> Markup {
        match self.link(key, params) {
            Some(href) => html! { a href=(href) { (text) } },
            None => html! { (text) },
        }
    }

    /// A form that posts to an action, with the CSRF token of the session; empty if the caller
    /// lacks the scope.
    pub fn post_form(&self, key: &str, params: &[(&str, &str)], class: &str, fields: &Markup) -> Markup {
        let Some(action) = self.link(key, params) else { return Markup::default() };
        html! {
            form method="post" action=(action) class=(class) {
                input type="hidden" name=(parts::CSRF_FIELD) value=(self.csrf);
                (fields)
            }
        }
    }

    /// A region that is updated live while the page is open. The id is unique within the page.
    pub fn live(&self, id: &str, content: &Markup) -> Markup {
        let markup = html! { div id=(id) class="live" { (content) } };
        let region = Region { id: id.to_owned(), markup: markup.0.clone() };
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).push(region);
        markup
    }

    /// A relative time, with the exact timestamp as its title.
    pub fn time(&self, moment: Timestamp) -> Markup {
        parts::time(moment, self.now)
    }

    /// As [`PageRequest::time`], from an RFC 3339 string.
    pub fn timestamp(&self, text: &str) -> Markup {
        match Timestamp::parse(text) {
            Some(moment) => self.time(moment),
            None => html! { (text) },
        }
    }

    pub(crate) fn regions(&self) -> Vec<Region> {
        std::mem::take(&mut *self.regions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Decoded query or form fields, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses `a=b&c=d`.
    pub fn read(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of a field, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The first value of a field, empty or not.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a field.
    pub fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The field as a number, if it is one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The query string with one field set or removed.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        let kept =
            self.0.iter().filter(|(known, value)| known != name && known != "done" && !value.is_empty());
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(kept);
        if let Some(value) = value {
            text.append_pair(name, value);
        }
        format!("?{}", text.finish())
    }
}
