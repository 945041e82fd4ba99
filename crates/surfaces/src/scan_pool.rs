//! A low-priority thread pool for long scans.
//!
//! A scan over a hundred thousand vectors occupies a processor, and a tenant may request many at once. The pool keeps
//! this from slowing other work:
//!
//! * It has two threads per processor. Further work waits in a queue.
//! * Its threads have a lower scheduling priority than all others of this process.
//! * Tenants take turns, so a tenant with many requests delays only itself.
//!
//! Work is skipped if its caller no longer waits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread::Builder;

use tokio::sync::oneshot;

use crate::call::Tenant;

/// The nice value of the threads: they get about a tenth of a processor while others need it.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// Runs the work on the pool. Returns `None` if it panicked or the pool has no threads.
pub(crate) async fn run<T: Send + 'static>(
    tenant: &Tenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (answer, result) = oneshot::channel();
    let work = move || {
        if !answer.is_closed() {
            let _ = answer.send(work());
        }
    };
    THREADS.add(tenant, Box::new(work));
    result.await.ok()
}

static THREADS: LazyLock<Threads> = LazyLock::new(Threads::start);

struct Threads {
    line: &'static WorkQueue,
    are_there: bool,
}

impl Threads {
    fn start() -> Self {
        let line: &'static WorkQueue = Box::leak(Box::default());
        let count = 2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let start =
            |number| Builder::new().name(format!("scan_pool-{number}")).spawn(|| line.run_all()).is_ok();
        // A smaller pool also works.
        let are_there = (0..count).filter(|number| start(*number)).count() > 0;
        Self { line, are_there }
    }

    fn add(&self, tenant: &Tenant, work: Work) {
        if self.are_there {
            self.line.add(tenant, work);
        }
    }
}

#[derive(Default)]
struct WorkQueue {
    turns: Mutex<TenantQueues>,
    is_longer: Condvar,
}

impl WorkQueue {
    fn add(&self, tenant: &Tenant, work: Work) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).add(tenant, work);
        self.is_longer.notify_one();
    }

    fn next(&self) -> Work {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match turns.next() {
                Some(work) => return work,
                None => turns = self.is_longer.wait(turns).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn run_all(&self) {
        lower_priority();
        loop {
            let work = self.next();
            // A panic drops the caller's channel, which reports the failure. The thread survives.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        }
    }
}

#[cfg(target_os = "linux")]
fn lower_priority() {
    // Applies to this thread only. If it is not permitted, the default priority is kept.
    let _ = rustix::process::nice(NICE);
}

/// On other systems the call would affect the whole process.
#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

/// Waiting work by tenant.
struct TenantQueues<W = Work> {
    waiting: HashMap<Tenant, VecDeque<W>>,
    /// Each tenant with waiting work, once.
    order: VecDeque<Tenant>,
}

impl<W> Default for TenantQueues<W> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<W> TenantQueues<W> {
    fn add(&mut self, tenant: &Tenant, work: W) {
        if let Some(waiting) = self.waiting.get_mut(tenant) {
            waiting.push_back(work);
            return;
        }
        self.waiting.insert(tenant.clone(), VecDeque::from([work]));
        self.order.push_back(tenant.clone());
    }

    fn next(&mut self) -> Option<W> {
        let tenant = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&tenant)?;
        let work = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    #[test]
    fn tenants_take_turns() {
        let mut turns = TenantQueues::default();
        for work in ["a1", "a2", "a3"] {
            turns.add(&tenant("a"), work);
        }
        turns.add(&tenant("b"), "b1");
        assert_eq!(turns.next(), Some("a1"));
        turns.add(&tenant("c"), "c1");
        turns.add(&tenant("b"), "b2");
        let order: Vec<&str> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, ["b1", "a2", "c1", "b2", "a3"]);
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }

    #[tokio::test]
    async fn a_panic_does_not_end_its_thread() {
        let mine = tenant("mine");
        for _ in 0..100 {
            assert_eq!(run(&mine, || if true { panic!("a mistake") } else { 1 }).await, None);
        }
        assert_eq!(run(&mine, || 7).await, Some(7));
    }
}
