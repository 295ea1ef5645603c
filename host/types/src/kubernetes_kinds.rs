//! Kubernetes' own kinds whose objects are stored, and the two kinds that every server returns: `v1/Status` and
//! `meta.k8s.io/v1/PartialObjectMetadata`. Other kinds of its groups, such as those of `authorization.k8s.io`, are left
//! out.
//!
//! The Go program in `host/cache/schema` generates `kubernetes_kinds.txt`. A line is a kind and its Go type, with the
//! last two parts of its package:
//!
//! ```text
//! v1/Pod = core/v1.Pod
//! ```

/// Returns each kind, as in `apps/v1/Deployment`, with its Go type, in the order of the kinds.
pub fn kubernetes_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("kubernetes_kinds.txt")
        .lines()
        .filter_map(|line| line.split_once(" = "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn each_line_is_a_kind_and_a_type_of_the_same_name() {
        let lines = include_str!("kubernetes_kinds.txt").lines().count();
        assert_eq!(kubernetes_kinds().count(), lines);
        for (kind, go_type) in kubernetes_kinds() {
            let parsed: Kind = kind.parse().unwrap();
            assert!(go_type.ends_with(&format!(".{}", parsed.kind)), "{kind}");
        }
    }
}
