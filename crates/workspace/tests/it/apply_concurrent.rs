//! Concurrent appliers and resolvers, and an agent that keeps writing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use workspace::apply::{Applier, ApplyRequest, LeaseScope, RwPolicy, Status, Timeouts, Verify};
use workspace::drift;
use workspace::plan::{Grant, Source};
use workspace::resolve::{ResolveRequest, Resolver, Sink};
use workspace::slot::Slot;
use workspace::{Code, Error};

use crate::apply_support::{Memory, NOW, Plan, World, left_behind, text};

/// A gate that blocks resolvers until it is opened.
#[derive(Default)]
struct Turnstile {
    open: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
    most: AtomicUsize,
    by_upstream: Mutex<BTreeMap<String, (usize, usize)>>,
}

impl Turnstile {
    fn pass(&self, sink: &dyn Sink) -> Result<(), Error> {
        let now = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            let (guard, _) = self.changed.wait_timeout(open, Duration::from_millis(5)).unwrap();
            open = guard;
            sink.check()?;
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// Waits until this many are waiting.
    fn await_waiting(&self, count: usize) {
        while self.waiting.load(Ordering::SeqCst) < count {
            thread::yield_now();
        }
    }
}

struct Slow {
    memory: Arc<Memory>,
    turnstile: Arc<Turnstile>,
    upstream: bool,
}

impl Resolver for Slow {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        let upstream = self.upstream(want.source);
        if let Some(upstream) = &upstream {
            let mut by = self.turnstile.by_upstream.lock().unwrap();
            let entry = by.entry(upstream.clone()).or_default();
            entry.0 += 1;
            entry.1 = entry.1.max(entry.0);
        }
        self.turnstile.pass(sink)?;
        if let Some(upstream) = &upstream {
            self.turnstile.by_upstream.lock().unwrap().entry(upstream.clone()).or_default().0 -= 1;
        }
        self.memory.resolve(want, sink)
    }

    fn upstream(&self, source: &Source) -> Option<String> {
        match source {
            Source::SkillBundle { skill_key } if self.upstream => Some(format!("host-{}", &skill_key[..1])),
            _ => None,
        }
    }
}

/// Waits until this many wait for the lock. The system lists waiters with an arrow.
fn await_lock_waiters(world: &World, count: usize) {
    let lock = std::fs::metadata(world.root().join(".interlock/lock")).unwrap().ino();
    let is_waiter = |line: &&str| line.contains("->") && line.contains(&format!(":{lock} "));
    while std::fs::read_to_string("/proc/locks").unwrap().lines().filter(is_waiter).count() < count {
        thread::yield_now();
    }
}

#[test]
fn two_equal_applies_are_joined() {
    // case 46
    let world = World::new();
    let turnstile = Arc::new(Turnstile::default());
    let slow: Arc<dyn Resolver> = Arc::new(Slow {
        memory: Arc::clone(&world.memory),
        turnstile: Arc::clone(&turnstile),
        upstream: false,
    });
    let valid = Plan::base().valid();
    let scope = LeaseScope::of(&valid, 0);
    let request = ApplyRequest::new(&valid, &scope, "test");
    let reports = thread::scope(|scope| {
        let first = scope.spawn(|| world.applier().apply(&request, &slow, NOW, &()).unwrap());
        turnstile.await_waiting(4);
        let joining: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| world.applier().apply(&request, &slow, NOW, &()).unwrap()))
            .collect();
        await_lock_waiters(&world, 3);
        turnstile.open();
        let mut reports = vec![first.join().unwrap()];
        reports.extend(joining.into_iter().map(|joining| joining.join().unwrap()));
        reports
    });
    assert_eq!(reports[0].status, Status::Applied);
    for report in &reports[1..] {
        let late = report.status == Status::Cached && report.upstream_calls == 0;
        assert!(late || report == &reports[0], "{report:?}");
    }
    assert_eq!(world.memory.asked().len(), 4, "one set of calls");
}

#[test]
fn a_request_with_more_than_the_plan_does_not_join() {
    let world = World::new();
    let turnstile = Arc::new(Turnstile::default());
    let slow: Arc<dyn Resolver> = Arc::new(Slow {
        memory: Arc::clone(&world.memory),
        turnstile: Arc::clone(&turnstile),
        upstream: false,
    });
    let valid = Plan::base().valid();
    let lease_scope = LeaseScope::of(&valid, 0);
    let request = ApplyRequest::new(&valid, &lease_scope, "test");
    let reset = ApplyRequest { rw_policy: RwPolicy::Reset, ..request };
    thread::scope(|scope| {
        let first = scope.spawn(|| world.applier().apply(&request, &slow, NOW, &()).unwrap());
        turnstile.await_waiting(4);
        let second = scope.spawn(|| world.applier().apply(&reset, &slow, NOW, &()).unwrap());
        turnstile.open();
        assert_eq!(first.join().unwrap().generation, 1);
        let second = second.join().unwrap();
        assert_eq!((second.status, second.generation), (Status::Applied, 2), "it was carried out");
    });
}

#[test]
fn another_run_is_refused_during_an_apply() {
    let world = World::new();
    let turnstile = Arc::new(Turnstile::default());
    let slow: Arc<dyn Resolver> = Arc::new(Slow {
        memory: Arc::clone(&world.memory),
        turnstile: Arc::clone(&turnstile),
        upstream: false,
    });
    let valid = Plan::base().valid();
    let lease_scope = LeaseScope::of(&valid, 0);
    let request = ApplyRequest::new(&valid, &lease_scope, "first");
    thread::scope(|scope| {
        let first = scope.spawn(|| world.applier().apply(&request, &slow, NOW, &()).unwrap());
        turnstile.await_waiting(4);
        let other = Plan::base().id('b').scope(serde_json::json!({"runId": "run2", "jobRunId": "j"}));
        let error = world.apply(&other).unwrap_err();
        assert_eq!((error.code(), error.details()["holder"].as_str()), (Code::LeaseHeld, Some("first")));
        // The next request of the same run waits, and takes over.
        let next = scope.spawn(|| world.apply(&Plan::base().id('c')).unwrap());
        turnstile.open();
        first.join().unwrap();
        assert_eq!(next.join().unwrap().generation, 2);
    });
}

#[test]
fn at_most_sixteen_resolvers_run_and_four_per_upstream() {
    let world = World::in_memory();
    let turnstile = Arc::new(Turnstile::default());
    let slow: Arc<dyn Resolver> = Arc::new(Slow {
        memory: Arc::clone(&world.memory),
        turnstile: Arc::clone(&turnstile),
        upstream: true,
    });
    let mut plan = Plan::base();
    for host in ["a", "b", "c", "d", "e"] {
        for number in 0..10 {
            let key = format!("{host}{number}");
            world.memory.set(&format!("skill:{key}"), &[("SKILL.md", text("s"))]);
            plan = plan.skill(&key);
        }
    }
    let valid = plan.valid();
    let lease_scope = LeaseScope::of(&valid, 0);
    let request = ApplyRequest::new(&valid, &lease_scope, "test");
    thread::scope(|scope| {
        let apply = scope.spawn(|| world.applier().apply(&request, &slow, NOW, &()).unwrap());
        turnstile.await_waiting(16);
        turnstile.open();
        assert_eq!(apply.join().unwrap().upstream_calls, 54);
    });
    assert_eq!(turnstile.most.load(Ordering::SeqCst), 16);
    let by_upstream = turnstile.by_upstream.lock().unwrap();
    assert!(by_upstream.values().all(|(_, most)| *most <= 4), "{by_upstream:?}");
}

/// Never returns, and never checks whether it should stop.
struct Hanging {
    memory: Arc<Memory>,
    tries: AtomicUsize,
    release: Arc<Barrier>,
    late: Arc<AtomicBool>,
}

impl Resolver for Hanging {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        if !matches!(want.source, Source::SkillBundle { .. }) {
            return self.memory.resolve(want, sink);
        }
        self.tries.fetch_add(1, Ordering::SeqCst);
        self.release.wait();
        // Much later, when the result is no longer wanted.
        let refused = self.memory.resolve(want, sink).is_err();
        self.late.fetch_and(refused, Ordering::SeqCst);
        self.release.wait();
        Ok(())
    }
}

#[test]
fn a_hanging_resolver_is_abandoned_and_its_output_discarded() {
    let world = World::in_memory();
    world.memory.set("skill:a", &[("SKILL.md", text("late"))]);
    let hanging = Arc::new(Hanging {
        memory: Arc::clone(&world.memory),
        tries: AtomicUsize::new(0),
        release: Arc::new(Barrier::new(4)),
        late: Arc::new(AtomicBool::new(true)),
    });
    let resolver = Arc::clone(&hanging) as Arc<dyn Resolver>;
    let valid = Plan::base().skill("a").valid();
    let scope = LeaseScope::of(&valid, 0);
    let request = ApplyRequest::new(&valid, &scope, "test");
    let short = Timeouts { other: Duration::from_millis(30), repository: Duration::from_millis(30) };
    let applier = Applier::new(&world.root()).unwrap().with_timeouts(short);
    let error = applier.apply(&request, &resolver, NOW, &()).unwrap_err();
    assert_eq!(error.code(), Code::ResolveTimeout);
    assert_eq!(error.details()["mountKey"], "skill-bundle:a");
    assert_eq!(hanging.tries.load(Ordering::SeqCst), 3);
    assert_eq!(left_behind(&world.root()), [""; 0]);
    hanging.release.wait();
    hanging.release.wait();
    assert!(hanging.late.load(Ordering::SeqCst), "the sinks were dead");
    assert!(world.tree().is_empty());
}

#[test]
fn a_concurrent_scan_sees_the_old_or_the_new_workspace() {
    let world = World::in_memory();
    let plan = |bytes: &[u8]| {
        let plan = Plan::base().grant("inputs", "read-only");
        (0..20).fold(plan, |plan, number| plan.seed("inputs", &format!("{number}"), bytes))
    };
    world.apply(&plan(b"0")).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let scans = scope.spawn(|| {
            let applier = world.applier();
            let mut scans = 0;
            while !done.load(Ordering::SeqCst) {
                let lease = applier.lease().unwrap().unwrap();
                let slots = lease.slots.iter();
                let grants =
                    slots.map(|slot| Grant { slot: Slot::from_path(&slot.path).unwrap(), mode: slot.mode });
                let baseline = drift::Baseline { index: lease.index_ref.clone(), grants: grants.collect() };
                let scan =
                    drift::scan(applier.root(), &baseline, drift::Level::Hash, 0, drift::Options::default());
                match scan {
                    Ok(report) => assert_eq!(report.counts.critical, 0, "{report:?}"),
                    Err(error) => assert_eq!(error.code(), Code::LeaseHeld, "{error}"),
                }
                scans += 1;
            }
            scans
        });
        for round in 1..=20_u8 {
            let report = world.apply(&plan(&[b'0', round])).unwrap();
            assert_eq!(report.generation, u64::from(round) + 1);
        }
        done.store(true, Ordering::SeqCst);
        assert!(scans.join().unwrap() > 0);
    });
    let report = world.apply_with(&plan(&[b'0', 20]), |request| request.verify = Verify::Hash).unwrap();
    assert_eq!(report.status, Status::Cached);
}

#[test]
fn an_agent_that_keeps_writing_loses_nothing() {
    let world = World::in_memory();
    let plan = |bytes: &[u8]| {
        let plan = Plan::base().grant("deliverables", "read-write");
        (0..20).fold(plan, |plan, number| plan.seed("deliverables", &format!("{number}"), bytes))
    };
    world.apply(&plan(b"0")).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut written = BTreeMap::new();
            let mut round = 0_u64;
            while !done.load(Ordering::SeqCst) {
                round += 1;
                let name = format!("deliverables/{}", round % 20);
                let text = format!("mine {round}");
                // As editors do: a new file that replaces the old one.
                let temporary = world.root().join("deliverables/.tmp");
                std::fs::write(&temporary, &text).unwrap();
                std::fs::rename(&temporary, world.root().join(&name)).unwrap();
                written.insert(name, text);
            }
            written
        });
        for round in 1..=20_u8 {
            world.apply(&plan(&[b'0', round])).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        for (name, text) in agent.join().unwrap() {
            assert_eq!(world.read(&name), Some(text), "{name}");
        }
    });
}
