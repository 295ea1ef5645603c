//! The server and two processes of the controller. [`users`](super::users) has the others that act.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::super::world::{PV, PVC, text};
use super::process::{Death, Process};
use super::users::{self, CLAIMS};
use super::watchdog::Watchdog;

const CLAIM_QUEUE: &str = "claims";
const QUEUES: [&str; 2] = [CLAIM_QUEUE, "volumes"];
/// Longer than any backoff.
const BACKOFF: Duration = Duration::from_secs(130);

pub(super) struct World {
    pub(super) server: Cluster,
    pub(super) watchdog: Watchdog,
    processes: RefCell<Vec<Rc<Process>>>,
    random: Cell<u64>,
    /// Objects that were created so far.
    pub(super) created: Cell<u64>,
    /// Whether one process acts while another one does.
    interferes: Cell<bool>,
    /// Whether each process dies after its first or second write.
    is_deadly: bool,
    told: RefCell<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Rc<Self> {
        let world = Rc::new(Self {
            server: Cluster::new(),
            watchdog: Watchdog::default(),
            processes: RefCell::default(),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            created: Cell::new(0),
            interferes: Cell::new(false),
            is_deadly: seed.is_multiple_of(4),
            told: RefCell::default(),
        });
        users::prepare(&world);
        let processes = [world.start(), world.start()];
        world.processes.borrow_mut().extend(processes);
        world
    }

    fn start(self: &Rc<Self>) -> Rc<Process> {
        let process = Process::new(self);
        if self.is_deadly {
            process.doom(self.below(2) as u32, Death::After);
        }
        process
    }

    /// A number below `end` (xorshift).
    pub(super) fn below(&self, end: u64) -> u64 {
        let mut next = self.random.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.random.set(next);
        (next >> 16) % end
    }

    pub(super) fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(super) fn tell(&self, what: String) {
        self.told.borrow_mut().push(what);
    }

    /// The history as lines.
    pub(super) fn told(&self) -> String {
        self.told.borrow().join("\n")
    }

    fn process(self: &Rc<Self>, at: usize) -> Rc<Process> {
        let processes = &mut *self.processes.borrow_mut();
        if processes[at].is_dead() {
            processes[at] = self.start();
        }
        processes[at].clone()
    }

    fn any_process(self: &Rc<Self>) -> Rc<Process> {
        self.process(self.below(2) as usize)
    }

    /// A random action of a user, of an external provisioner or of a process.
    pub(super) fn act(self: &Rc<Self>) {
        match self.below(40) {
            0..=13 => users::act(self),
            14 => self.server.advance(Duration::from_secs(1 + self.below(20))),
            15..=16 => self.any_process().catch_up(&self.server),
            17..=18 => self.follow_one(&self.any_process()),
            19 => {
                let death = self.one_of(&[Death::Before, Death::After]);
                self.any_process().doom(self.below(4) as u32, death);
            }
            _ => self.reconcile_any(&self.any_process()),
        }
    }

    /// Lets a process see the newest version of an object.
    fn follow_one(&self, process: &Process) {
        let kind = self.one_of(&[PV, PVC]);
        let objects = self.server.objects(kind);
        if !objects.is_empty() {
            let at = self.below(objects.len() as u64) as usize;
            process.follow(&self.server, kind, &objects[at]["metadata"]);
        }
    }

    /// Lets a process reconcile a random key.
    fn reconcile_any(&self, process: &Process) {
        self.reconcile_in(process, self.one_of(&QUEUES));
    }

    /// Lets a process reconcile a random key of a queue.
    fn reconcile_in(&self, process: &Process, queue: &'static str) {
        let key = match queue {
            CLAIM_QUEUE => format!("team/{}", self.one_of(&CLAIMS)),
            _ => {
                let volumes = self.server.objects(PV);
                let Some(last) = (volumes.len() as u64).checked_sub(1) else {
                    return;
                };
                let at = self.below(last + 1) as usize;
                text(&volumes[at]["metadata"]["name"])
            }
        };
        let outcome = process.reconcile(queue, &key);
        self.tell(format!("reconciled {queue} {key}: {outcome:?}"));
    }

    /// Sometimes lets something happen before a process reads or writes: its cache gets an event, the worker of its other
    /// queue acts, or the other process does.
    pub(super) fn interfere(self: &Rc<Self>, acting: &Process) {
        if self.interferes.get() || self.below(8) > 0 {
            return;
        }
        self.interferes.set(true);
        self.tell("  meanwhile:".into());
        match self.below(4) {
            0 => self.follow_one(acting),
            1 => {
                let others = QUEUES.into_iter().find(|queue| *queue != acting.queue());
                let queue = acting.queue();
                others
                    .iter()
                    .for_each(|queue| self.reconcile_in(acting, queue));
                acting.resume(queue);
            }
            _ => {
                let other = self.any_process();
                if !std::ptr::eq(&raw const *other, acting) {
                    self.catch_up_sometimes(&other);
                    self.reconcile_any(&other);
                }
                self.catch_up_sometimes(acting);
            }
        }
        self.interferes.set(false);
    }

    fn catch_up_sometimes(&self, process: &Process) {
        if self.below(2) == 0 {
            process.catch_up(&self.server);
        }
    }

    /// Lets the processes and the external provisioner go on, with current caches, until nothing changes any more.
    pub(super) fn settle(self: &Rc<Self>) {
        self.interferes.set(true);
        let mut quiet = 0;
        for round in 0..100 {
            self.server.writes();
            let is_changed = users::finish(self);
            for (kind, queue) in [(PVC, "claims"), (PV, "volumes")] {
                for object in self.server.objects(kind) {
                    let process = self.process(round % 2);
                    process.catch_up(&self.server);
                    let name = |field: &str| text(&object["metadata"][field]);
                    let key = Key::new(&name("namespace"), &name("name")).to_string();
                    let outcome = process.reconcile(queue, &key);
                    self.tell(format!("settled {queue} {key}: {outcome:?}"));
                }
            }
            self.server.advance(BACKOFF);
            let is_quiet = self.server.writes().is_empty() && !is_changed;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == 4 {
                return;
            }
        }
        panic!("it does not come to rest:\n{}", self.told());
    }
}
