//! Diagnostics on their way to the result.

use std::cmp::Ordering;

use super::{Details, Diagnostic, Subject};

/// What was found so far, in the order it was found; [`Findings::settle`] gives the order it is shown in.
#[derive(Default)]
pub(crate) struct Findings<'i> {
    found: Vec<Diagnostic<'i>>,
}

impl<'i> Findings<'i> {
    /// Reports something about one subject.
    pub(crate) fn report(&mut self, details: Details<'i>, subject: Subject<'i>) {
        self.report_about(details, vec![subject]);
    }

    /// Reports something about several subjects.
    pub(crate) fn report_about(&mut self, details: Details<'i>, subjects: Vec<Subject<'i>>) {
        self.found.push(Diagnostic::new(details, subjects));
    }

    /// Takes over what was found elsewhere.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.found.append(&mut other.found);
    }

    /// Whether a barrier may be passed.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Sorted by the stable key and free of repetitions; the message takes no part in either.
    pub(crate) fn settle(self) -> Vec<Diagnostic<'i>> {
        let mut keys = StableKeys::with_capacity(self.found.len());
        let mut order: Vec<(usize, Diagnostic<'i>)> = self.found.into_iter().enumerate().collect();
        for (_, diagnostic) in &order {
            keys.push(diagnostic);
        }
        order.sort_by(|(a, one), (b, other)| {
            let coded = |d: &Diagnostic<'_>| (d.severity(), d.code().category().as_str(), d.code().as_str());
            coded(one).cmp(&coded(other)).then_with(|| keys.compare(*a, *b))
        });
        // Equal details in one category have one code, so equal bytes are equal diagnostics.
        order.dedup_by(|(a, one), (b, other)| one.code() == other.code() && keys.compare(*a, *b).is_eq());
        order.into_iter().map(|(_, diagnostic)| diagnostic).collect()
    }
}

/// The canonical details and subjects of many diagnostics, in one buffer: a hostile input has 100,000 of them.
struct StableKeys {
    bytes: Vec<u8>,
    /// Where the details of the n-th end, and where its subjects do.
    ends: Vec<(usize, usize)>,
}

impl StableKeys {
    fn with_capacity(count: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * 128), ends: Vec::with_capacity(count) }
    }

    fn push(&mut self, diagnostic: &Diagnostic<'_>) {
        const PLAIN: &str = "details and subjects are plain strings and counts, which always serialise";
        serde_json::to_writer(&mut self.bytes, &diagnostic.details).expect(PLAIN);
        let middle = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, &diagnostic.subjects).expect(PLAIN);
        self.ends.push((middle, self.bytes.len()));
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.parts(a).cmp(&self.parts(b))
    }

    fn parts(&self, index: usize) -> (&[u8], &[u8]) {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous].1);
        let (middle, end) = self.ends[index];
        (&self.bytes[start..middle], &self.bytes[middle..end])
    }
}
