//! Counts what the whole process allocates and syncs during a piece of work; otherwise it only passes calls on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicU64 = AtomicU64::new(0);

/// What a piece of work took, on all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Calls that asked for memory, growing included.
    pub(crate) allocations: u64,
    /// The bytes that they asked for.
    pub(crate) bytes: u64,
    /// Calls of `fsync` and `fdatasync`.
    pub(crate) syncs: u64,
}

/// Does `work` and counts.
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

#[expect(unsafe_code, reason = "an allocator cannot be written otherwise; every call is passed on as it is")]
// SAFETY: each method hands its arguments to `System` unchanged and returns what that returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATIONS, 1);
        note(&BYTES, layout.size());
        // SAFETY: the caller's promises are those that `System` asks for.
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

/// What SQLite calls after every batch, in place of the C library's.
#[expect(unsafe_code, reason = "the name is the one that the linker looks for")]
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: i32) -> i32 {
    note(&SYNCS, 1);
    // SAFETY: the caller owns the descriptor for as long as the call takes.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fdatasync(descriptor).map_or(-1, |()| 0)
}

/// The same for files and directories that are synced whole.
#[expect(unsafe_code, reason = "the name is the one that the linker looks for")]
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: i32) -> i32 {
    note(&SYNCS, 1);
    // SAFETY: as above.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fsync(descriptor).map_or(-1, |()| 0)
}
