//! One controller at work on a cluster.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

use flyball_sdk::describe::Description;
use flyball_sdk::testing::{Cluster, delta};
use flyball_sdk::{Key, Outcome, Request};
use flyball_types::Kind;

use crate::Subject;
use crate::routing::Routes;
use crate::snapshot::{Change, Snapshot};

/// The number of times that a key is tried before its failure counts.
const ATTEMPTS: u32 = 4;
/// The number of rounds after which a controller that still writes isn't waited for.
const ROUNDS: usize = 20;

/// A controller on a cluster.
pub struct Play {
    subject: Subject,
    cluster: Cluster,
    description: Description,
    kinds: BTreeSet<Kind>,
    routes: Routes,
    /// The objects that the controller has seen.
    seen: Snapshot,
    /// Number of failures of each key since it last succeeded.
    failures: BTreeMap<(String, String), u32>,
    /// Changes that the controller couldn't route, with the errors.
    unrouted: BTreeMap<String, String>,
    /// Keys that are due later.
    delayed: BTreeSet<(String, String)>,
}

/// The writes, events and failures of a controller.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    /// Writes, as in `create v1/Pod default/web`, in their order.
    pub writes: Vec<String>,
    /// Events, as in `Warning FailedCreate …`.
    pub events: Vec<String>,
    /// Keys whose last attempt failed, with the error.
    pub failed: BTreeMap<String, String>,
    /// The message of the panic that ended the play.
    pub panic: Option<String>,
    /// Whether the controller still did something when the play ended.
    pub is_restless: bool,
}

impl Deeds {
    /// Adds what was done afterwards.
    pub fn add(&mut self, later: Self) {
        self.writes.extend(later.writes);
        self.events.extend(later.events);
        self.failed.extend(later.failed);
        self.panic = self.panic.take().or(later.panic);
        self.is_restless |= later.is_restless;
    }
}

impl Play {
    /// Runs a controller on a cluster whose objects are of these kinds, besides those that it watches.
    pub fn new(subject: Subject, cluster: Cluster, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let description = subject.exported.describe(&cluster);
        let watched = description
            .watches
            .iter()
            .filter_map(|watch| watch.kind.clone());
        let kinds = watched.chain(kinds).collect();
        Self {
            subject,
            cluster,
            routes: Routes::new(&description, &kinds),
            description,
            kinds,
            seen: Snapshot::default(),
            failures: BTreeMap::new(),
            unrouted: BTreeMap::new(),
            delayed: BTreeSet::new(),
        }
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Lets time pass, after which all delayed keys are due.
    pub fn wait(&mut self, time: Duration) -> Deeds {
        self.cluster.advance(time);
        let due = std::mem::take(&mut self.delayed);
        self.run(due)
    }

    /// Runs the tickers once and reconciles all keys, until nothing changes any more.
    pub fn settle(&mut self) -> Deeds {
        self.run(BTreeSet::new())
    }

    fn run(&mut self, mut queued: BTreeSet<(String, String)>) -> Deeds {
        let mut deeds = Deeds::default();
        let primary = self
            .description
            .queues
            .first()
            .map_or("", |queue| &queue.name)
            .to_owned();
        let named = |queue: &str| {
            if queue.is_empty() {
                primary.clone()
            } else {
                queue.to_owned()
            }
        };
        for ticker in &self.description.tickers {
            queued.insert((named(&ticker.queue), ticker.key.clone()));
        }
        for _ in 0..ROUNDS {
            match self.catch(|play| play.changed_keys()) {
                Ok(keys) => {
                    queued.extend(keys.into_iter().map(|(queue, key)| (named(&queue), key)));
                    deeds.failed.append(&mut self.unrouted);
                }
                Err(panic) => {
                    deeds.panic = Some(panic);
                    return deeds;
                }
            }
            if queued.is_empty() {
                return deeds;
            }
            for item in std::mem::take(&mut queued) {
                match self.catch(|play| play.reconcile(&item)) {
                    Err(panic) => {
                        deeds.panic = Some(panic);
                        return deeds;
                    }
                    Ok(Ok(())) => drop(deeds.failed.remove(&item.1)),
                    Ok(Err(Failure { error, is_last })) => {
                        deeds.failed.insert(item.1.clone(), error);
                        if !is_last {
                            queued.insert(item);
                        }
                    }
                }
                deeds.writes.extend(self.cluster.written());
                deeds.events.extend(self.cluster.events());
                for added in self.cluster.enqueued() {
                    let item = (named(&added.queue), added.key);
                    let is_due = added.delay.is_zero();
                    if is_due {
                        &mut queued
                    } else {
                        &mut self.delayed
                    }
                    .insert(item);
                }
            }
        }
        deeds.is_restless = true;
        deeds
    }

    /// Reconciles a key.
    fn reconcile(&mut self, item: &(String, String)) -> Result<(), Failure> {
        let attempt = self.failures.entry(item.clone()).or_default();
        let request = Request {
            queue: item.0.clone(),
            key: Key::parse(&item.1),
            attempt: *attempt,
        };
        match self.subject.exported.reconcile(&self.cluster, &request) {
            Ok(outcome) => {
                *attempt = 0;
                if outcome != Outcome::Done {
                    self.delayed.insert(item.clone());
                }
                Ok(())
            }
            Err(error) => {
                *attempt += 1;
                let is_last = error.is_terminal() || *attempt >= ATTEMPTS;
                Err(Failure {
                    error: error.to_string(),
                    is_last,
                })
            }
        }
    }

    /// Returns the keys of the changes since the last call.
    fn changed_keys(&mut self) -> Vec<(String, String)> {
        let now = self.seen.next(&self.cluster, &self.kinds);
        let mut keys = Vec::new();
        for change in self.seen.changes_to(&now) {
            let routed = self.routes.route(&change, &now);
            keys.extend(routed.keys);
            if routed.asks_guest {
                keys.extend(self.route(&change));
            }
        }
        self.seen = now;
        keys
    }

    /// Returns the keys that the controller's `route` returns. Their delays don't count.
    fn route(&mut self, change: &Change) -> Vec<(String, String)> {
        let kind = change.kind.to_string();
        let [old, new] = [&change.old, &change.new]
            .map(|version| version.as_ref().map(|version| &version.value));
        let deltas = [delta(&kind, old, new)];
        match self.subject.exported.route(&self.cluster, &deltas) {
            Ok(routed) => {
                let keys = routed.into_iter();
                keys.map(|routed| (routed.queue, routed.key.to_string()))
                    .collect()
            }
            Err(error) => {
                let key = change.delta().object().key();
                self.unrouted
                    .insert(format!("route {kind} {key}"), error.to_string());
                Vec::new()
            }
        }
    }

    /// Calls the controller. A panic is the error.
    fn catch<T>(&mut self, call: impl FnOnce(&mut Self) -> T) -> Result<T, String> {
        quieten_panics();
        CATCHES.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| call(self)));
        CATCHES.set(false);
        result.map_err(|panic| format!("{} at {}", message(&*panic), PLACE.take()))
    }
}

/// Why a key failed.
struct Failure {
    error: String,
    /// Whether it isn't tried again.
    is_last: bool,
}

thread_local! {
    /// Whether a panic on this thread is caught.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// Where the last caught panic happened.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics that are caught out of the output, and notes their places.
fn quieten_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHES.get() {
                PLACE.set(
                    panic
                        .location()
                        .map_or_else(String::new, ToString::to_string),
                );
            } else {
                default(panic);
            }
        }));
    });
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned())
        .unwrap_or_else(|| "the controller panicked".into())
}
