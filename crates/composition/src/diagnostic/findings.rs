//! Collecting diagnostics.

use super::{Details, Diagnostic, Subject};

/// The findings in discovery order; [`Findings::settle`] sorts them.
#[derive(Default)]
pub(crate) struct Findings<'i> {
    found: Vec<Diagnostic<'i>>,
}

impl<'i> Findings<'i> {
    /// Reports a problem of one subject.
    pub(crate) fn report(&mut self, details: Details<'i>, subject: Subject<'i>) {
        self.report_about(details, vec![subject]);
    }

    /// Reports a problem of several subjects.
    pub(crate) fn report_about(&mut self, details: Details<'i>, subjects: Vec<Subject<'i>>) {
        self.found.push(Diagnostic::new(details, subjects));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.found.append(&mut other.found);
    }

    /// Whether the barrier can be passed.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Sorts by the stable key and removes duplicates; the message is not part of the key.
    pub(crate) fn settle(self) -> Vec<Diagnostic<'i>> {
        let mut found = self.found;
        let coded = |d: &Diagnostic<'_>| (d.severity(), d.code().category().as_str(), d.code().as_str());
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|index| coded(&found[*index]));
        let mut keep = Vec::with_capacity(found.len());
        // Only diagnostics with the same code must be compared by content.
        for same in order.chunk_by_mut(|a, b| found[*a].code() == found[*b].code()) {
            if same.len() > 1 {
                let keys = CanonicalDetails::of(same.iter().map(|index| &found[*index].details));
                let mut places: Vec<usize> = (0..same.len()).collect();
                places.sort_unstable_by(|a, b| keys.get(*a).cmp(keys.get(*b)));
                for alike in places.chunk_by_mut(|a, b| keys.get(*a) == keys.get(*b)) {
                    if alike.len() > 1 {
                        alike.sort_by_cached_key(|place| {
                            serde_json::to_vec(&found[same[*place]].subjects).expect(PLAIN)
                        });
                    }
                    let mut last: Option<usize> = None;
                    for place in alike.iter() {
                        let index = same[*place];
                        if last.is_none_or(|last| found[last].subjects != found[index].subjects) {
                            keep.push(index);
                        }
                        last = Some(index);
                    }
                }
            } else {
                keep.extend_from_slice(same);
            }
        }
        let mut found: Vec<Option<Diagnostic<'i>>> = found.drain(..).map(Some).collect();
        keep.into_iter().filter_map(|index| found[index].take()).collect()
    }
}

const PLAIN: &str = "details and subjects are plain strings and counts, which always serialize";

/// The canonical details of many diagnostics in one buffer: a hostile input has 100,000 of them.
struct CanonicalDetails {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl CanonicalDetails {
    fn of<'d, 'i: 'd>(details: impl Iterator<Item = &'d Details<'i>>) -> Self {
        let mut written = Self { bytes: Vec::new(), ends: Vec::new() };
        for details in details {
            serde_json::to_writer(&mut written.bytes, details).expect(PLAIN);
            written.ends.push(written.bytes.len());
        }
        written
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.bytes[start..self.ends[index]]
    }
}
