//! Threads for work that takes long, which give way to everything else.
//!
//! A scan over a hundred thousand vectors has a processor for as long as it takes, and a tenant may ask for many of them at once. So that
//! this slows nobody else, such work has threads of its own:
//!
//! * There are two for each processor. What comes beyond that waits in line, and is not everywhere at once.
//! * They are nicer than other threads: whoever else of this program has something to do goes first.
//! * Tenants take turns. One that asks for a lot waits behind itself, and not in front of the others.
//!
//! Work whose caller has gone away is not begun.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread::Builder;

use tokio::sync::oneshot;

use crate::call::Tenant;

/// How much the threads leave to others: about a tenth of a processor is theirs while others want it.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// Does the work on one of the threads; nothing where it panicked, or where there are no threads.
pub(crate) async fn run<T: Send + 'static>(
    tenant: &Tenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (answer, told) = oneshot::channel();
    let work = move || {
        if !answer.is_closed() {
            let _ = answer.send(work());
        }
    };
    THREADS.add(tenant, Box::new(work));
    told.await.ok()
}

static THREADS: LazyLock<Threads> = LazyLock::new(Threads::start);

struct Threads {
    line: &'static Line,
    are_there: bool,
}

impl Threads {
    fn start() -> Self {
        let line: &'static Line = Box::leak(Box::default());
        let count = 2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let start = |number| Builder::new().name(format!("apart-{number}")).spawn(|| line.work_off()).is_ok();
        // Fewer than wanted do the work too.
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
struct Line {
    turns: Mutex<Turns>,
    is_longer: Condvar,
}

impl Line {
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

    fn work_off(&self) {
        give_way();
        loop {
            let work = self.next();
            // A mistake in one of them is told to its caller, who gets no answer, and takes no thread away.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        }
    }
}

#[cfg(target_os = "linux")]
fn give_way() {
    // For this thread alone. Where it may not, nothing is wrong.
    let _ = rustix::process::nice(NICE);
}

/// Elsewhere it would be said of the whole program.
#[cfg(not(target_os = "linux"))]
fn give_way() {}

/// What waits, by tenant.
struct Turns<W = Work> {
    waiting: HashMap<Tenant, VecDeque<W>>,
    /// Each of those for whom something waits, once.
    order: VecDeque<Tenant>,
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<W> Turns<W> {
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
    fn tenants_take_turns_whoever_asks_for_more() {
        let mut turns = Turns::default();
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
    async fn work_that_panics_has_no_answer_and_takes_no_thread_away() {
        let mine = tenant("mine");
        for _ in 0..100 {
            assert_eq!(run(&mine, || if true { panic!("a mistake") } else { 1 }).await, None);
        }
        assert_eq!(run(&mine, || 7).await, Some(7));
    }
}
