use flyball_cache::Catalogue;
use flyball_serving::Metrics;
use flyball_traces::{Change, ChangeType, SpanOptions, Target, Tracer, TracingOptions};
use flyball_types::description::DeltaType;
use flyball_writer::Touched;

use super::*;

fn kind(name: &str) -> Kind {
    let group = if name == "Pod" { "" } else { "apps" };
    Kind::new(group, "v1", name)
}

/// The histories of plugins whose keys are objects of a kind.
struct Cluster(Vec<PluginHistory>);

impl Cluster {
    fn new(plugins: &[(&str, &str)]) -> Self {
        let plugins = plugins.iter().map(|(plugin, own)| PluginHistory {
            plugin: (*plugin).to_owned(),
            history: Arc::default(),
            kinds: vec![("q".into(), kind(own))],
        });
        Self(plugins.collect())
    }

    /// Adds a reconcile that is queued at `at`, in milliseconds, and takes two.
    fn reconciles(&self, plugin: &str, at: u64, key: &str, why: Reason, wrote: &[(&str, &str)]) {
        self.add(plugin, entry(at, key, why, wrote));
    }

    fn add(&self, plugin: &str, entry: HistoryEntry) {
        let of = self.0.iter().find(|of| of.plugin == plugin);
        of.expect("a plugin").history.add(entry);
    }

    /// Returns each step of the chain as `plugin key`, with the step that caused it.
    fn chain(&self, object: &str) -> Vec<(String, Option<usize>, Option<Link>)> {
        let served = Catalogue::default();
        let chain = chain(&self.0, &ObjectName::parse(object, &served));
        assert!(!chain.truncated);
        let told = |step: &Step| {
            let Reconciled { plugin, key, .. } = &step.reconciled;
            (format!("{plugin} {key}"), step.from, step.link)
        };
        chain.steps.iter().map(told).collect()
    }
}

/// A reconcile that is queued at `at`, in milliseconds, and takes two.
fn entry(at: u64, key: &str, why: Reason, wrote: &[(&str, &str)]) -> HistoryEntry {
    let wrote = wrote.iter().map(|(name, key)| Touched {
        verb: "update",
        kind: kind(name),
        subresource: String::new(),
        key: (*key).to_owned(),
    });
    HistoryEntry {
        at: UNIX_EPOCH + Duration::from_millis(1_000_000 + at + 2),
        digest: "0123".into(),
        queue: "q".into(),
        key: key.into(),
        why,
        coalesced: 0,
        attempt: 0,
        queued: Duration::from_millis(1),
        took: Duration::from_millis(1),
        failed: None,
        wrote: wrote.collect(),
        trace: None,
        cause: None,
    }
}

fn changed(name: &str, object: &str) -> Reason {
    Reason::Delta {
        kind: Arc::new(kind(name)),
        object: object.into(),
        delta: DeltaType::Modified,
    }
}

fn rollout() -> Cluster {
    let cluster = Cluster::new(&[("deployment", "Deployment"), ("replicaset", "ReplicaSet")]);
    let (web, set, pod) = ("demo/web", "demo/web-1", "demo/web-1-a");
    let of_user = changed("Deployment", web);
    cluster.reconciles("deployment", 0, web, of_user, &[("ReplicaSet", set)]);
    let why = changed("ReplicaSet", set);
    cluster.reconciles("replicaset", 5, set, why, &[("Pod", pod)]);
    let why = changed("Pod", pod);
    cluster.reconciles("replicaset", 20, set, why, &[("ReplicaSet", set)]);
    let why = changed("ReplicaSet", set);
    cluster.reconciles("deployment", 30, web, why, &[]);
    cluster
}

#[test]
fn a_rollout_is_one_chain_across_plugins_whichever_object_is_asked_for() {
    let cluster = rollout();
    let write = Some(Link::Write);
    let expected = [
        ("deployment demo/web".to_owned(), None, None),
        ("replicaset demo/web-1".to_owned(), Some(0), write),
        ("replicaset demo/web-1".to_owned(), Some(1), write),
        ("deployment demo/web".to_owned(), Some(2), write),
    ];
    for object in [
        "Deployment/demo/web",
        "ReplicaSet/demo/web-1",
        "Pod/demo/web-1-a",
    ] {
        assert_eq!(cluster.chain(object), expected, "{object}");
    }
    assert_eq!(cluster.chain("Pod/demo/other"), []);
}

#[test]
fn a_change_long_after_a_write_or_before_it_is_no_effect_of_it() {
    let cluster = rollout();
    let late = 32 + LAG.as_millis() as u64;
    for at in [late, late + 60_000] {
        let why = changed("Pod", "demo/web-1-a");
        cluster.reconciles("replicaset", at, "demo/web-1", why, &[]);
    }
    let chain = cluster.chain("Pod/demo/web-1-a");
    assert_eq!(chain.len(), 6, "both are of the pod");
    assert_eq!((chain[4].1, chain[5].1), (None, None));
    assert_eq!(cluster.chain("Deployment/demo/web").len(), 4);
}

#[test]
fn the_last_of_several_writes_is_the_cause() {
    let cluster = Cluster::new(&[("a", "Deployment"), ("b", "ReplicaSet")]);
    for at in [0, 10] {
        let why = changed("Deployment", "demo/web");
        cluster.reconciles("a", at, "demo/web", why, &[("Pod", "demo/p")]);
    }
    cluster.reconciles("b", 20, "demo/set", changed("Pod", "demo/p"), &[]);
    let chain = cluster.chain("ReplicaSet/demo/set");
    assert_eq!(chain.len(), 2, "{chain:?}");
    assert_eq!(chain[1].1, Some(0));
    let chain = cluster.chain("Deployment/demo/web");
    assert_eq!(chain[2].1, Some(1), "{chain:?}");
}

#[test]
fn a_retry_follows_the_attempt_before_it_and_a_requeue_who_asked_for_it() {
    let cluster = Cluster::new(&[("a", "Deployment")]);
    let why = changed("Deployment", "demo/web");
    cluster.reconciles("a", 0, "demo/web", why, &[]);
    cluster.reconciles("a", 60_000, "demo/web", Reason::Retry, &[]);
    let by = "demo/web".into();
    cluster.reconciles("a", 90_000, "demo/other", Reason::Requeued { by }, &[]);
    let chain = cluster.chain("Deployment/demo/other");
    let links: Vec<_> = chain.iter().map(|(_, from, link)| (*from, *link)).collect();
    assert_eq!(
        links,
        [
            (None, None),
            (Some(0), Some(Link::Retry)),
            (Some(1), Some(Link::Requeue))
        ]
    );
}

#[test]
fn a_long_chain_has_its_last_steps() {
    let cluster = Cluster::new(&[("a", "Deployment")]);
    for at in 0..MOST as u64 + 10 {
        let why = changed("Deployment", "demo/web");
        cluster.reconciles("a", at * 60_000, "demo/web", why, &[]);
    }
    let served = Catalogue::default();
    let chain = chain(&cluster.0, &ObjectName::parse("demo/web", &served));
    assert_eq!((chain.steps.len(), chain.truncated), (MOST, true));
    let first = chain.steps[0].start_ms;
    assert_eq!(first, 1_000_000.0 + 10.0 * 60_000.0 + 1.0);
}

/// A tracer that records everything, for a collector that is not there.
fn tracer() -> Tracer {
    let options = TracingOptions {
        endpoint: "127.0.0.1:1".to_owned(),
        sampling_rate_per_million: 1_000_000,
    };
    let started = flyball_traces::start(&options, "flyball", "1", "host", &Metrics::new());
    started.expect("it starts").0
}

/// The trace of a change of the pod to this version.
fn of_pod(tracer: &Tracer, version: u64, is_of_intent: bool) -> Option<Trace> {
    tracer.change(&Change {
        change_type: ChangeType::Modified,
        kind: "Pod",
        namespace: "demo",
        name: "p",
        uid: "1",
        versions: &[version],
        is_of_intent,
    })
}

#[tokio::test]
async fn a_trace_tells_which_reconcile_caused_another_and_nothing_is_inferred() {
    let tracer = tracer();
    let span = tracer.begin(SpanOptions::named("reconcile").of_work());
    let work = span.trace().cloned().expect("tracing is on");
    let target = Target {
        kind: "Pod".into(),
        namespace: "demo".into(),
        name: "p".into(),
        is_prefix: false,
    };
    let written = work.writing(target);
    written.acknowledged("1", Some(5), false);

    let cluster = Cluster::new(&[("a", "Deployment"), ("b", "ReplicaSet")]);
    let why = changed("Deployment", "demo/web");
    let writes = entry(0, "demo/web", why, &[("Pod", "demo/p")]);
    let trace = Some(work);
    cluster.add("a", HistoryEntry { trace, ..writes });
    let reconciles = |at, key, cause| {
        let why = changed("Pod", "demo/p");
        cluster.add(
            "b",
            HistoryEntry {
                cause,
                ..entry(at, key, why, &[])
            },
        );
    };
    // A user's change in the same moment, and one that was held up for longer than inference goes.
    reconciles(1, "demo/of-user", of_pod(&tracer, 4, true));
    let late = 60_000 + LAG.as_millis() as u64;
    reconciles(late, "demo/of-write", of_pod(&tracer, 5, false));
    // Somebody else reports the status of the object that was written.
    reconciles(late + 10, "demo/of-status", of_pod(&tracer, 6, false));

    let chain = cluster.chain("Deployment/demo/web");
    let write = Some(Link::Write);
    let expected = [
        ("a demo/web".to_owned(), None, None),
        ("b demo/of-write".to_owned(), Some(0), write),
        ("b demo/of-status".to_owned(), Some(0), write),
    ];
    assert_eq!(chain, expected);
    let chain = cluster.chain("ReplicaSet/demo/of-user");
    assert_eq!(chain, [("b demo/of-user".to_owned(), None, None)]);
}
