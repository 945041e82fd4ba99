//! Counts allocations and fsyncs of the whole process during a piece of work. Otherwise calls are only forwarded.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicU64 = AtomicU64::new(0);

/// The cost of a piece of work, on all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Calls that allocate or reallocate memory.
    pub(crate) allocations: u64,
    /// The requested bytes.
    pub(crate) bytes: u64,
    /// Calls of `fsync` and `fdatasync`.
    pub(crate) syncs: u64,
}

/// Runs `work` and counts.
pub(crate) fn count(work: impl FnOnce()) -> Counted {
    for counter in [&ALLOCATIONS, &BYTES, &SYNCS] {
        counter.store(0, Relaxed);
    }
    COUNTING.store(true, Relaxed);
    work();
    COUNTING.store(false, Relaxed);
    Counted { allocations: ALLOCATIONS.load(Relaxed), bytes: BYTES.load(Relaxed), syncs: SYNCS.load(Relaxed) }
}

fn note(counter: &AtomicU64, count: usize) {
    if COUNTING.load(Relaxed) {
        counter.fetch_add(count as u64, Relaxed);
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator requires unsafe code; every call is forwarded unchanged")]
// SAFETY: each method forwards its arguments to `System` unchanged and returns the result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATIONS, 1);
        note(&BYTES, layout.size());
        // SAFETY: the guarantees of the caller are those that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(&ALLOCATIONS, 1);
        note(&BYTES, size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Replaces the function of the C library, which SQLite calls after every batch.
#[expect(unsafe_code, reason = "the symbol must have this name to replace that of the C library")]
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: i32) -> i32 {
    note(&SYNCS, 1);
    // SAFETY: the caller owns the descriptor for the duration of the call.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fdatasync(descriptor).map_or(-1, |()| 0)
}

/// The same for full syncs of files and directories.
#[expect(unsafe_code, reason = "the symbol must have this name to replace that of the C library")]
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: i32) -> i32 {
    note(&SYNCS, 1);
    // SAFETY: as above.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fsync(descriptor).map_or(-1, |()| 0)
}
