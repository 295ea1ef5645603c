//! The monitor: looks at the health of all nodes at once, periodically.
//!
//! A pass reads a row of each node and of each lease, marks silent nodes, and decides about taints, which others write
//! ([`wanted`](crate::wanted)). [`pass`] names the steps.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: monitorNodeHealth, processTaintBaseEviction,
//! markNodeForTainting, markNodeAsReachable, classifyNodes, addPodEvictorForNewZone.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use flyball_sdk::ObjectReference;
use flyball_sdk::prelude::*;
use flyball_sdk::{info, warning};

use crate::PODS;
use crate::disruption::{self, Change, Count, Disruption, ZoneState};
use crate::last_pass::LastPass;
use crate::leases::{self, CIRCUIT_BREAKER, Verdict};
use crate::limiter::Waiting;
use crate::observe::{Observation, Observer, digest, millis};
use crate::settings::Settings;
use crate::taints::{NOT_READY, UNREACHABLE, evicts, of_status};
use crate::unknown::{self, unknown};
use crate::views::{Health, LEASES, Lease, Node, UNKNOWN};
use crate::wanted::{Handout, Wanted};
use crate::zone::Zone;

/// The gauges of zones.
pub const HEALTH: &str = "node_collector_zone_health";
pub const SIZE: &str = "node_collector_zone_size";
pub const UNHEALTHY: &str = "node_collector_unhealthy_nodes_in_zone";
/// The counter of nodes that got a `NoExecute` taint.
pub const EVICTIONS: &str = "node_collector_evictions_total";
/// The histogram of the duration of updates of nodes, in seconds.
pub const NODE_DURATION: &str = "node_collector_update_node_health_duration_seconds";
/// The histogram of how long a pass took, in seconds.
pub const DURATION: &str = "node_collector_update_all_nodes_health_duration_seconds";

/// The most nodes in one batch of writes.
const BATCH: usize = 50;
/// The most nodes that are marked, and the most whose taints change, in a pass; the next pass has the others. A pass
/// must not take longer than a call may, under the rate limit of kube-controller-manager's default.
const WRITES: usize = 1000;

/// Wakes the nodes and zones about which the pass before has decided, and looks at all nodes when it is time.
///
/// # Errors
/// A read failed, or the memo is full. Failed writes are logged; the next pass tries again.
pub fn reconcile(host: &Host) -> Result<Outcome, Error> {
    let settings = Settings::read(host)?;
    if let Some(decided) = Handout::take(host) {
        decided.wake(host)?;
        // Unless the ticker has enqueued the key meanwhile, the previous pass has just ended.
        let since = millis(host.now()).checked_sub(decided.begun);
        if since.is_some_and(|since| Duration::from_millis(since) < settings.period / 2) {
            return Ok(Outcome::Done);
        }
    }
    pass(host, settings)
}

/// Looks at all nodes.
fn pass(host: &Host, settings: Settings) -> Result<Outcome, Error> {
    let begun = host.now();
    let before = LastPass::recall(host);
    let nodes = host.list::<Health>().all()?;
    if before.outage && nodes.first().is_some_and(|node| !is_reachable(host, node)) {
        return Ok(Outcome::Done);
    }
    let mut pass = Pass {
        host,
        settings,
        begun,
        nodes: observe(host, &before, &nodes, begun, &settings)?,
        written: Duration::ZERO,
        is_slow: false,
        outage: false,
        is_stale: false,
    };
    let added = report_nodes(host, &before, &nodes);
    pass.mark_overdue();
    let mut kept = LastPass {
        outage: pass.outage,
        ..before
    };
    let mut decided = Handout {
        begun: millis(begun),
        ..Handout::default()
    };
    if !pass.outage && !pass.is_stale {
        let is_dark = pass.update_zones(&mut kept);
        decided.nodes = pass.decide_taints(&added, is_dark)?;
        decided.zones = pass.update_waiting(&mut kept, is_dark)?;
    }
    let took = host.now().since(begun);
    // A process that is suspended while it computes has been suspended for almost all of that time.
    let computed = took.saturating_sub(pass.written);
    kept.ended = match computed > settings.longest_step() {
        true => 0,
        false => millis(begun + took),
    };
    kept.was_slow = pass.is_slow;
    kept.nodes = pass.nodes.into_iter().map(|one| one.seen).collect();
    kept.store(host)?;
    host.metrics().observe(DURATION, &[], took.as_secs_f64());
    if decided.is_empty() {
        return Ok(Outcome::Done);
    }
    decided.store(host)?;
    Ok(Outcome::RequeueAfter(Duration::ZERO))
}

/// Whether the API server answers a read of this node.
fn is_reachable(host: &Host, node: &Health) -> bool {
    match host.live().get::<Node>("", &node.name) {
        Ok(_) => true,
        Err(error) => error.api().is_some_and(|error| error.status < 500),
    }
}

/// Observes all nodes. After an interruption or an outage all are heard of now. After a slow pass none is overdue for a
/// short time, in which the caches catch up if the process was suspended.
fn observe<'a>(
    host: &Host,
    before: &LastPass,
    nodes: &'a [Health],
    now: Time,
    settings: &Settings,
) -> Result<Vec<Observed<'a>>, Error> {
    let leases = host.list::<Lease>().namespace(LEASES).all()?;
    let is_fresh = before.nodes.is_empty();
    let begins_anew = before.outage || before.is_interrupted(now, settings);
    if begins_anew && !is_fresh {
        info!(
            host,
            "the monitor was interrupted: the silence of all nodes is measured from now"
        );
    }
    let known = match begins_anew {
        true => &[][..],
        false => &before.nodes,
    };
    let observer = Observer::new(known, &leases, now);
    let observe = |node: &'a Health| {
        let mut seen = observer.observe(node);
        if before.was_slow {
            let grace = settings.grace_of(node.ready.is_some());
            let earliest = now - grace.saturating_sub(settings.longest_step());
            seen.heard = seen.heard.max(millis(earliest));
        }
        Observed {
            node,
            zone: Zone::of(node),
            seen,
            ready: node.ready.clone(),
        }
    };
    Ok(nodes.iter().map(observe).collect())
}

/// Records nodes that were added and removed since the last pass. Returns the names of the added ones.
fn report_nodes<'a>(host: &Host, before: &LastPass, nodes: &'a [Health]) -> HashSet<&'a str> {
    let emit = |name: &str, uid: &str, reason: &str, text: String| {
        let about = reference(name, uid);
        let message = format!("Node {name} event: {text}");
        host.emit(Event::normal(&about, reason, &message));
    };
    let known: HashSet<&str> = before.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut added = HashSet::new();
    for node in nodes
        .iter()
        .filter(|node| !known.contains(node.name.as_str()))
    {
        let name = &node.name;
        let text = format!("Registered Node {name} in Controller");
        emit(name, &node.uid, "RegisteredNode", text);
        added.insert(name.as_str());
    }
    if known.len() + added.len() > nodes.len() {
        let present: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let is_gone = |node: &&Observation| !present.contains(node.name.as_str());
        for Observation { name, uid, .. } in before.nodes.iter().filter(is_gone) {
            let text = format!("Removing Node {name} from Controller");
            emit(name, uid, "RemovingNode", text);
        }
    }
    added
}

fn reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        kind: Node::KIND.into(),
        namespace: String::new(),
        name: name.into(),
        uid: uid.into(),
        resource_version: String::new(),
    }
}

/// A node, with the observations of a pass.
struct Observed<'a> {
    node: &'a Health,
    zone: Zone,
    seen: Observation,
    /// The status of the condition `Ready`, as it is or should be.
    ready: Option<String>,
}

/// The state of one pass.
struct Pass<'a> {
    host: &'a Host<'a>,
    settings: Settings,
    begun: Time,
    nodes: Vec<Observed<'a>>,
    /// How long the writes took.
    written: Duration,
    /// Whether a batch of writes took so long that the process may have been suspended. It may also have waited for the
    /// rate limiter.
    is_slow: bool,
    /// Whether the API server could not be reached.
    outage: bool,
    /// Whether the API server has heard of a node that seems to be silent. Nothing is decided then.
    is_stale: bool,
}

impl Pass<'_> {
    /// Marks the nodes that have been silent for too long.
    fn mark_overdue(&mut self) {
        let (host, settings, begun) = (self.host, self.settings, self.begun);
        let is_overdue = |one: &&mut Observed| {
            one.node.ready.as_deref() != Some(UNKNOWN)
                && one.seen.is_overdue(one.node, &settings, begun)
        };
        let mut overdue: Vec<&mut Observed> = self.nodes.iter_mut().filter(is_overdue).collect();
        // All of them count for the states of zones, whether they are written in this pass or not.
        for one in &mut overdue {
            one.ready = Some(UNKNOWN.into());
        }
        let verifies = host.feature_enabled(CIRCUIT_BREAKER);
        // Each node then takes two requests.
        overdue.truncate(if verifies { WRITES / 2 } else { WRITES });
        for nodes in overdue.chunks_mut(BATCH) {
            let begun = host.now();
            if verifies {
                match verify(host, nodes) {
                    Verified::Silent => {}
                    Verified::Stale => {
                        self.is_stale = true;
                        return;
                    }
                    Verified::Outage => {
                        self.outage = true;
                        return;
                    }
                }
            }
            self.outage = mark(host, nodes);
            let took = host.now().since(begun);
            for _ in nodes.iter() {
                let each = took.as_secs_f64() / nodes.len() as f64;
                host.metrics().observe(NODE_DURATION, &[], each);
            }
            self.written += took;
            self.is_slow |= took > settings.longest_step();
            if self.outage || self.is_slow {
                return;
            }
        }
    }

    /// Updates the states of the zones. Returns whether no node of any zone is ready.
    fn update_zones(&mut self, kept: &mut LastPass) -> bool {
        let (host, settings) = (self.host, &self.settings);
        let mut zones: BTreeMap<Zone, ZoneState> = kept.zones.drain(..).collect();
        let present = self.nodes.iter().map(|one| &one.zone);
        for zone in disruption::add_zones(&mut zones, present, settings) {
            host.metrics().add(EVICTIONS, &[&zone.label()], 0.0);
        }
        let mut counts: BTreeMap<Zone, Count> = BTreeMap::new();
        for one in self.nodes.iter().filter(|one| !one.node.is_excluded()) {
            let count = counts.entry(one.zone.clone()).or_default();
            count.add(one.ready.as_deref() == Some("True"));
        }
        for zone in zones.keys() {
            report_zone(host, zone, counts.get(zone));
        }
        match disruption::update(&mut zones, &counts, settings) {
            Change::None => {}
            Change::Blackout => info!(host, "no node is ready: evictions are stopped"),
            Change::Recovery => {
                info!(host, "some nodes are ready again: evictions may begin");
                let now = millis(host.now());
                self.nodes.iter_mut().for_each(|one| one.seen.heard = now);
            }
        }
        let is_dark = |zone: &ZoneState| zone.state == Disruption::Full && zone.rate == 0.0;
        let are_dark = !zones.is_empty() && zones.values().all(is_dark);
        kept.zones = zones.into_iter().collect();
        are_dark
    }

    /// Decides about nodes with `NoExecute` taints: ready nodes lose them, and nodes whose state has changed swap them.
    /// If no node is ready, all nodes lose them. Returns the nodes whose taints change.
    fn decide_taints(&self, added: &HashSet<&str>, is_dark: bool) -> Result<Vec<String>, Error> {
        let decide = |one: &Observed| {
            let has = |key: &str| evicts(&one.node.taints, key);
            let has_any = has(NOT_READY) || has(UNREACHABLE);
            let (must_change, wanted) = match one.ready.as_deref() {
                _ if is_dark => (has_any, Wanted::Nothing),
                None => {
                    let is_added = added.contains(one.node.name.as_str());
                    (has_any && is_added, Wanted::Nothing)
                }
                Some("True") => (has_any, Wanted::OfCondition),
                // A status that no kubelet reports changes nothing.
                Some(status) => {
                    let is_wrong = of_status(status).is_some_and(|(_, opposite)| has(opposite));
                    (is_wrong, Wanted::OfCondition)
                }
            };
            must_change.then_some(wanted)
        };
        let mut changed = Vec::new();
        for one in &self.nodes {
            let Some(wanted) = decide(one) else {
                continue;
            };
            wanted.store(self.host, &one.node.name, &one.node.uid)?;
            changed.push(one.node.name.clone());
            if changed.len() == WRITES {
                break;
            }
        }
        Ok(changed)
    }

    /// Stores which nodes of each zone wait for a taint. Returns the zones that have some, or whose rate has changed.
    fn update_waiting(&self, kept: &mut LastPass, is_dark: bool) -> Result<Vec<Zone>, Error> {
        let host = self.host;
        let mut waiting: BTreeMap<Zone, Vec<String>> = BTreeMap::new();
        for one in &self.nodes {
            let wanted = one.ready.as_deref().and_then(of_status);
            let taints = &one.node.taints;
            let must_wait =
                |(key, opposite): (&str, &str)| !evicts(taints, key) && !evicts(taints, opposite);
            if !is_dark && wanted.is_some_and(must_wait) {
                let of_zone = waiting.entry(one.zone.clone()).or_default();
                of_zone.push(one.node.name.clone());
            }
        }
        if is_dark {
            // Zones without waiting nodes are stored too, so that their limiters note that the rate is zero.
            waiting.extend(
                kept.zones
                    .iter()
                    .map(|(zone, _)| (zone.clone(), Vec::new())),
            );
        }
        let memo = host.memo();
        for zone in &kept.waiting {
            if !waiting.contains_key(zone) {
                memo.remove(&Waiting::key(zone));
            }
        }
        kept.waiting = waiting.keys().cloned().collect();
        let rates: BTreeMap<&Zone, f64> = kept
            .zones
            .iter()
            .map(|(zone, state)| (zone, state.rate))
            .collect();
        let mut woken = Vec::new();
        for (zone, nodes) in waiting {
            let rate = rates.get(&zone).copied().unwrap_or(self.settings.rate);
            let (key, new) = (Waiting::key(&zone), Waiting { rate, nodes });
            let is_changed = memo.get::<Waiting>(&key).as_ref() != Some(&new);
            if is_changed {
                memo.put(&key, &new, "", Duration::ZERO)?;
            }
            if is_changed || !new.nodes.is_empty() {
                woken.push(zone);
            }
        }
        Ok(woken)
    }
}

/// What the API server says about nodes that seem to be silent.
enum Verified {
    /// They are silent. Those of which it is not known are left alone.
    Silent,
    /// It has heard of one of them.
    Stale,
    /// It can't be reached.
    Outage,
}

/// Asks the API server whether nodes are silent.
fn verify(host: &Host, nodes: &mut [&mut Observed]) -> Verified {
    let seen: Vec<(&str, u32)> = nodes
        .iter()
        .map(|one| (one.node.name.as_str(), one.seen.lease))
        .collect();
    let verdicts = leases::verify(host, &seen);
    if verdicts.contains(&Verdict::Alive) {
        return Verified::Stale;
    }
    let may_be_outage = verdicts.contains(&Verdict::Unknown { is_outage: true });
    if may_be_outage
        && nodes
            .first()
            .is_some_and(|one| !is_reachable(host, one.node))
    {
        return Verified::Outage;
    }
    for (one, verdict) in nodes.iter_mut().zip(verdicts) {
        if verdict != Verdict::Silent {
            one.ready.clone_from(&one.node.ready);
        }
    }
    Verified::Silent
}

/// Marks these nodes. Returns whether the API server can't be reached.
fn mark(host: &Host, nodes: &mut [&mut Observed]) -> bool {
    let now = host.now();
    let mut batch = host.tagged_batch();
    for one in nodes
        .iter_mut()
        .filter(|one| one.ready.as_deref() == Some(UNKNOWN))
    {
        let Ok(Some(node)) = host.get::<Node>("", &one.node.name) else {
            continue;
        };
        if let Some(conditions) = unknown(&node, now) {
            let patch = unknown::patch(&node, &conditions);
            batch = batch.with((one, node), patch);
        }
    }
    let mut has_failed = false;
    for ((one, node), result) in batch.run() {
        let Err(error) = result else {
            report_marked(host, one, &node);
            continue;
        };
        let name = &node.meta.name;
        warning!(host, "can't mark the silent node {name}: {error}");
        if error.status >= 500 {
            has_failed = true;
        } else {
            // The node may have changed because its kubelet has reported.
            one.ready.clone_from(&one.node.ready);
        }
    }
    has_failed
        && nodes
            .first()
            .is_some_and(|one| !is_reachable(host, one.node))
}

/// Records that a node was marked.
fn report_marked(host: &Host, one: &mut Observed, node: &Node) {
    let name = &node.meta.name;
    match one.node.ready.as_deref() {
        Some("True") => {
            let about = reference(name, &node.meta.uid);
            let message = format!("Node {name} status is now: NodeNotReady");
            host.emit(Event::normal(&about, "NodeNotReady", &message));
            let added = host.queue().add(PODS, &Key::new("", name));
            if let Err(error) = added {
                warning!(host, "can't mark the pods of node {name}: {error}");
            }
        }
        Some(_) => {}
        // The condition that the controller wrote itself isn't a sign of life.
        None => {
            let created = node.meta.creation_timestamp.map(|time| time.to_string());
            one.seen.heartbeat = digest(created.as_deref());
        }
    }
}

/// Sets the gauges of a zone; without nodes it is healthy.
fn report_zone(host: &Host, zone: &Zone, count: Option<&Count>) {
    let label = zone.label();
    let values = match count {
        Some(count) => (count.all() as f64, count.health(), count.unready as f64),
        None => (0.0, 100.0, 0.0),
    };
    for (gauge, value) in [(SIZE, values.0), (HEALTH, values.1), (UNHEALTHY, values.2)] {
        host.metrics().set(gauge, &[&label], value);
    }
}
