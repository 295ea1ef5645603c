//! Traces as a collector receives them.

use flyball_fakes::collector::{CollectedSpan, FakeCollector, trees};
use flyball_serving::Metrics;
use flyball_traces::{
    Change, ChangeType, Exporting, SpanOptions, Target, Trace, Tracer, TracingOptions, current,
    within,
};

const ALL: u32 = 1_000_000;

fn start(collector: &FakeCollector, rate: u32, metrics: &Metrics) -> (Tracer, Exporting) {
    let options = TracingOptions {
        endpoint: collector.endpoint().to_owned(),
        sampling_rate_per_million: rate,
    };
    flyball_traces::start(&options, "flyball", "1.2.3", "host_1", metrics).expect("it starts")
}

/// A change of what is wanted of an object, to this version.
fn change<'a>(
    change_type: ChangeType,
    kind: &'a str,
    name: &'a str,
    versions: &'a [u64],
) -> Change<'a> {
    Change {
        change_type,
        kind,
        namespace: "demo",
        name,
        uid: name,
        versions,
        is_of_intent: true,
    }
}

fn target(kind: &str, name: &str, is_prefix: bool) -> Target {
    Target {
        kind: kind.into(),
        namespace: "demo".into(),
        name: name.into(),
        is_prefix,
    }
}

/// Reconciles because of `cause`: creates an object, which the server gives a version.
fn create(cause: &Trace, kind: &str, name: &str, version: u64) {
    let reconcile = cause.go_on(SpanOptions::named("reconcile"));
    let reconcile = reconcile.trace().expect("tracing is on");
    let write = reconcile.begin(SpanOptions::named("create"));
    let write = write.trace().expect("tracing is on");
    let writing = write.writing(target(kind, name, false));
    writing.acknowledged(name, Some(version), false);
}

fn named<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let found = spans.iter().find(|span| span.name == name);
    found.expect("there is such a span")
}

#[tokio::test]
async fn a_change_and_all_that_it_causes_is_one_trace() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, ALL, &metrics);
    let edited = change(ChangeType::Modified, "Deployment.apps", "web", &[7]);
    let cause = tracer.change(&edited).expect("tracing is on");
    create(&cause, "ReplicaSet.apps", "web-1", 8);
    let created = change(ChangeType::Added, "ReplicaSet.apps", "web-1", &[8]);
    let cause = tracer.change(&created).expect("tracing is on");
    create(&cause, "Pod", "web-1-a", 9);
    let created = change(ChangeType::Added, "Pod", "web-1-a", &[9]);
    tracer.change(&created);
    let reported = Change {
        is_of_intent: false,
        ..change(ChangeType::Modified, "Pod", "web-1-a", &[10])
    };
    tracer.change(&reported);
    exporting.end().await;

    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == spans[0].trace));
    assert_eq!(
        trees(&spans),
        "- change Deployment
  - reconcile
    - create
      - change ReplicaSet
        - reconcile
          - create
            - change Pod
            - change Pod
"
    );
    let first = named(&spans, "change Deployment");
    assert_eq!(first.service, "flyball");
    let attribute = |name: &str| first.attributes[name].as_str();
    assert_eq!(attribute("k8s.namespace.name"), "demo");
    assert_eq!(attribute("k8s.object.name"), "web");
    assert_eq!(attribute("k8s.object.resource_version"), "7");
    assert_eq!(attribute("flyball.change"), "modified");
    let exported = format!("flyball_trace_spans_total{{result=\"exported\"}} {}\n", 8);
    assert!(metrics.render().contains(&exported));
}

#[tokio::test]
async fn a_new_intent_of_somebody_else_begins_a_trace() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, ALL, &metrics);
    let edited = change(ChangeType::Modified, "Deployment.apps", "web", &[7]);
    let cause = tracer.change(&edited).expect("tracing is on");
    create(&cause, "Pod", "a", 8);
    let deleted = change(ChangeType::Deleted, "Pod", "a", &[9]);
    tracer.change(&deleted);
    let edited = change(ChangeType::Modified, "Deployment.apps", "web", &[10]);
    tracer.change(&edited);
    exporting.end().await;
    assert_eq!(
        trees(&collector.spans()),
        "- change Deployment
- change Deployment
  - reconcile
    - create
- change Pod
"
    );
}

#[tokio::test]
async fn each_watch_that_reports_a_change_gets_the_same_span() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, ALL, &metrics);
    let added = change(ChangeType::Added, "Pod", "a", &[5]);
    // The other watch lagged behind, and reports two changes as one.
    let merged = change(ChangeType::Added, "Pod", "a", &[5, 4]);
    for change in [&added, &merged] {
        let cause = tracer.change(change).expect("tracing is on");
        drop(cause.begin(SpanOptions::named("reconcile")));
    }
    exporting.end().await;
    let tree = "- change Pod\n  - reconcile\n  - reconcile\n";
    assert_eq!(trees(&collector.spans()), tree);
}

#[tokio::test]
async fn a_change_may_be_reported_before_its_write_is_answered() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, ALL, &metrics);
    let write = tracer.begin(SpanOptions::named("create"));
    let trace = write.trace().expect("tracing is on");
    let writing = trace.writing(target("Pod", "web-", true));
    let other = change(ChangeType::Added, "Pod", "db-0", &[5]);
    tracer.change(&other);
    let created = change(ChangeType::Added, "Pod", "web-0", &[6]);
    tracer.change(&created);
    writing.acknowledged("web-0", Some(6), false);
    // The same change again, now that the answer is there.
    tracer.change(&created);
    drop(write);
    exporting.end().await;
    let tree = "- change Pod\n- create\n  - change Pod\n";
    assert_eq!(trees(&collector.spans()), tree);
}

#[tokio::test]
async fn what_a_trace_that_is_not_recorded_causes_is_not_recorded_either() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, 0, &metrics);
    let edited = change(ChangeType::Modified, "Deployment.apps", "web", &[7]);
    let cause = tracer.change(&edited).expect("tracing is on");
    create(&cause, "ReplicaSet.apps", "web-1", 8);
    let created = change(ChangeType::Added, "ReplicaSet.apps", "web-1", &[8]);
    let caused = tracer.change(&created).expect("tracing is on");
    assert_eq!(caused.id(), cause.id());
    assert_eq!(caused.traceparent(), None);
    exporting.end().await;
    assert_eq!(collector.spans(), []);
}

#[tokio::test]
async fn a_request_continues_the_trace_that_its_task_works_for() {
    let (collector, metrics) = (FakeCollector::start().await, Metrics::new());
    let (tracer, exporting) = start(&collector, ALL, &metrics);
    assert!(current().is_none());
    let reconcile = tracer.begin(SpanOptions::named("reconcile"));
    let work = async {
        let trace = current().expect("the task works for a trace");
        let mut request = trace.begin(SpanOptions::request("PUT"));
        request.fail(|| "the object has changed".to_owned());
        request.trace().and_then(Trace::traceparent)
    };
    let sent = within(reconcile.trace().cloned(), work).await;
    drop(reconcile);
    exporting.end().await;
    let spans = collector.spans();
    let request = named(&spans, "PUT");
    let expected = format!("00-{}-{}-01", request.trace, request.id);
    assert_eq!(sent.expect("it is recorded"), expected.as_str());
    assert_eq!(request.error.as_deref(), Some("the object has changed"));
    assert_eq!(request.parent, named(&spans, "reconcile").id);
}
