//! The result types of a page provider.

use flow::id::RunId;
use http::StatusCode;
use maud::Markup;

/// A page before the layout is added.
#[derive(Clone, Debug)]
pub struct Page {
    /// The title and heading.
    pub title: String,
    /// Breadcrumbs: labels with their paths.
    pub trail: Vec<(String, Option<String>)>,
    /// Markup next to the heading, such as a status.
    pub aside: Option<Markup>,
    pub body: Markup,
    /// What the live regions depend on.
    pub wake: Wake,
    pub status: StatusCode,
}

impl Page {
    /// A page without live updates.
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            trail: Vec::new(),
            aside: None,
            body,
            wake: Wake::Never,
            status: StatusCode::OK,
        }
    }

    /// Adds a breadcrumb.
    #[must_use]
    pub fn below(mut self, label: impl Into<String>, href: Option<String>) -> Self {
        self.trail.push((label.into(), href));
        self
    }

    /// Adds markup next to the heading.
    #[must_use]
    pub fn beside(mut self, aside: Markup) -> Self {
        self.aside = Some(aside);
        self
    }

    /// Keeps the regions of [`PageRequest::live`](crate::PageRequest::live) up to date.
    #[must_use]
    pub fn awake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Sets an HTTP status other than 200.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

/// When an open page is rendered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    Never,
    /// On events of this run.
    Run(RunId),
    /// On events of any run.
    Runs,
    /// Every few seconds, for data without change notifications.
    Often,
}

/// The response of a provider.
#[derive(Clone, Debug)]
pub enum PageResponse {
    Page(Box<Page>),
    /// Redirect to a path of this console after a successful action.
    See(String),
    /// JSON for the console's own scripts.
    Data(serde_json::Value),
    /// A download: file name and bytes.
    File(String, Vec<u8>),
}

impl From<Page> for PageResponse {
    fn from(page: Page) -> Self {
        Self::Page(Box::new(page))
    }
}
