//! Random operations on the queue and on a simple model of it: plain lists, searched from end to end.
//!
//! Every get must return the key that the model returns, with the same causes, priority and wait. Two invariants are
//! checked without the model: no two items hold the same key, and exactly one item accounts for every accepted add.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use flyball_workqueue::{Causes, Config, Item, LOW_SHARE, Priority, RateLimit, WorkQueue};
use proptest::prelude::*;
use tokio::time::{Duration, advance};

const AGEING: u64 = 50;
const BASE: u64 = 5;
const MAX: u64 = 300;

#[derive(Clone, Debug)]
enum Op {
    Add(u8, Priority),
    AddAfter(u8, u64, Priority),
    AddRateLimited(u8, Priority),
    Forget(u8),
    Get,
    /// Drops the nth of the items held, modulo their number.
    Done(usize),
    Advance(u64),
    /// A getter that starts to wait and is cancelled.
    CancelledGet,
    Shutdown,
}

fn ops(shutdown: u32) -> impl Strategy<Value = Vec<Op>> {
    let key = 0u8..6;
    let priority = prop_oneof![2 => Just(Priority::Normal), 1 => Just(Priority::Low)];
    let op = prop_oneof![
        60 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::Add(key, priority)),
        30 => (key.clone(), 0u64..200, priority.clone()).prop_map(|(key, ms, priority)| Op::AddAfter(key, ms, priority)),
        15 => (key.clone(), priority).prop_map(|(key, priority)| Op::AddRateLimited(key, priority)),
        3 => key.prop_map(Op::Forget),
        60 => Just(Op::Get),
        50 => any::<usize>().prop_map(Op::Done),
        30 => (0u64..60).prop_map(Op::Advance),
        10 => Just(Op::CancelledGet),
        shutdown => Just(Op::Shutdown),
    ];
    prop::collection::vec(op, 1..400)
}

#[derive(Clone, Debug)]
struct Want {
    key: u8,
    priority: Priority,
    reasons: Vec<u32>,
    /// When the first add took place; for a delayed key, when it is due.
    at: u64,
    /// When it joined its lane.
    joined: u64,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    normal: Vec<Want>,
    low: Vec<Want>,
    dirty: Vec<Want>,
    delayed: Vec<Want>,
    held: Vec<u8>,
    failures: HashMap<u8, u32>,
    normal_in_a_row: u32,
    shut_down: bool,
}

impl Model {
    fn add(&mut self, new: Want) {
        let mut pending = self
            .normal
            .iter_mut()
            .chain(&mut self.low)
            .chain(&mut self.dirty);
        if let Some(old) = pending.find(|want| want.key == new.key) {
            old.reasons.extend(&new.reasons);
            old.priority = old.priority.max(new.priority);
            let promoted = self
                .low
                .iter()
                .position(|want| want.priority == Priority::Normal);
            self.normal.extend(promoted.map(|at| self.low.remove(at)));
        } else if self.held.contains(&new.key) {
            self.dirty.push(new);
        } else if new.priority == Priority::Normal {
            self.normal.push(new);
        } else {
            self.low.push(new);
        }
    }

    fn add_after(&mut self, new: Want) {
        if let Some(at) = self.delayed.iter().position(|want| want.key == new.key) {
            let old = &mut self.delayed[at];
            old.reasons.extend(&new.reasons);
            old.priority = old.priority.max(new.priority);
            if new.at < old.at {
                // At the end: of the keys due at the same time, the one that got this time last is served last.
                let old = self.delayed.remove(at);
                self.delayed.push(Want { at: new.at, ..old });
            }
        } else {
            self.delayed.push(new);
        }
    }

    fn advance(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            while let Some(at) = self.delayed.iter().position(|want| want.at <= self.now) {
                let due = self.delayed.remove(at);
                self.add(Want {
                    joined: self.now,
                    ..due
                });
            }
        }
    }

    fn get(&mut self) -> Option<Want> {
        let aged = self
            .low
            .first()
            .is_some_and(|want| self.now - want.joined >= AGEING);
        let lows_turn = self.normal.is_empty() || (aged && self.normal_in_a_row >= LOW_SHARE - 1);
        let want = if lows_turn && !self.low.is_empty() {
            self.normal_in_a_row = 0;
            self.low.remove(0)
        } else if !self.normal.is_empty() {
            self.normal_in_a_row += 1;
            self.normal.remove(0)
        } else {
            return None;
        };
        self.held.push(want.key);
        Some(want)
    }

    fn done(&mut self, key: u8) {
        self.held.retain(|held| *held != key);
        if let Some(at) = self.dirty.iter().position(|want| want.key == key) {
            let want = self.dirty.remove(at);
            let joined = self.now;
            self.add(Want { joined, ..want });
        }
    }

    fn backoff(&mut self, key: u8) -> u64 {
        let failures = self.failures.entry(key).or_default();
        *failures += 1;
        (1..*failures).fold(BASE, |wait, _| (wait * 2).min(MAX))
    }

    /// Whether a get returns `None` rather than waits.
    fn ended(&self) -> bool {
        self.shut_down && self.normal.is_empty() && self.low.is_empty() && self.dirty.is_empty()
    }
}

struct Run {
    queue: WorkQueue<u8, u32>,
    model: Model,
    items: Vec<Item<u8, u32>>,
    reason: u32,
    accepted: u32,
    served: u32,
}

impl Run {
    fn new() -> Self {
        let rate_limit = RateLimit {
            base: Duration::from_millis(BASE),
            max: Duration::from_millis(MAX),
            bucket: None,
        };
        let config = Config {
            rate_limit,
            ageing: Duration::from_millis(AGEING),
            ..Config::default()
        };
        let (queue, model) = (WorkQueue::new(config), Model::default());
        Self {
            queue,
            model,
            items: Vec::new(),
            reason: 0,
            accepted: 0,
            served: 0,
        }
    }

    async fn step(&mut self, op: Op) {
        self.reason += 1;
        match op {
            Op::Add(key, priority) => {
                self.queue.add(key, priority, self.reason);
                self.model_add(key, 0, priority);
            }
            Op::AddAfter(key, ms, priority) => {
                self.queue
                    .add_after(key, Duration::from_millis(ms), priority, self.reason);
                self.model_add(key, ms, priority);
            }
            Op::AddRateLimited(key, priority) => {
                let delay = self.model.backoff(key);
                let waits = self.queue.add_rate_limited(key, priority, self.reason);
                assert_eq!(waits, Duration::from_millis(delay));
                assert_eq!(self.queue.num_requeues(&key), self.model.failures[&key]);
                self.model_add(key, delay, priority);
            }
            Op::Forget(key) => {
                self.queue.forget(&key);
                self.model.failures.remove(&key);
            }
            Op::Get => {
                self.get();
            }
            Op::Done(nth) if !self.items.is_empty() => {
                let item = self.items.swap_remove(nth % self.items.len());
                self.model.done(*item.key());
            }
            Op::Done(_) => {}
            Op::Advance(ms) => {
                advance(Duration::from_millis(ms)).await;
                self.model.advance(ms);
            }
            Op::CancelledGet => {
                let never_polled = self.queue.get();
                drop(never_polled);
                if self.model.normal.is_empty() && self.model.low.is_empty() {
                    let waited = poll(self.queue.get());
                    assert_eq!(waited.is_some(), self.model.ended());
                }
            }
            Op::Shutdown => {
                self.queue.shutdown();
                self.model.shut_down = true;
                self.model.delayed.clear();
            }
        }
        self.compare_gauges();
    }

    fn model_add(&mut self, key: u8, delay: u64, priority: Priority) {
        if self.model.shut_down {
            return;
        }
        self.accepted += 1;
        let at = self.model.now + delay;
        let want = Want {
            key,
            priority,
            reasons: vec![self.reason],
            at,
            joined: at,
        };
        if delay == 0 {
            self.model.add(want)
        } else {
            self.model.add_after(want)
        }
    }

    /// Gets from the queue and from the model, compares, and returns whether there was a key.
    fn get(&mut self) -> bool {
        let got = poll(self.queue.get());
        let Some(want) = self.model.get() else {
            assert_eq!(got.is_some(), self.model.ended(), "a get waits, or ends");
            assert!(got.flatten().is_none());
            return false;
        };
        let item = got.flatten().expect("the model has a key");
        assert!(
            self.items.iter().all(|held| held.key() != item.key()),
            "two items hold {}",
            item.key()
        );
        let (first, later) = want.reasons.split_first().unwrap();
        let causes = Causes {
            first: *first,
            latest: later.last().copied(),
            coalesced: later.len() as u32,
        };
        assert_eq!(
            (*item.key(), item.priority(), item.causes()),
            (want.key, want.priority, &causes)
        );
        assert_eq!(
            item.queued(),
            Duration::from_millis(self.model.now - want.at)
        );
        self.served += 1 + causes.coalesced;
        self.items.push(item);
        true
    }

    fn compare_gauges(&self) {
        let (gauges, model) = (self.queue.snapshot(), &self.model);
        let is = [
            gauges.normal,
            gauges.low,
            gauges.dirty,
            gauges.delayed,
            gauges.processing,
        ];
        let lists = [&model.normal, &model.low, &model.dirty, &model.delayed].map(Vec::len);
        assert_eq!(
            is,
            [lists[0], lists[1], lists[2], lists[3], model.held.len()]
        );
        assert_eq!(self.queue.len(), lists[0] + lists[1]);
    }

    /// Serves all keys that are left, delayed ones included.
    async fn finish(&mut self) {
        loop {
            while let Some(item) = self.items.pop() {
                self.model.done(*item.key());
            }
            if self.get() {
                continue;
            }
            if self.model.delayed.is_empty() {
                return;
            }
            self.step(Op::Advance(MAX)).await;
        }
    }
}

fn poll<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn on_paused_time(future: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Without tokio's budget, which makes a get yield now and then: a single poll can't distinguish that from waiting.
    builder
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(tokio::task::coop::unconstrained(future));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_behaves_as_the_model(ops in ops(0)) {
        on_paused_time(async {
            let mut run = Run::new();
            for op in ops {
                run.step(op).await;
            }
            run.finish().await;
            assert_eq!(run.served, run.accepted, "one item accounts for every add");
            assert_eq!(run.queue.snapshot(), Default::default());
        });
    }

    #[test]
    fn a_shutdown_at_any_time_serves_what_was_queued_and_then_ends(ops in ops(2)) {
        on_paused_time(async {
            let mut run = Run::new();
            for op in ops {
                run.step(op).await;
            }
            run.step(Op::Shutdown).await;
            let queue = run.queue.clone();
            let mut drain = Box::pin(queue.shutdown_with_drain());
            let idle = run.items.is_empty() && run.model.ended();
            assert_eq!(poll(drain.as_mut()).is_some(), idle);
            run.finish().await;
            assert!(idle || poll(drain).is_some());
            assert!(poll(queue.get()).is_some_and(|item| item.is_none()));
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// The guarantee of the low lane, without the model: an aged key waits for no more gets than its place in the lane
    /// times the share, whatever else is added.
    #[test]
    fn no_low_key_starves(low in 1u32..40, normals_per_get in 1u32..4, ms_per_get in 1u64..30) {
        on_paused_time(async {
            let ageing = Duration::from_millis(AGEING);
            let queue = WorkQueue::<u32, ()>::new(Config { ageing, ..Config::default() });
            for key in 0..low {
                queue.add(key, Priority::Low, ());
            }
            let mut next_normal = low;
            let (mut aged_gets, mut now, mut served) = (0, 0, 0);
            while served < low {
                for _ in 0..normals_per_get {
                    queue.add(next_normal, Priority::Normal, ());
                    next_normal += 1;
                }
                let item = queue.get().await.unwrap();
                aged_gets += u32::from(now >= AGEING);
                if *item.key() < low {
                    assert_eq!(*item.key(), served, "in order");
                    assert!(now >= AGEING, "normal keys are ready");
                    served += 1;
                }
                assert!(aged_gets <= (served + 1) * LOW_SHARE);
                now += ms_per_get;
                advance(Duration::from_millis(ms_per_get)).await;
            }
        });
    }
}
