//! A request that has passed every check, as a provider sees it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use canon::time::Timestamp;
use flow::id::RunId;
use host::guided::Guided;
use host::runs::{ApiCode, Caller, Refusal, Runs, Scope};
use maud::{Markup, html};
use serde_json::Value;

use crate::composed::{Handle, Shell};
use crate::console::Shared;
use crate::parts;

/// What a provider works with.
pub struct Call {
    pub(crate) console: Arc<Shared>,
    pub(crate) shell: Arc<Shell>,
    /// Who asks.
    pub caller: Caller,
    /// What stands in the path for the parameters of the route.
    pub(crate) params: Vec<(String, String)>,
    /// What stands behind the question mark.
    pub query: Fields,
    /// What was sent with a form.
    pub form: Fields,
    /// When it is.
    pub now: Timestamp,
    /// The handle that this is the provider of.
    pub(crate) handle: Handle,
    /// The path that was asked for.
    pub(crate) path: String,
    pub(crate) csrf: String,
    pub(crate) regions: Mutex<Vec<Region>>,
}

/// A part of a page that is kept up to date.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) id: String,
    pub(crate) markup: String,
}

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Call").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Call {
    /// The runs of the host.
    pub fn runs(&self) -> &Runs {
        &self.console.runs
    }

    /// The guided sessions of the caller's tenant.
    ///
    /// # Errors
    /// When the tenant has no name that a directory can have, or the disk fails.
    pub fn guided(&self) -> Result<Arc<Guided>, Refusal> {
        self.console.guided.guided(self.caller.tenant.as_str()).map_err(|refusal| {
            let envelope = refusal.envelope();
            let message = format!("{} {}", envelope.message(), envelope.suggestion());
            Refusal::new(ApiCode::InternalError, message).detail("code", envelope.code())
        })
    }

    /// Whether the caller has a right.
    pub fn may(&self, scope: Scope) -> bool {
        self.caller.may(scope)
    }

    /// What stands in the path for a parameter of the route.
    ///
    /// # Errors
    /// When policy gave the route a path without it.
    pub fn param(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| {
            let message = format!("the path of this page has no `:{name}`; see the operations of the policy");
            Refusal::new(ApiCode::NotFound, message)
        })
    }

    /// The run that the path names.
    ///
    /// # Errors
    /// As for [`Call::param`].
    pub fn run_id(&self) -> Result<RunId, Refusal> {
        self.param("runId").map(RunId::new)
    }

    /// The object that the handle carries, where a module gave it one.
    pub fn data(&self) -> &Value {
        self.handle.data.as_ref().unwrap_or(&Value::Null)
    }

    /// Where a page is, by the key of its route; nowhere when policy hides it, or the caller may not see it.
    pub fn link(&self, key: &str, params: &[(&str, &str)]) -> Option<String> {
        let route = self.shell.route(key)?;
        if !route.needs.iter().all(|scope| self.may(*scope)) {
            return None;
        }
        route.fill(params)
    }

    /// A link with that text, or the text alone where it would lead nowhere.
    pub fn anchor(&self, key: &str, params: &[(&str, &str)], text: impl maud::Render) -> Markup {
        match self.link(key, params) {
            Some(href) => html! { a href=(href) { (text) } },
            None => html! { (text) },
        }
    }

    /// A form that asks for an action, by the key of its route: with the token of the session. Nothing where the caller may not.
    pub fn post_form(&self, key: &str, params: &[(&str, &str)], class: &str, fields: &Markup) -> Markup {
        let Some(action) = self.link(key, params) else { return Markup::default() };
        html! {
            form method="post" action=(action) class=(class) {
                input type="hidden" name=(parts::CSRF_FIELD) value=(self.csrf);
                (fields)
            }
        }
    }

    /// A region that is kept up to date while the page is looked at. The id is one of the page.
    pub fn live(&self, id: &str, content: &Markup) -> Markup {
        let markup = html! { div id=(id) class="live" { (content) } };
        let region = Region { id: id.to_owned(), markup: markup.0.clone() };
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).push(region);
        markup
    }

    /// A moment, in words, with the exact one beside.
    pub fn time(&self, moment: Timestamp) -> Markup {
        parts::time(moment, self.now)
    }

    /// A moment as the protocol writes it.
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

/// What a query or a form holds: names with values, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `a=b&c=d`.
    pub fn read(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of a name, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The first value of a name as it was sent, empty or not.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a name.
    pub fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A number, where one was given.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The same with one name set to a value, or left out: as it stands behind a question mark.
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
