//! Replicas from the values of metrics.

use std::collections::{BTreeMap, BTreeSet};

use crate::calculator::*;

const TENTH: Tolerances = Tolerances { down: 0.1, up: 0.1 };

fn metrics(values: &[i64]) -> PodMetrics {
    let metric = |(index, value): (usize, &i64)| {
        let metric = PodMetric {
            value: *value,
            ..PodMetric::default()
        };
        (index.to_string(), metric)
    };
    values.iter().enumerate().map(metric).collect()
}

fn set(pods: &[&str]) -> BTreeSet<String> {
    pods.iter().map(|&pod| pod.into()).collect()
}

fn grouped(ready: usize, unready: &[&str], missing: &[&str], ignored: &[&str]) -> Grouped {
    Grouped {
        ready,
        unready: set(unready),
        missing: set(missing),
        ignored: set(ignored),
    }
}

/// Replicas and percent for a target, where each pod requests 1000.
fn utilization(
    current: i32,
    target: i32,
    values: &[i64],
    pods: &Grouped,
) -> Result<(i32, i32), String> {
    let requests: BTreeMap<String, i64> = (0..12).map(|pod| (pod.to_string(), 1000)).collect();
    by_utilization(current, target, metrics(values), &requests, pods, TENTH)
        .map(|found| (found.replicas, found.percent))
}

fn value(current: i32, target: i64, values: &[i64], pods: &Grouped) -> Result<(i32, i64), String> {
    by_value(current, target, metrics(values), pods, TENTH)
}

#[test]
fn replicas_follow_the_ratio_of_usage_and_target() {
    let all = grouped(3, &[], &[], &[]);
    assert_eq!(utilization(3, 30, &[300, 500, 700], &all), Ok((5, 50)));
    assert_eq!(
        utilization(
            5,
            50,
            &[100, 300, 500, 250, 250],
            &grouped(5, &[], &[], &[])
        ),
        Ok((3, 28))
    );
    assert_eq!(
        value(3, 15_000, &[20_000, 10_000, 30_000], &all),
        Ok((4, 20_000))
    );
    assert_eq!(
        value(5, 20_000, &[12_000; 5], &grouped(5, &[], &[], &[])),
        Ok((3, 12_000))
    );
}

#[test]
fn a_deviation_within_the_tolerance_changes_nothing() {
    let all = grouped(3, &[], &[], &[]);
    assert_eq!(utilization(3, 100, &[1010, 1030, 1020], &all), Ok((3, 102)));
    assert_eq!(utilization(3, 100, &[1100; 3], &all), Ok((3, 110)));
    assert_eq!(utilization(3, 100, &[1110; 3], &all), Ok((4, 111)));
    assert_eq!(utilization(3, 100, &[900; 3], &all), Ok((3, 90)));
    assert_eq!(utilization(3, 100, &[890; 3], &all), Ok((3, 89)));
    assert_eq!(utilization(3, 100, &[660; 3], &all), Ok((2, 66)));
    let asymmetric = Tolerances { down: 0.5, up: 0.0 };
    let of = |values: &[i64]| {
        by_value(3, 100, metrics(values), &all, asymmetric)
            .unwrap()
            .0
    };
    assert_eq!([of(&[101; 3]), of(&[50; 3]), of(&[33; 3])], [4, 3, 1]);
}

#[test]
fn missing_pods_are_assumed_to_make_the_change_smaller() {
    // Scaling up, a pod without a value uses nothing.
    let two = grouped(2, &[], &["2"], &[]);
    assert_eq!(utilization(3, 50, &[1000, 1000], &two), Ok((4, 100)));
    // ...so that little remains.
    assert_eq!(utilization(3, 50, &[700, 700], &two), Ok((3, 70)));
    // Scaling down, it uses all that it requests, or its target if that is more.
    assert_eq!(utilization(3, 50, &[100, 100], &two), Ok((3, 10)));
    let four = grouped(4, &[], &["4"], &[]);
    assert_eq!(utilization(5, 100, &[300; 4], &four), Ok((3, 30)));
    assert_eq!(utilization(5, 200, &[300; 4], &four), Ok((2, 30)));
    // For plain values, a pod without a value uses exactly the target.
    assert_eq!(value(5, 1000, &[300; 4], &four), Ok((3, 300)));
    assert_eq!(value(3, 500, &[1000, 1000], &two), Ok((4, 1000)));
}

#[test]
fn unready_pods_dampen_only_a_growth() {
    let unready = grouped(2, &["2"], &[], &[]);
    // Its own value does not count.
    assert_eq!(
        utilization(3, 50, &[1000, 1000, 900], &unready),
        Ok((4, 100))
    );
    assert_eq!(utilization(3, 50, &[700, 700, 900], &unready), Ok((3, 70)));
    // It is not among the pods that a shrinkage starts from.
    assert_eq!(utilization(3, 50, &[100, 100, 900], &unready), Ok((1, 10)));
}

#[test]
fn assumptions_never_turn_the_direction_of_a_change() {
    let one = grouped(1, &[], &["1", "2"], &[]);
    assert_eq!(utilization(3, 50, &[800], &one), Ok((3, 80)));
    assert_eq!(utilization(3, 50, &[300], &one), Ok((3, 30)));
    // Neither does the number of values: with six values, a growth would end below what there is.
    let many = grouped(6, &[], &["6"], &[]);
    assert_eq!(utilization(10, 100, &[1400; 6], &many), Ok((10, 140)));
    let few = grouped(2, &[], &["2", "3", "4"], &[]);
    assert_eq!(value(2, 1000, &[10, 10], &few), Ok((2, 10)));
}

#[test]
fn deleted_and_failed_pods_do_not_count() {
    let pods = grouped(2, &[], &[], &["2"]);
    assert_eq!(utilization(2, 50, &[500, 500, 9000], &pods), Ok((2, 50)));
}

#[test]
fn without_values_there_is_no_result() {
    let none = "did not receive metrics for targeted pods (pods might be unready)";
    let all_unready = grouped(0, &["0", "1"], &[], &[]);
    assert_eq!(utilization(2, 50, &[1, 1], &all_unready), Err(none.into()));
    assert_eq!(value(2, 50, &[1, 1], &all_unready), Err(none.into()));
    let strangers = by_utilization(
        1,
        50,
        metrics(&[1]),
        &BTreeMap::new(),
        &grouped(0, &[], &[], &[]),
        TENTH,
    );
    assert_eq!(
        strangers,
        Err("no metrics returned matched known pods".into())
    );
}

#[test]
fn values_of_strangers_count_only_where_no_request_is_needed() {
    let requests = BTreeMap::from([("0".to_owned(), 1000)]);
    let pods = grouped(1, &[], &[], &[]);
    let found = by_utilization(1, 50, metrics(&[1000, 7000]), &requests, &pods, TENTH).unwrap();
    assert_eq!(
        (found.replicas, found.percent, found.average),
        (2, 100, 1000)
    );
    assert_eq!(value(1, 1000, &[1000, 7000], &pods), Ok((4, 4000)));
}

#[test]
fn a_metric_of_all_pods_is_related_to_the_ready_ones() {
    let of = |current, ratio, ready| by_ratio(current, ratio, TENTH, || Ok(ready)).unwrap();
    assert_eq!(of(3, 2.0, 3), 6);
    assert_eq!(of(3, 2.0, 1), 2);
    assert_eq!(of(3, 1.05, 9), 3);
    assert_eq!(of(3, 0.0, 3), 0);
    assert_eq!(of(3, 1e30, 3), i32::MAX);
    // Without replicas, the ratio alone decides.
    assert_eq!(
        [of(0, 0.0, 9), of(0, 0.4, 9), of(0, 1.05, 9), of(0, 5.0, 9)],
        [0, 1, 2, 5]
    );
    let failed = by_ratio(3, 2.0, TENTH, || Err("none".into()));
    assert_eq!(failed, Err("unable to calculate ready pods: none".into()));
    assert_eq!(by_ratio(3, 1.0, TENTH, || Err("none".into())), Ok(3));
}

#[test]
fn a_target_for_each_pod_divides_the_value() {
    assert_eq!(by_share(3, 2000, 8600, TENTH), (5, 2867));
    assert_eq!(by_share(4, 2000, 8600, TENTH), (4, 2150));
    assert_eq!(by_share(5, 2000, 0, TENTH), (0, 0));
    assert_eq!(by_share(0, 2000, 5000, TENTH).0, 3);
    assert_eq!(by_share(0, 2000, 0, TENTH).0, 0);
    assert_eq!(by_share(2, 1, i64::MAX, TENTH), (i32::MAX, i64::MAX));
}

#[test]
fn a_sum_of_huge_values_is_the_greatest_value() {
    assert_eq!(sum([1, 2, 3]), 6);
    assert_eq!(sum([i64::MAX, 1]), i64::MAX);
}
