use std::collections::BTreeSet;

use flyball_policy::Share;
use flyball_workqueue::{Config, WorkQueue};
use tokio::time::{Instant, sleep};

use super::*;

fn keys(steps: Vec<Step>) -> Keys {
    let plugin = "greeter".into();
    Keys::Of { plugin, steps }
}

fn share(percent: u32) -> Step {
    Step::Keys(Share::percent(percent))
}

fn never(_: &LabelSelector) -> bool {
    false
}

fn ended(how: How, writes: u64) -> Option<Ended> {
    Some(Ended {
        how,
        failed: (how == How::Trapped).then(|| "a/b: unreachable".to_owned()),
        writes,
        took: Duration::from_millis(1),
    })
}

#[test]
fn a_key_is_in_the_same_share_in_each_process_and_each_release() {
    let first = keys(vec![share(25)]);
    let of = |number: usize| format!("team/object-{number}");
    let chosen: Vec<usize> = (0..40)
        .filter(|number| first.has(&of(*number), never))
        .collect();
    assert_eq!(
        chosen,
        [5, 6, 12, 13, 15, 18, 19, 24, 26, 29, 30, 32, 33, 39]
    );
    assert_ne!(number("greeter", "a/b"), number("other", "a/b"));
}

#[test]
fn each_step_adds_keys_and_takes_none_away() {
    let mut steps = vec![Step::Namespaces {
        namespaces: BTreeSet::from(["first".to_owned()]),
    }];
    let mut before = keys(steps.clone());
    assert!(before.has("first/a", never) && !before.has("other/a", never));
    assert!(!before.has("first", never), "a cluster-scoped object");
    for percent in [5, 25, 50] {
        steps.push(share(percent));
        let now = keys(steps.clone());
        let all = (0..2000).map(|number| format!("n-{}/a-{number}", number % 7));
        let mut count = 0;
        for key in all {
            assert!(!before.has(&key, never) || now.has(&key, never), "{key}");
            count += u32::from(now.has(&key, never));
        }
        let near = percent * 20 / 2..percent * 20 * 2;
        assert!(near.contains(&count), "{percent} %: {count} of 2000");
        before = now;
    }
    assert!(Keys::All.has("anything", never));
}

#[test]
fn a_selector_selects_by_the_labels_of_the_object() {
    let selected = keys(vec![Step::Selector {
        selector: "team=x".parse().unwrap(),
    }]);
    let object = |labels: &str| {
        let json = format!(
            r#"{{"metadata": {{"namespace": "a", "name": "b", "uid": "1", "resourceVersion": "1", "labels": {labels}}}}}"#
        );
        Object::parse(json.as_bytes()).unwrap()
    };
    assert!(selected.has_object("a/b", &object(r#"{"team": "x"}"#)));
    assert!(!selected.has_object("a/b", &object(r#"{"team": "y"}"#)));
    assert!(!selected.has("a/b", never), "an object that is gone");
}

#[test]
fn reconciles_are_counted_by_how_they_end_and_those_that_did_not_run_are_not() {
    let rule = Rule::new(Keys::All, "old", "new");
    for end in [
        ended(How::Well, 2),
        ended(How::Failed, 1),
        ended(How::Trapped, 0),
        ended(How::NotRun, 0),
        None,
    ] {
        rule.count_candidate(end);
    }
    let (running, candidate) = rule.measured();
    assert_eq!(running, Measured::default());
    let expected = Counts {
        calls: 3,
        failures: 1,
        traps: 1,
        writes: 3,
    };
    assert_eq!((candidate.counts, candidate.p99), (expected, None));
    assert_eq!(candidate.last_failure.as_deref(), Some("a/b: unreachable"));
    (0..FOR_QUANTILES).for_each(|_| rule.count_running(ended(How::Well, 0)));
    let p99 = rule.measured().0.p99;
    assert!(p99.is_some_and(|p99| p99 >= Duration::from_millis(1)));
}

#[test]
fn a_rule_is_about_the_version_that_gives_keys_away_alone() {
    let split = Split::default();
    let turn = |own: &str| split.turn(own, "a/b", never);
    assert!(matches!(turn("old"), Turn::Own));
    split.set_rule(Some(Rule::new(Keys::All, "old", "new")));
    // No candidate is loaded: its keys wait.
    assert!(matches!(turn("old"), Turn::Later));
    assert!(matches!(turn("new"), Turn::Own));
    let none = keys(vec![Step::Namespaces {
        namespaces: BTreeSet::from(["other".to_owned()]),
    }]);
    split.set_rule(Some(Rule::new(none, "old", "new")));
    assert!(matches!(turn("old"), Turn::Running(_)));
    split.set_rule(None);
    assert!(matches!(turn("old"), Turn::Own));
}

/// A reconcile in the test below.
#[derive(Debug)]
struct Call {
    key: Arc<str>,
    is_candidates: bool,
    from: Instant,
    to: Instant,
}

/// Workers reconcile keys again and again while the rule changes. A reconcile takes longer than the rules change.
#[tokio::test(start_paused = true)]
async fn no_two_versions_have_a_key_at_once_while_it_changes_hands() {
    const KEYS: usize = 20;
    let queue: WorkQueue<Arc<str>, ()> = WorkQueue::new(Config::default());
    let (split, calls) = (Arc::<Split>::default(), Arc::<Mutex<Vec<Call>>>::default());
    let add_all = |queue: &WorkQueue<Arc<str>, ()>| {
        for number in 0..KEYS {
            queue.add(format!("demo/a-{number}").into(), Priority::Normal, ());
        }
    };
    let worker = |number: u64| {
        let (queue, split, calls) = (queue.clone(), split.clone(), calls.clone());
        async move {
            while let Some(item) = queue.get().await {
                let is_candidates = matches!(split.turn("old", item.key(), never), Turn::Later);
                let from = Instant::now();
                sleep(Duration::from_millis(7 + number * 5)).await;
                calls.lock().push(Call {
                    key: item.key().clone(),
                    is_candidates,
                    from,
                    to: Instant::now(),
                });
            }
        }
    };
    let workers: Vec<_> = (0..8).map(|number| tokio::spawn(worker(number))).collect();
    let rules = [
        Some(keys(vec![share(5)])),
        Some(keys(vec![share(5), share(50)])),
        Some(Keys::All),
        None,
        Some(keys(vec![share(50)])),
    ];
    for keys in rules {
        split.set_rule(keys.map(|keys| Rule::new(keys, "old", "new")));
        for _ in 0..60 {
            add_all(&queue);
            sleep(Duration::from_millis(3)).await;
        }
    }
    queue.shutdown();
    for worker in workers {
        worker.await.expect("no panic");
    }
    let mut calls = std::mem::take(&mut *calls.lock());
    let (candidates, others): (Vec<&Call>, _) = calls.iter().partition(|call| call.is_candidates);
    assert!(candidates.len() > KEYS && others.len() > KEYS);
    calls.sort_by(|a, b| (&a.key, a.from).cmp(&(&b.key, b.from)));
    for pair in calls.windows(2) {
        let is_same = pair[0].key == pair[1].key;
        assert!(!is_same || pair[0].to <= pair[1].from, "{pair:?}");
    }
}
