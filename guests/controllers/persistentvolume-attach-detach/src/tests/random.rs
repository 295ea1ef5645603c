//! Random histories: pods come and go, kubelets and attachers do their parts or fail, nodes fall silent or are deleted, and
//! the controller is restarted. Whatever happens, no volume is taken from a node that uses it, and in the end each volume is
//! where it is needed.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const HISTORIES: u64 = 60;
const STEPS: usize = 80;
const NODES: [&str; 3] = ["a", "b", "c"];
/// The last one may be attached to several nodes.
const DISKS: [&str; 3] = ["x", "y", "shared"];
const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];
/// The seconds that a node which is not ready has for unmounting a volume.
const UNMOUNT: i64 = 360;

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

struct History {
    cluster: Cluster,
    random: Random,
    /// When a pod at a node last needed a volume, in seconds.
    needed: BTreeMap<(String, String), i64>,
    /// The volumes that deleted nodes used.
    deleted: BTreeMap<&'static str, BTreeSet<String>>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut objects: Vec<Value> = NODES.map(node).into();
        for disk in DISKS {
            let mode = if disk == "shared" {
                "ReadWriteMany"
            } else {
                "ReadWriteOnce"
            };
            objects.extend([volume(disk, &[mode]), claim(disk)]);
        }
        Self {
            cluster: Cluster::with(objects),
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            needed: BTreeMap::new(),
            deleted: BTreeMap::new(),
        }
    }

    fn now(&self) -> i64 {
        self.cluster.host().now().seconds
    }

    /// The volumes that pods of a node need.
    fn desired(&self, node: &str) -> BTreeSet<String> {
        let pods = self.cluster.objects(POD).into_iter();
        pods.filter(|pod| pod["spec"]["nodeName"] == node)
            .map(|pod| {
                let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
                claim.as_str().unwrap().to_owned()
            })
            .collect()
    }

    /// The handles of the volumes in a list of a node's status.
    fn listed(&self, node: &str, list: &str) -> BTreeSet<String> {
        let node = self.cluster.object(NODE, "", node).unwrap_or_default();
        let names = node["status"][list].as_array();
        let handle = |entry: &Value| {
            let name = entry["name"].as_str().or(entry.as_str()).unwrap();
            name.rsplit('^').next().unwrap().to_owned()
        };
        names.into_iter().flatten().map(handle).collect()
    }

    fn is_ready(&self, node: &str) -> bool {
        let node = self.cluster.object(NODE, "", node).unwrap_or_default();
        node["status"]["conditions"][0]["status"] == "True"
    }

    fn step(&mut self) {
        let node = self.random.of(&NODES);
        match self.random.below(16) {
            0 | 1 => self.create_pod(node),
            2 => self.delete_pod(),
            3 | 4 => self.sync_kubelet(node),
            5 | 6 => self.answer_all(),
            7 => {
                let is_ready = self.random.below(2) == 0;
                if !self.deleted.contains_key(node) {
                    set_ready(&self.cluster, node, is_ready);
                }
            }
            8 => restart(&self.cluster, &NODES, &DISKS),
            9 => {
                let seconds = self.random.of(&[1, 10, 100, 400]);
                self.note_needed();
                advance(&self.cluster, seconds);
            }
            10 => {
                let (verb, kind) = self.random.of(&[
                    ("patch", "v1/Node/status"),
                    ("create", ATTACHMENT),
                    ("delete", ATTACHMENT),
                    ("get", NODE),
                ]);
                let error = refusal(500, "InternalError");
                self.cluster.fail(verb, kind, error);
            }
            11 => self.delete_or_create(node),
            _ => self.pass(node),
        }
        self.note_needed();
    }

    fn note_needed(&mut self) {
        let now = self.now();
        for node in NODES {
            for disk in self.desired(node) {
                self.needed.insert((node.into(), disk), now);
            }
        }
    }

    fn create_pod(&mut self, node: &str) {
        let (name, disk) = (self.random.of(&PODS), self.random.of(&DISKS));
        if self.cluster.object(POD, "team", name).is_none() {
            self.cluster.put(pod(name, node, &[disk]));
        }
    }

    fn delete_pod(&mut self) {
        let name = self.random.of(&PODS);
        self.cluster.remove(POD, "team", name);
    }

    /// Deletes a node, or creates it again.
    fn delete_or_create(&mut self, name: &'static str) {
        if self.deleted.remove(name).is_some() {
            self.cluster.put(node(name));
            return;
        }
        let used = self.listed(name, "volumesInUse");
        self.deleted.insert(name, used);
        delete_node(&self.cluster, name);
    }

    /// A kubelet mounts the volumes that its pods need and its node has, and unmounts all others. It is silent if its node
    /// is not ready.
    fn sync_kubelet(&self, node: &str) {
        if self.is_ready(node) {
            let attached = self.listed(node, "volumesAttached");
            let desired = self.desired(node);
            let used: Vec<&str> = attached
                .intersection(&desired)
                .map(|disk| &**disk)
                .collect();
            mount(&self.cluster, node, &used);
        }
    }

    /// An attacher attaches and detaches, and sometimes fails.
    fn answer_all(&mut self) {
        for attachment in self.cluster.objects(ATTACHMENT) {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let spec = &attachment["spec"];
            let disk = text(&spec["source"]["persistentVolumeName"]);
            let node = text(&spec["nodeName"]);
            let is_deleting = attachment["metadata"]["deletionTimestamp"].is_string();
            match (is_deleting, self.random.below(4)) {
                (true, 0) => {}
                (true, _) => release(&self.cluster, &disk, &node),
                (false, 0) => {
                    let status = json!({"attached": false, "attachError": {"message": "no"}});
                    if attachment["status"]["attached"] != true {
                        answer(&self.cluster, &disk, &node, status);
                    }
                }
                (false, _) => {
                    answer(&self.cluster, &disk, &node, json!({"attached": true}));
                    hold(&self.cluster, &disk, &node);
                }
            }
        }
    }

    /// Reconciles a node, and checks what was written.
    fn pass(&mut self, node: &str) {
        self.note_needed();
        forget(&self.cluster);
        pass(&self.cluster, node);
        for write in self.cluster.writes() {
            if write.kind != ATTACHMENT || write.error.is_some() {
                continue;
            }
            let of = |disk: &&&str| attachment_name(disk, node) == write.name;
            let disk = *DISKS.iter().find(of).expect("a volume of the pass's node");
            match &*write.verb {
                "delete" => self.check_deletion(node, disk),
                _ => self.check_creation(node, disk),
            }
        }
    }

    /// A volume that is detached is not reported, and not in use unless the node's time is over.
    fn check_deletion(&self, node: &str, disk: &str) {
        assert!(!self.desired(node).contains(disk), "{node} needs {disk}");
        let attached = self.listed(node, "volumesAttached");
        assert!(!attached.contains(disk), "{node} reports {disk}");
        let mut used = self.listed(node, "volumesInUse");
        used.extend(self.deleted.get(node).into_iter().flatten().cloned());
        if used.contains(disk) {
            let last = self.needed.get(&(node.to_owned(), disk.to_owned()));
            let unused = self.now() - last.copied().unwrap_or(0);
            assert!(
                !self.is_ready(node) && unused >= UNMOUNT,
                "{node} uses {disk}"
            );
        }
    }

    /// A volume that one node at a time may have is not attached while another one reports it.
    fn check_creation(&self, node: &str, disk: &str) {
        assert!(self.desired(node).contains(disk), "{node} needs no {disk}");
        for other in NODES.iter().filter(|other| **other != node) {
            let attached = self.listed(other, "volumesAttached");
            assert!(
                disk == "shared" || !attached.contains(disk),
                "{other} has {disk}"
            );
        }
    }

    /// Ends the contention for volumes, and lets everybody do their parts until nothing changes any more.
    fn settle(&mut self) {
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for pod in self.cluster.objects(POD) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let disk = text(&pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]);
            let node = text(&pod["spec"]["nodeName"]);
            let owner = owners.entry(disk.clone()).or_insert_with(|| node.clone());
            if disk != "shared" && *owner != node {
                self.cluster
                    .remove(POD, "team", &text(&pod["metadata"]["name"]));
            }
        }
        for node in NODES {
            if self.deleted.contains_key(node) {
                self.delete_or_create(node);
            }
            set_ready(&self.cluster, node, true);
        }
        for _ in 0..12 {
            for node in NODES {
                self.pass(node);
                self.sync_kubelet(node);
            }
            self.answer_all();
            self.note_needed();
            advance(&self.cluster, 130);
        }
        // The last failures of the attacher.
        self.random = Random(2);
        for _ in 0..8 {
            self.answer_all();
            for node in NODES {
                self.pass(node);
                self.sync_kubelet(node);
            }
            self.note_needed();
            advance(&self.cluster, 130);
        }
    }
}

#[test]
fn no_volume_is_taken_from_a_node_that_uses_it_and_all_end_where_they_are_needed() {
    for seed in 1..=HISTORIES {
        let mut history = History::new(seed);
        (0..STEPS).for_each(|_| history.step());
        history.settle();
        let mut expected = Vec::new();
        for node in NODES {
            let desired = history.desired(node);
            let attached = history.listed(node, "volumesAttached");
            assert_eq!(attached, desired, "history {seed}, node {node}");
            expected.extend(desired.iter().map(|disk| format!("{node} {disk}")));
        }
        expected.sort();
        assert_eq!(attachments(&history.cluster), expected, "history {seed}");
    }
}
