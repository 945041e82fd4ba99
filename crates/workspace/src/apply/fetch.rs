//! Runs resolvers concurrently, with timeouts and retries.
//!
//! Resolvers run on their own threads, which are never joined: one that hangs is abandoned, and its
//! later output is discarded. Only the writers touch the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::attempt::{Attempt, Event, Handover, Work};
use super::queue::Queue;
use super::records::Sorter;
use super::staging::{Shared, Writer};
use super::{Progress, Step};
use crate::plan::{Source, SourceKind, ValidEntry};
use crate::resolve::{Content, Item, ResolveRequest, Resolver, Sink as _};
use crate::{Code, Error};

const MAX_IN_FLIGHT: usize = 16;

/// The limit per upstream.
const MAX_PER_UPSTREAM: usize = 4;

const MAX_TRIES: u8 = 3;

/// How many resolvers may hang before no more are started: their threads cannot be ended.
const MAX_LEFT_BEHIND: usize = 64;

/// The number of writer threads. More do not help, because they share the disk.
const MAX_WRITERS: usize = 4;

/// The timeout of a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub repository: Duration,
    /// For all other kinds.
    pub other: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { repository: Duration::from_secs(300), other: Duration::from_secs(30) }
    }
}

impl Timeouts {
    fn of(&self, kind: SourceKind) -> Duration {
        if kind == SourceKind::ScmRepo { self.repository } else { self.other }
    }
}

pub(super) struct Fetched {
    pub(super) sorters: Vec<Sorter>,
    /// The successful attempt of each fetched mount.
    pub(super) tries: BTreeMap<usize, u8>,
    pub(super) warnings: Vec<String>,
    /// Resolved revisions of sources without a fixed one, by mount.
    pub(super) pinned: BTreeMap<usize, String>,
    pub(super) calls: u64,
}

/// Fetches the mounts with these indices.
pub(super) fn fetch(
    shared: &Shared<'_>,
    entries: &Arc<[ValidEntry]>,
    wanted: &[usize],
    resolver: &Arc<dyn Resolver>,
    timeouts: &Timeouts,
    progress: &dyn Progress,
) -> Result<Fetched, Error> {
    let (sender, events) = mpsc::channel();
    let cores = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..cores.clamp(2, MAX_WRITERS))
            .map(|_| {
                let writer = Writer::new(shared, sender.clone());
                scope.spawn(move || writer.run())
            })
            .collect();
        let mut coordinator = Coordinator {
            shared,
            entries,
            resolver,
            timeouts,
            progress,
            sender,
            events,
            workers: Vec::new(),
            idle: Vec::new(),
            waiting: BTreeMap::new(),
            busy: BTreeMap::new(),
            flights: BTreeMap::new(),
            failures: BTreeMap::new(),
            left_behind: 0,
            fetched: Fetched {
                sorters: Vec::new(),
                tries: BTreeMap::new(),
                warnings: Vec::new(),
                pinned: BTreeMap::new(),
                calls: 0,
            },
            total: wanted.len(),
        };
        coordinator.run(wanted);
        shared.queue.close();
        let Coordinator { mut fetched, failures, .. } = coordinator;
        for writer in writers {
            match writer.join() {
                Ok(sorter) => fetched.sorters.push(sorter),
                Err(_) => return Err(Error::new(Code::ApplyIo, "a writer thread ended unexpectedly")),
            }
        }
        // Indices are in order, so the first failure is that of the earliest mount.
        Error::first_of(failures.into_values()).map_or(Ok(fetched), Err)
    })
}

struct Coordinator<'a> {
    shared: &'a Shared<'a>,
    entries: &'a Arc<[ValidEntry]>,
    resolver: &'a Arc<dyn Resolver>,
    timeouts: &'a Timeouts,
    progress: &'a dyn Progress,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// The work channel of each worker; `None` for an abandoned one.
    workers: Vec<Option<Sender<Arc<Attempt>>>>,
    idle: Vec<usize>,
    /// Waiting attempts, by upstream.
    waiting: BTreeMap<Option<String>, BTreeSet<(u8, usize)>>,
    /// The number in flight, by upstream.
    busy: BTreeMap<Option<String>, usize>,
    /// In flight, by mount.
    flights: BTreeMap<usize, Flight>,
    failures: BTreeMap<usize, Error>,
    left_behind: usize,
    fetched: Fetched,
    total: usize,
}

struct Flight {
    attempt: Arc<Attempt>,
    upstream: Option<String>,
    /// Its worker; `None` for a literal, or if the resolver has returned.
    worker: Option<usize>,
    deadline: Instant,
}

impl Coordinator<'_> {
    fn run(&mut self, wanted: &[usize]) {
        for &mount in wanted {
            if let Source::StaticLiteral { bytes, .. } = &self.entries[mount].source {
                self.write_literal(mount, bytes);
            } else {
                let upstream = self.resolver.upstream(&self.entries[mount].source);
                self.waiting.entry(upstream).or_default().insert((0, mount));
            }
        }
        loop {
            self.start();
            if self.flights.is_empty() {
                return;
            }
            let nearest = self.flights.values().filter(|flight| flight.worker.is_some());
            let nearest = nearest.map(|flight| flight.deadline).min();
            let event = match nearest {
                Some(deadline) => {
                    self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
                }
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Returned(worker, attempt, result)) => self.returned(worker, &attempt, result),
                Ok(Event::Drained(attempt)) => self.settle(&attempt),
                // The coordinator holds a sender itself.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.leave_the_late_behind();
        }
    }

    /// Literals are in the plan and need no resolver.
    fn write_literal(&mut self, mount: usize, bytes: &str) {
        let attempt = Arc::new(Attempt::new(self.entries, mount, 0));
        let mut sink = Handover::new(&attempt, &self.shared.queue, &self.sender);
        let put = match BASE64_STANDARD.decode(bytes) {
            Ok(bytes) => {
                let item =
                    Item { rel_path: String::new(), executable: false, content: Content::Bytes(bytes) };
                sink.put(item).and_then(|()| sink.flush()).map_err(Error::from)
            }
            Err(_) => Err(attempt.bad("the literal is not base64")),
        };
        if let Err(error) = put {
            attempt.end(error);
        }
        attempt.set_returned();
        let flight =
            Flight { attempt: Arc::clone(&attempt), upstream: None, worker: None, deadline: Instant::now() };
        *self.busy.entry(None).or_default() += 1;
        self.flights.insert(mount, flight);
        self.settle(&attempt);
        // At most one event per literal waits in the channel, and events are small.
        while let Ok(event) = self.events.try_recv() {
            if let Event::Drained(attempt) = event {
                self.settle(&attempt);
            }
        }
    }

    /// Starts as many as allowed, earlier mounts first.
    fn start(&mut self) {
        while self.flights.len() < MAX_IN_FLIGHT {
            let free = self.waiting.iter().filter(|(upstream, waiting)| {
                let busy = self.busy.get(*upstream).copied().unwrap_or(0);
                !waiting.is_empty() && (upstream.is_none() || busy < MAX_PER_UPSTREAM)
            });
            let next =
                free.filter_map(|(upstream, waiting)| Some((*waiting.first()?, upstream.clone()))).min();
            let Some(((number, mount), upstream)) = next else { return };
            if let Some(waiting) = self.waiting.get_mut(&upstream) {
                waiting.remove(&(number, mount));
            }
            if self.left_behind >= MAX_LEFT_BEHIND {
                self.failures.insert(mount, timed_out(&self.entries[mount], self.timeouts));
                continue;
            }
            let attempt = Arc::new(Attempt::new(self.entries, mount, number));
            let worker = match self.worker() {
                Ok(worker) => worker,
                Err(error) => {
                    self.failures.insert(mount, error);
                    continue;
                }
            };
            self.fetched.calls += 1;
            let deadline = Instant::now() + self.timeouts.of(attempt.kind());
            if let Some(Some(jobs)) = self.workers.get(worker) {
                // A worker ends only when its sender is dropped.
                let _ = jobs.send(Arc::clone(&attempt));
            }
            *self.busy.entry(upstream.clone()).or_default() += 1;
            self.flights.insert(mount, Flight { attempt, upstream, worker: Some(worker), deadline });
        }
    }

    /// An idle worker, or a new one.
    fn worker(&mut self) -> Result<usize, Error> {
        if let Some(worker) = self.idle.pop() {
            return Ok(worker);
        }
        let number = self.workers.len();
        let (jobs, work) = mpsc::channel::<Arc<Attempt>>();
        let resolver = Arc::clone(self.resolver);
        let queue = Arc::clone(&self.shared.queue);
        let events = self.sender.clone();
        let spawned = thread::Builder::new()
            .name(format!("resolve-{number}"))
            .spawn(move || resolve_all(number, &work, &*resolver, &queue, &events));
        if let Err(error) = spawned {
            return Err(Error::new(Code::ApplyIo, format!("start a thread: {error}")));
        }
        self.workers.push(Some(jobs));
        Ok(number)
    }

    fn returned(&mut self, worker: usize, attempt: &Arc<Attempt>, result: Result<(), Error>) {
        match self.flights.get_mut(&attempt.mount) {
            Some(flight) if Arc::ptr_eq(&flight.attempt, attempt) => flight.worker = None,
            // An abandoned worker returned after all. It has no sender any more and ends.
            _ => return,
        }
        self.idle.push(worker);
        if let Err(error) = result {
            attempt.end(error);
            self.shared.queue.wake();
        }
        attempt.set_returned();
        self.settle(attempt);
    }

    /// Ends a complete attempt: success, retry or failure.
    fn settle(&mut self, attempt: &Arc<Attempt>) {
        let current = self.flights.get(&attempt.mount);
        if !attempt.is_complete() || !current.is_some_and(|flight| Arc::ptr_eq(&flight.attempt, attempt)) {
            return;
        }
        match attempt.ended().cloned().or_else(|| attempt.problem()) {
            None => {
                self.land(attempt.mount);
                self.fetched.tries.insert(attempt.mount, attempt.number);
                self.fetched.warnings.extend(attempt.take_warnings());
                self.fetched.pinned.extend(attempt.take_pinned().map(|revision| (attempt.mount, revision)));
                self.progress.step(Step::Resolved {
                    mounts: self.fetched.tries.len(),
                    of: self.total,
                    files: self.shared.all.files(),
                    bytes: self.shared.all.bytes(),
                });
            }
            Some(error) => self.fail(attempt, error),
        }
    }

    /// Handles a failed attempt. Its files stay unread until the staging folder is removed.
    fn fail(&mut self, attempt: &Arc<Attempt>, error: Error) {
        let upstream = self.land(attempt.mount);
        self.shared.all.subtract(&attempt.count);
        let again =
            matches!(error.code(), Code::ResolveUpstream | Code::ResolveTimeout | Code::ResolveHashMismatch);
        if again && attempt.number + 1 < MAX_TRIES {
            // After everything that was not tried yet.
            self.waiting.entry(upstream).or_default().insert((attempt.number + 1, attempt.mount));
        } else {
            let key = attempt.entry().mount_key.as_str();
            let error =
                if error.details().contains_key("mountKey") { error } else { error.detail("mountKey", key) };
            if matches!(error.code(), Code::ApplyIo | Code::ApplyNoSpace) {
                // A disk error affects the other mounts too.
                self.waiting.clear();
            }
            self.failures.insert(attempt.mount, error);
        }
    }

    fn land(&mut self, mount: usize) -> Option<String> {
        let upstream = self.flights.remove(&mount).and_then(|flight| flight.upstream);
        if let Some(busy) = self.busy.get_mut(&upstream) {
            *busy = busy.saturating_sub(1);
        }
        upstream
    }

    fn leave_the_late_behind(&mut self) {
        let now = Instant::now();
        let late = self.flights.values().filter(|flight| flight.worker.is_some() && flight.deadline <= now);
        let late: Vec<_> = late.map(|flight| (Arc::clone(&flight.attempt), flight.worker)).collect();
        for (attempt, worker) in late {
            let error = timed_out(attempt.entry(), self.timeouts);
            attempt.end(error.clone());
            self.shared.queue.wake();
            if let Some(worker) = worker {
                self.workers[worker] = None;
                self.left_behind += 1;
            }
            self.fail(&attempt, error);
        }
    }
}

fn timed_out(entry: &ValidEntry, timeouts: &Timeouts) -> Error {
    let key = &entry.mount_key;
    let limit = timeouts.of(entry.source.kind());
    let message = format!("the source of {key} did not respond within {} ms", limit.as_millis());
    Error::new(Code::ResolveTimeout, message).detail("mountKey", key.as_str())
}

/// The loop of a worker, until its channel is closed.
fn resolve_all(
    number: usize,
    work: &Receiver<Arc<Attempt>>,
    resolver: &dyn Resolver,
    queue: &Arc<Queue<Work>>,
    events: &Sender<Event>,
) {
    while let Ok(attempt) = work.recv() {
        let mut sink = Handover::new(&attempt, queue, events);
        let entry = attempt.entry();
        let want = ResolveRequest { source: &entry.source, mode: entry.mode };
        // A panicking resolver is a failed source, not the end of the host.
        let result = catch_unwind(AssertUnwindSafe(|| resolver.resolve(want, &mut sink)))
            .unwrap_or_else(|_| Err(attempt.bad("its resolver panicked")))
            .and_then(|()| sink.flush().map_err(Error::from));
        if events.send(Event::Returned(number, attempt, result)).is_err() {
            return;
        }
    }
}
