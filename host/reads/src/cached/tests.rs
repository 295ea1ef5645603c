//! Tests of a plugin's view of a cache that holds more: by its policy's namespaces, its declared fields and its own
//! writes.

use std::path::Path;

use flyball_fakes::source::{informer, informers};
use flyball_policy::Policy;
use serde_json::{Value, json};

use super::*;
use crate::lookup::Lookup;

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"), "resourceVersion": "5"},
        "spec": {"nodeName": "n", "hostname": "h"},
    })
}

/// The reads of a plugin that watches pods with these fields, under a policy with these `[[plugins.a.allow]]` entries.
async fn reads(allow: &str, fields: &[&str]) -> CachedReads {
    reads_of(vec![pod("demo", "web"), pod("other", "db")], allow, fields).await
}

/// A policy that lets the plugin watch pods, with these lines.
fn policy(allow: &str) -> Arc<PluginPolicy> {
    let text = format!("[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\"]\n{allow}");
    let policy = Policy::parse(Path::new("policy.toml"), &text).expect("a policy");
    Arc::new(policy.plugins["a"].clone())
}

async fn reads_of(pods: Vec<Value>, allow: &str, fields: &[&str]) -> CachedReads {
    let (informer, source) = informer(pods, fields).await;
    CachedReads::new(
        &Description::default(),
        policy(allow),
        [&informer],
        Arc::new(Discovery::new(source)),
        1 << 20,
        SharedReads::default(),
    )
}

fn count(reads: &CachedReads, namespace: &str) -> u32 {
    let query = Query {
        kind: "v1/Pod".into(),
        namespace: namespace.into(),
        ..Query::default()
    };
    reads
        .count(&query, &Allowance::of_host())
        .expect("the plugin watches pods")
}

fn get(reads: &CachedReads, namespace: &str, name: &str, fields: &[&str]) -> Option<Value> {
    let fields: Vec<String> = fields.iter().map(|&field| field.into()).collect();
    let found = reads.get("v1/Pod", namespace, name, &fields);
    let found = found.expect("the plugin watches pods")?;
    Some(serde_json::from_slice(&found).expect("JSON"))
}

#[tokio::test]
async fn all_namespaces_are_seen_unless_the_policy_names_some() {
    let all = reads("", &["spec.nodeName"]).await;
    assert_eq!((count(&all, ""), count(&all, "other")), (2, 1));
    let one = reads("namespaces = [\"demo\"]", &["spec.nodeName"]).await;
    assert_eq!((count(&one, ""), count(&one, "other")), (1, 0));
    assert!(get(&one, "demo", "web", &[]).is_some());
    assert_eq!(get(&one, "other", "db", &[]), None);
    let mut seen = Vec::new();
    one.each(|_, object| seen.push(object.key().to_string()));
    assert_eq!(seen, ["demo/web"]);
    assert!(one.by_uid(&Uid::new("other-db")).is_none());
}

/// A mapping with `whileAny` must not reveal objects that the plugin does not see.
#[tokio::test]
async fn there_are_no_objects_of_a_kind_if_the_policy_hides_all() {
    let kind: Kind = "v1/Pod".parse().expect("a kind");
    let allow = "namespaces = [\"demo\"]";
    let reads = reads_of(vec![pod("other", "db")], allow, &[]).await;
    assert!(!reads.has_any(&kind, "") && !reads.has_any(&kind, "other"));
    let reads = reads_of(vec![pod("other", "db"), pod("demo", "web")], allow, &[]).await;
    assert!(reads.has_any(&kind, "") && reads.has_any(&kind, "demo"));
    assert!(!reads.has_any(&kind, "other"));
}

#[tokio::test]
async fn an_object_has_the_declared_fields_and_others_are_denied() {
    let reads = reads("", &["spec.nodeName"]).await;
    let found = get(&reads, "demo", "web", &[]).expect("it is cached");
    assert_eq!(found["spec"], json!({"nodeName": "n"}));
    let undeclared = ["spec.hostname".to_owned()];
    let denied = reads.get("v1/Pod", "demo", "web", &undeclared).unwrap_err();
    assert_eq!(denied.reason, "Denied");
}

#[tokio::test]
async fn a_delta_shows_no_field_that_only_another_plugin_watches() {
    let ([_wide, narrow], source) =
        informers(vec![pod("demo", "web")], [&["spec"], &["spec.nodeName"]]).await;
    let reads = CachedReads::new(
        &Description::default(),
        Arc::new(PluginPolicy::default()),
        [&narrow],
        Arc::new(Discovery::new(source)),
        1 << 20,
        SharedReads::default(),
    );
    let batch = narrow.subscribe().next(10).await.expect("a batch");
    let object = batch.deltas[0].object();
    let held: Value = serde_json::from_slice(object.json()).expect("JSON");
    assert_eq!(held["spec"], json!({"nodeName": "n", "hostname": "h"}));
    let view = reads.route_view(&narrow).expect("it is watched");
    let mut projection = view.projection().expect("a projection");
    let mut shown = Vec::new();
    let appended = projection.append(object, &mut shown, 1000);
    appended.expect("it fits");
    let shown: Value = serde_json::from_slice(&shown).expect("JSON");
    assert_eq!(shown["spec"], json!({"nodeName": "n"}));
}

#[tokio::test]
async fn two_watches_of_the_same_objects_show_the_fields_of_both() {
    let ([one, other], source) = informers(
        vec![pod("demo", "web")],
        [&["spec.nodeName"], &["spec.hostname"]],
    )
    .await;
    let reads = CachedReads::new(
        &Description::default(),
        policy(""),
        [&one, &other],
        Arc::new(Discovery::new(source)),
        1 << 20,
        SharedReads::default(),
    );
    let found = get(&reads, "demo", "web", &["spec.nodeName", "spec.hostname"]);
    let spec = json!({"nodeName": "n", "hostname": "h"});
    assert_eq!(found.expect("it is cached")["spec"], spec);
    assert_eq!(count(&reads, ""), 1);
}

#[tokio::test]
async fn a_kind_that_the_plugin_does_not_watch_is_denied() {
    let reads = reads("", &[]).await;
    let denied = reads.get("v1/Secret", "demo", "web", &[]).unwrap_err();
    assert_eq!(denied.reason, "Denied");
    let query = Query {
        kind: "v1/Secret".into(),
        ..Query::default()
    };
    assert_eq!(
        reads
            .count(&query, &Allowance::of_host())
            .unwrap_err()
            .reason,
        "Denied"
    );
}

#[tokio::test]
async fn an_acknowledged_write_is_seen_at_once_and_only_where_the_plugin_may_see_it() {
    let reads = reads("namespaces = [\"demo\"]", &["spec.nodeName"]).await;
    let kind = "v1/Pod".parse().expect("a kind");
    for namespace in ["demo", "other"] {
        let mut created = pod(namespace, "new");
        created["metadata"]["resourceVersion"] = "20".into();
        created["kind"] = "Pod".into();
        created["apiVersion"] = "v1".into();
        let answer = ApiResponse::new(created.to_string().into());
        reads.written(&kind, &answer).await;
    }
    assert_eq!((count(&reads, "demo"), count(&reads, "")), (2, 2));
    assert!(get(&reads, "demo", "new", &[]).is_some());
    assert_eq!(get(&reads, "other", "new", &[]), None);
}

#[tokio::test]
async fn an_observed_deletion_is_remembered_under_the_name_and_the_uid() {
    let reads = reads("", &[]).await;
    let reference = |uid: &str| Reference {
        kind: "v1/Pod".parse().expect("a kind"),
        namespace: "demo".into(),
        name: "web".into(),
        uid: uid.into(),
    };
    assert!(!reads.is_deletion_observed(&reference("1")));
    reads.note_deletion(reference("1"));
    assert!(
        reads.is_deletion_observed(&reference("1")) && !reads.is_deletion_observed(&reference("2"))
    );
}

/// Paths that result in a mask much larger than themselves.
fn doubling_paths(name: &str) -> Vec<String> {
    let path = |depth: usize| format!("{}.{name}{depth}.z", "[*]".repeat(depth));
    (0..9)
        .map(|depth| path(depth).trim_start_matches('.').to_owned())
        .collect()
}

#[tokio::test]
async fn the_parsed_paths_of_a_plugin_are_kept_up_to_a_size() {
    let reads = reads("", &["."]).await;
    for set in 0..300 {
        let paths = doubling_paths(&format!("a{set}x"));
        reads.mask(&paths).expect("a mask that is not too complex");
    }
    let known = reads.masks.known.lock();
    let sizes = known.sets.values().map(|mask| mask.size());
    assert!(known.sets.len() < 300 && sizes.sum::<usize>() <= PARSED_BYTES);
    assert!(known.bytes <= PARSED_BYTES && known.bytes > PARSED_BYTES / 2);
}

#[tokio::test]
async fn the_size_of_a_cursor_includes_what_it_reads_by() {
    let reads = reads("", &["."]).await;
    let query = Query {
        kind: "v1/Pod".into(),
        ..Query::default()
    };
    let size = |paths: Vec<String>| {
        let page = reads
            .list(
                &query,
                &Projection::Columns(paths),
                1,
                &Allowance::of_host(),
            )
            .expect("a page");
        page.rest.expect("two pods").size()
    };
    let small = size(vec!["metadata.name".into()]);
    assert!(size(doubling_paths("a")) > small + 10_000);
}

#[tokio::test]
async fn pages_of_any_size_are_in_order() {
    let names: Vec<String> = (0..300)
        .map(|number| format!("pod-{:03}", number * 7919 % 300))
        .collect();
    let pods = names
        .iter()
        .flat_map(|name| [pod("other", name), pod("demo", name)]);
    let reads = reads_of(pods.collect(), "", &["."]).await;
    let query = Query {
        kind: "v1/Pod".into(),
        ..Query::default()
    };
    let columns = ["metadata.namespace", "metadata.name"].map(str::to_owned);
    let projection = Projection::Columns(columns.into());
    let mut expected: Vec<[String; 2]> = names
        .iter()
        .flat_map(|name| ["demo", "other"].map(|namespace| [namespace.into(), name.clone()]))
        .collect();
    expected.sort_unstable();
    for limit in [0, 1, 7, 100, 599, 600, 1000] {
        let allowance = Allowance::of_host();
        let first = reads.list(&query, &projection, limit, &allowance);
        let mut rest = Some(first.expect("a page"));
        let mut found: Vec<[String; 2]> = Vec::new();
        while let Some(page) = rest {
            let rows: Vec<[String; 2]> = serde_json::from_slice(&page.items).expect("rows");
            assert!(limit == 0 || rows.len() <= limit as usize);
            found.extend(rows);
            rest = page
                .rest
                .map(|rest| rest.next(limit, &allowance).expect("a page"));
        }
        assert!(found == expected, "{limit} at a time: {found:?}");
    }
}
