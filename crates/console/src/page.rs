//! What a provider gives back.

use flow::id::RunId;
use http::StatusCode;
use maud::Markup;

/// A page, before the layout is put around it.
#[derive(Clone, Debug)]
pub struct Page {
    /// What it is called, in the title and as its heading.
    pub title: String,
    /// What stands above the heading: the pages that lead here, with where they are.
    pub trail: Vec<(String, Option<String>)>,
    /// What stands beside the heading, such as a status.
    pub aside: Option<Markup>,
    /// The rest.
    pub body: Markup,
    /// What the regions that are live depend on.
    pub wake: Wake,
    /// The status of the answer.
    pub status: StatusCode,
}

impl Page {
    /// A page that is not live.
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

    /// Says what leads here.
    #[must_use]
    pub fn below(mut self, label: impl Into<String>, href: Option<String>) -> Self {
        self.trail.push((label.into(), href));
        self
    }

    /// Puts something beside the heading.
    #[must_use]
    pub fn beside(mut self, aside: Markup) -> Self {
        self.aside = Some(aside);
        self
    }

    /// Keeps the regions of [`Call::live`](crate::Call::live) up to date.
    #[must_use]
    pub fn awake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Answers with another status than 200.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

/// When a page that is being looked at is rendered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It is not.
    Never,
    /// When something has happened to this run.
    Run(RunId),
    /// When something has happened to any run.
    Runs,
    /// Every few seconds, for what nobody announces.
    Often,
}

/// What a provider answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A page.
    Page(Box<Page>),
    /// Look there instead: what was asked for is done. A path of this console.
    See(String),
    /// A value, for a script of ours.
    Data(serde_json::Value),
    /// A file to keep: its name, and its bytes.
    File(String, Vec<u8>),
}

impl From<Page> for Answer {
    fn from(page: Page) -> Self {
        Self::Page(Box::new(page))
    }
}
