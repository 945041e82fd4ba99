//! An allocator that counts allocations while enabled.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// What a piece of work allocated.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    /// Calls that asked for memory, growing included.
    pub(crate) allocations: usize,
    /// The most that was held at once, beyond what was held before.
    pub(crate) peak_bytes: usize,
}

/// Does `work` and counts.
pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, Counted) {
    for counter in [&LIVE, &PEAK] {
        counter.store(0, Relaxed);
    }
    ALLOCATIONS.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
    let result = work();
    COUNTING.store(false, Relaxed);
    let peak_bytes = usize::try_from(PEAK.load(Relaxed)).unwrap_or_default();
    (result, Counted { allocations: ALLOCATIONS.load(Relaxed), peak_bytes })
}

/// The system's allocator with counters.
pub(crate) struct Counting;

impl Counting {
    fn note(allocations: usize, taken: usize, given_back: usize) {
        if COUNTING.load(Relaxed) {
            ALLOCATIONS.fetch_add(allocations, Relaxed);
            let change = taken.cast_signed() - given_back.cast_signed();
            let live = LIVE.fetch_add(change, Relaxed) + change;
            PEAK.fetch_max(live, Relaxed);
        }
    }
}

#[expect(unsafe_code, reason = "an allocator cannot be written otherwise; every call is passed on as it is")]
// SAFETY: each method hands its arguments to `System` unchanged and returns what that returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note(1, layout.size(), 0);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::note(0, 0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::note(1, layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::note(1, new_size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
