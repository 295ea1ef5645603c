//! Names of Evictions: the kind of the target, a counter and the target's name, such as `pod-1-web`. They only inform: the
//! target is in the spec.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: extractEvictionNameParts, evictionNameForCounter,
//! newEvictionName, compareEvictionNames.

use std::cmp::Ordering;

/// The only kind of target.
pub const POD: &str = "pod";
/// The maximum length of a name.
const MAX_LENGTH: usize = 253;

/// The parts of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parts<'a> {
    kind: &'a str,
    target: &'a str,
    counter: i64,
}

/// Returns the parts of a name; `None` if it was chosen by somebody else.
fn parts(name: &str) -> Option<Parts<'_>> {
    let (kind, rest) = name.split_once('-')?;
    let (counter, target) = rest.split_once('-')?;
    let is_kind = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_number = counter.bytes().all(|byte| byte.is_ascii_digit());
    let counter = counter.parse().ok().filter(|_| is_kind && is_number)?;
    Some(Parts {
        kind,
        target,
        counter,
    })
}

/// The name of a pod's Eviction, truncated to a valid one.
fn of_pod(pod: &str, counter: i64) -> String {
    let mut name = format!("{POD}-{counter}-{pod}");
    if name.len() > MAX_LENGTH {
        name.truncate(name.floor_char_boundary(MAX_LENGTH));
        name.truncate(name.trim_end_matches(['-', '.']).len());
    }
    name
}

/// The name of a pod's next Eviction, given the names of all Evictions in its namespace. Truncated names of several pods can
/// be equal, so these share the counter.
pub fn next<'a>(pod: &str, all: impl IntoIterator<Item = &'a str>) -> String {
    let counters = all.into_iter().filter_map(|name| {
        let parts = parts(name).filter(|parts| parts.kind == POD)?;
        (name == of_pod(pod, parts.counter)).then_some(parts.counter)
    });
    of_pod(pod, counters.max().unwrap_or(0).saturating_add(1))
}

/// Orders names by kind, target and counter. Names that somebody else has chosen come last.
pub fn compare(a: &str, b: &str) -> Ordering {
    let by_parts = match (parts(a), parts(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    by_parts.then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_a_pods_evictions_grows() {
        let all = [
            "pod-2-web",
            "pod-10-web",
            "pod-77-other",
            "node-90-web",
            "web",
        ];
        assert_eq!(next("web", all), "pod-11-web");
        assert_eq!(next("new", all), "pod-1-new");
        // The name of a pod may look like an Eviction's.
        assert_eq!(next("7-web", ["pod-3-7-web"]), "pod-4-7-web");
        // Not a number of the form that is written here.
        assert_eq!(next("web", ["pod-007-web", "pod-+8-web"]), "pod-1-web");
    }

    #[test]
    fn a_long_name_is_cut_to_a_valid_one_and_its_counter_still_grows() {
        let long = format!("{}.b", "a".repeat(246));
        let first = next(&long, []);
        assert_eq!(first, format!("pod-1-{}", "a".repeat(246)));
        let second = next(&long, [&*first]);
        assert_eq!(second, format!("pod-2-{}", "a".repeat(246)));
        // Another pod with the same beginning.
        let other = format!("{}.c", "a".repeat(246));
        assert_eq!(
            next(&other, [&*first, &*second]),
            format!("pod-3-{}", "a".repeat(246))
        );
    }

    #[test]
    fn names_are_ordered_by_target_and_then_by_counter() {
        let mut names = ["web", "pod-10-b", "pod-9-b", "pod-11-a", "node-99-z", "a"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            ["node-99-z", "pod-11-a", "pod-9-b", "pod-10-b", "a", "web"]
        );
    }
}
