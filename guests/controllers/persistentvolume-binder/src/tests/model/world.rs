//! The server, its users and two processes of the controller.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;
use flyball_sdk::write::{Action, Batch};

use super::super::world::{
    CLASS, MOCK, PV, PVC, annotated, class, reservation, text, volume, with,
};
use super::process::{Death, Process, frees};

/// The names that claims have in turn.
const CLAIMS: [&str; 4] = ["a", "b", "c", "d"];
const CLAIM_QUEUE: &str = "claims";
const QUEUES: [&str; 2] = [CLAIM_QUEUE, "volumes"];
/// The most volumes that users create in one history.
const VOLUMES: u64 = 7;
/// Classes, and what becomes of their volumes.
const CLASSES: [(&str, &str); 2] = [("fast", "Delete"), ("safe", "Retain")];
/// Longer than any backoff.
const BACKOFF: Duration = Duration::from_secs(130);

pub(super) struct World {
    pub(super) server: Cluster,
    processes: RefCell<Vec<Rc<Process>>>,
    random: Cell<u64>,
    /// Objects that were created so far.
    created: Cell<u64>,
    /// Whether one process acts while another one does.
    interferes: Cell<bool>,
    told: RefCell<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Rc<Self> {
        let world = Rc::new(Self {
            server: Cluster::new(),
            processes: RefCell::default(),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            created: Cell::new(0),
            interferes: Cell::new(false),
            told: RefCell::default(),
        });
        for (name, policy) in CLASSES {
            world
                .server
                .put(with(class(name, MOCK), "/reclaimPolicy", policy));
        }
        let processes = [Process::new(&world), Process::new(&world)];
        world.processes.borrow_mut().extend(processes);
        world
    }

    /// A number below `end` (xorshift).
    fn below(&self, end: u64) -> u64 {
        let mut next = self.random.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.random.set(next);
        (next >> 16) % end
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> T {
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
            processes[at] = Process::new(self);
        }
        processes[at].clone()
    }

    fn any_process(self: &Rc<Self>) -> Rc<Process> {
        self.process(self.below(2) as usize)
    }

    /// A random action of a user or a process.
    pub(super) fn act(self: &Rc<Self>) {
        match self.below(30) {
            0..=2 => self.create_claim(),
            3..=4 => self.delete_claim(),
            5..=7 => self.create_volume(),
            8 => self.choose_default(),
            9 => self.server.advance(Duration::from_secs(1 + self.below(20))),
            10..=11 => self.any_process().catch_up(&self.server),
            12..=13 => self.follow_one(&self.any_process()),
            14 => {
                let death = self.one_of(&[Death::Before, Death::After]);
                self.any_process().doom(self.below(4) as u32, death);
            }
            _ => self.reconcile_any(&self.any_process()),
        }
    }

    fn create_claim(&self) {
        let (name, number) = (self.one_of(&CLAIMS), self.created.get());
        if self.server.object(PVC, "team", name).is_some() {
            return;
        }
        self.created.set(number + 1);
        let size = format!("{}Gi", 1 + self.below(3));
        let mut claim = super::super::world::claim(name, &size);
        claim["metadata"]["uid"] = format!("uid-{name}-{number}").into();
        match self.below(5) {
            0 => claim["spec"]["storageClassName"] = CLASSES[0].0.into(),
            1 => claim["spec"]["storageClassName"] = CLASSES[1].0.into(),
            2 => drop(
                claim["spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("storageClassName"),
            ),
            _ => {}
        }
        if self.below(4) == 0 {
            claim["spec"]["volumeName"] = format!("v{}", self.below(VOLUMES)).into();
        }
        self.tell(format!("create {claim}"));
        self.server.put(claim);
    }

    fn delete_claim(&self) {
        let name = self.one_of(&CLAIMS);
        self.tell(format!("delete claim {name}"));
        self.server.remove(PVC, "team", name);
    }

    fn create_volume(&self) {
        let name = format!("v{}", self.below(VOLUMES));
        // A name is used once: a volume that a user replaces is another story.
        let is_used = self
            .told
            .borrow()
            .iter()
            .any(|line| line.starts_with(&format!("volume {name} ")));
        if is_used {
            return;
        }
        let policy = self.one_of(&["Retain", "Delete", "Recycle"]);
        let mut disk = volume(&name, &format!("{}Gi", 1 + self.below(4)));
        disk = with(disk, "/spec/persistentVolumeReclaimPolicy", policy);
        disk = with(disk, "/status", json!({"phase": "Pending"}));
        if self.below(4) == 0 {
            disk = with(disk, "/spec/claimRef", reservation(self.one_of(&CLAIMS)));
        }
        self.tell(format!("volume {name} {disk}"));
        self.server.put(disk);
    }

    /// Makes a class the default one, or none.
    fn choose_default(&self) {
        let chosen = self.below(3) as usize;
        for (at, (name, _)) in CLASSES.into_iter().enumerate() {
            let is_default = (at == chosen).to_string();
            self.server.edit(CLASS, "", name, |class| {
                *class = annotated(
                    class.take(),
                    "storageclass.kubernetes.io/is-default-class",
                    &is_default,
                );
            });
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

    /// Lets the processes go on, with current caches, until nothing changes any more.
    pub(super) fn settle(self: &Rc<Self>) {
        self.interferes.set(true);
        let mut quiet = 0;
        for round in 0..60 {
            self.server.writes();
            let process = self.process(round % 2);
            for (kind, queue) in [(PVC, "claims"), (PV, "volumes")] {
                for object in self.server.objects(kind) {
                    process.catch_up(&self.server);
                    let name = |field: &str| text(&object["metadata"][field]);
                    let key = Key::new(&name("namespace"), &name("name")).to_string();
                    let outcome = process.reconcile(queue, &key);
                    self.tell(format!("settled {queue} {key}: {outcome:?}"));
                }
            }
            self.server.advance(BACKOFF);
            quiet = if self.server.writes().is_empty() {
                quiet + 1
            } else {
                0
            };
            if quiet == 4 {
                return;
            }
        }
        panic!("it does not come to rest:\n{}", self.told());
    }

    /// Checks what must hold at any time.
    pub(super) fn check_always(&self) {
        let claims = self.server.objects(PVC);
        for disk in self.server.objects(PV) {
            let name = &disk["metadata"]["name"];
            let is_bound = |claim: &&Value| {
                claim["spec"]["volumeName"] == *name && claim["status"]["phase"] == "Bound"
            };
            let bound = claims.iter().filter(is_bound).count();
            assert!(
                bound < 2,
                "{name} is bound to {bound} claims:\n{}",
                self.told()
            );
        }
    }

    /// Checks that no write takes a volume from a claim that may use it.
    pub(super) fn check_writes(&self, batch: &Batch) {
        for write in batch.writes.iter().filter(|write| write.target.kind == PV) {
            let takes = match &write.action {
                Action::Delete => true,
                Action::Update(_, change) => frees(change),
                _ => false,
            };
            let Some(disk) = self
                .server
                .object(PV, "", &write.target.name)
                .filter(|_| takes)
            else {
                continue;
            };
            let (name, uid) = (&disk["metadata"]["name"], &disk["spec"]["claimRef"]["uid"]);
            let may_use = |claim: &Value| {
                let named = &claim["spec"]["volumeName"];
                !uid.is_null()
                    && claim["metadata"]["uid"] == *uid
                    && (named.is_null() || named == name)
            };
            let is_current = match &write.action {
                // An update of an older version is refused.
                Action::Update(version, _) => {
                    disk["metadata"]["resourceVersion"] == version.as_str()
                }
                _ => true,
            };
            let user = self.server.objects(PVC).into_iter().find(may_use);
            if let Some(user) = user.filter(|_| is_current) {
                panic!("{name} is taken from {user}:\n{}", self.told());
            }
        }
    }
}
