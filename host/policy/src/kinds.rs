//! Checks the kinds that a policy or a description names, and suggests the kind that was probably meant.

use std::collections::BTreeSet;

use flyball_types::description::{Description, DescriptionError};
use flyball_types::nearest::nearest;
use flyball_types::{Kind, KindPattern, kubernetes_kinds, printable};

/// Kinds of Kubernetes that controllers often use, for suggestions.
const KNOWN: [&str; 39] = [
    "v1/ConfigMap",
    "v1/Endpoints",
    "v1/Event",
    "v1/LimitRange",
    "v1/Namespace",
    "v1/Node",
    "v1/PersistentVolume",
    "v1/PersistentVolumeClaim",
    "v1/Pod",
    "v1/PodTemplate",
    "v1/ReplicationController",
    "v1/ResourceQuota",
    "v1/Secret",
    "v1/Service",
    "v1/ServiceAccount",
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
    "apps/v1/ControllerRevision",
    "apps/v1/DaemonSet",
    "apps/v1/Deployment",
    "apps/v1/ReplicaSet",
    "apps/v1/StatefulSet",
    "autoscaling/v2/HorizontalPodAutoscaler",
    "batch/v1/CronJob",
    "batch/v1/Job",
    "certificates.k8s.io/v1/CertificateSigningRequest",
    "coordination.k8s.io/v1/Lease",
    "discovery.k8s.io/v1/EndpointSlice",
    "events.k8s.io/v1/Event",
    "networking.k8s.io/v1/Ingress",
    "networking.k8s.io/v1/NetworkPolicy",
    "policy/v1/PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1/ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "scheduling.k8s.io/v1/PriorityClass",
    "storage.k8s.io/v1/StorageClass",
    "storage.k8s.io/v1/VolumeAttachment",
];

/// Fails with a sentence if a text is neither a kind nor a pattern of kinds, or if it is a kind without a version.
pub fn check(text: &str) -> Result<(), String> {
    let meant = || suggestion(text);
    match text.parse::<KindPattern>() {
        Ok(KindPattern::One(kind)) if lacks_version(&kind) => Err(match meant() {
            Some(meant) => format!(
                "`{}` has no version: did you mean `{meant}`?",
                printable(text)
            ),
            None => format!(
                "`{}` has no version: write it as `{}/v1/{}`",
                printable(text),
                kind.version,
                kind.kind
            ),
        }),
        Ok(_) => Ok(()),
        Err(error) => Err(match meant() {
            Some(meant) => format!("{error}; did you mean `{meant}`?"),
            None => error.to_string(),
        }),
    }
}

/// Kinds of Kubernetes that are not stored, or that only some servers have.
const NOT_STORED: [&str; 13] = [
    "v1/Binding",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
    "apiregistration.k8s.io/v1/APIService",
    "authentication.k8s.io/v1/SelfSubjectReview",
    "authentication.k8s.io/v1/TokenRequest",
    "authentication.k8s.io/v1/TokenReview",
    "authorization.k8s.io/v1/LocalSubjectAccessReview",
    "authorization.k8s.io/v1/SelfSubjectAccessReview",
    "authorization.k8s.io/v1/SelfSubjectRulesReview",
    "authorization.k8s.io/v1/SubjectAccessReview",
    "autoscaling/v1/Scale",
    "policy/v1/Eviction",
    "v1/PodStatusResult",
];

/// The longest difference of a misspelt name from the one that was meant, in bytes.
const MISSPELT: usize = 2;

/// What is known about a kind without asking a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownKind {
    /// Kubernetes has it, or it is a pattern of kinds.
    Known,
    /// Kubernetes does not have it, although its group is one of Kubernetes' own. A later Kubernetes may have it. The
    /// sentence names the kind that was probably meant.
    Wrong(String),
    /// Its group is not Kubernetes' own.
    OfOthers(Kind),
}

/// Looks a kind up in the list of Kubernetes' own kinds.
pub fn look_up(text: &str) -> KnownKind {
    let Ok(KindPattern::One(kind)) = text.parse::<KindPattern>() else {
        return KnownKind::Known;
    };
    let known_kinds = || {
        let stored = kubernetes_kinds().map(|(kind, _)| kind);
        stored.chain(NOT_STORED)
    };
    if known_kinds().any(|known| known == text) {
        return KnownKind::Known;
    }
    let (version, name) = text.rsplit_once('/').unwrap_or_default();
    let beside = known_kinds().filter_map(|known| known.rsplit_once('/'));
    let beside = beside.filter(|(known, _)| *known == version);
    let meant = nearest(name, beside.map(|(_, known)| known))
        .filter(|meant| meant.len().abs_diff(name.len()) <= MISSPELT)
        .map(|meant| format!("{version}/{meant}"));
    let of_version = || {
        let same = known_kinds().filter_map(|known| Some((known, known.parse::<Kind>().ok()?)));
        let mut same =
            same.filter(|(_, known)| (&known.group, &known.kind) == (&kind.group, &kind.kind));
        same.next().map(|(known, _)| known.to_owned())
    };
    let is_own = known_kinds().any(|known| group_of(known) == kind.group);
    if let Some(meant) = meant.or_else(of_version) {
        return KnownKind::Wrong(format!(
            "Kubernetes has no kind `{}`: did you mean `{meant}`?",
            printable(text)
        ));
    }
    if is_own {
        return KnownKind::Wrong(format!(
            "Kubernetes has no kind `{}`: correct it, or check it against a cluster that has it",
            printable(text)
        ));
    }
    // Groups of other projects have a domain.
    if !kind.group.contains('.') {
        let meant = nearest(&kind.group, known_kinds().map(group_of));
        let meant = meant.map(|meant| format!(": did you mean `{meant}`?"));
        return KnownKind::Wrong(format!(
            "Kubernetes has no group `{}`{}",
            printable(&kind.group),
            meant.unwrap_or_default()
        ));
    }
    KnownKind::OfOthers(kind)
}

/// The group of a kind as it is written; empty for the core group.
fn group_of(kind: &'static str) -> &'static str {
    match kind.splitn(3, '/').collect::<Vec<_>>()[..] {
        [group, _, _] => group,
        _ => "",
    }
}

/// The kinds and patterns that a description names, as they are written.
pub fn of_description(description: &Description) -> impl Iterator<Item = String> {
    let watched = description.watches.iter();
    let watched = watched.filter_map(|watch| Some(watch.kind.as_ref()?.to_string()));
    let asked = description.permissions.iter();
    watched.chain(asked.map(|permission| permission.kind.to_string()))
}

/// Reads and checks the document that a plugin's `describe` returned. The error has all mistakes, and if there are any,
/// also the kinds that Kubernetes does not have.
pub fn read_description(document: &str) -> Result<Description, DescriptionError> {
    let description = Description::parse(document)?;
    let mut mistakes = description.mistakes();
    let kinds: BTreeSet<String> = of_description(&description).collect();
    mistakes.extend(kinds.iter().filter_map(|kind| check(kind).err()));
    if !mistakes.is_empty() {
        mistakes.extend(kinds.iter().filter_map(|kind| misspelt(kind)));
    }
    description.invalid(mistakes)?;
    Ok(description)
}

/// Returns a sentence about a kind that Kubernetes does not have, unless [`check`] has one.
pub(crate) fn misspelt(text: &str) -> Option<String> {
    match look_up(text) {
        KnownKind::Wrong(problem) if check(text).is_ok() => Some(problem),
        _ => None,
    }
}

/// Whether the text at the position of the version is a group: the core group has only versions such as `v1`.
pub(crate) fn lacks_version(kind: &Kind) -> bool {
    let digits = kind.version.strip_prefix('v').unwrap_or_default();
    kind.group.is_empty() && !digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the known kind with the most similar name. If the text has a group, the group is compared too.
fn suggestion(text: &str) -> Option<&'static str> {
    let name_of = |text: &'static str| text.rsplit('/').next().unwrap_or_default();
    let (group, name) = text.rsplit_once('/').unwrap_or(("", text));
    let of_group = |known: &&&str| group.is_empty() || known.split('/').next() == Some(group);
    let known = KNOWN.iter().filter(of_group);
    let near = nearest(name, known.clone().map(|known| name_of(known)))?;
    known.copied().find(|known| name_of(known) == near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_with_a_kind_without_a_version_is_refused() {
        for (part, is_valid) in [
            (r#""watches": [{"kind": "apps/Deployment"}]"#, false),
            (
                r#""permissions": [{"kind": "apps/Deployment", "verbs": ["get"]}]"#,
                false,
            ),
            (
                r#""permissions": [{"kind": "apps/*", "verbs": ["get"]}]"#,
                true,
            ),
            (r#""watches": [{"kind": "apps/v1/Deployment"}]"#, true),
        ] {
            let text =
                format!(r#"{{"format": 1, "name": "a", "queues": [{{"name": "q"}}], {part}}}"#);
            let checked = read_description(&text).map_err(|error| error.to_string());
            assert_eq!(checked.is_ok(), is_valid, "{part}: {checked:?}");
            if let Err(problem) = checked {
                let meant = "`apps/Deployment` has no version: did you mean `apps/v1/Deployment`?";
                assert!(problem.ends_with(meant), "{problem}");
            }
        }
    }

    #[test]
    fn all_mistakes_of_a_description_are_named_at_once() {
        let text = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}],
            "watches": [{"kind": "apps/v1/Deploymnt", "fields": ["a..b"]}, {"kind": "apps/Deployment"}],
            "permissions": [{"kind": "v1/ConfigMaps", "verbs": ["delet"]}]}"#;
        let error = read_description(text).unwrap_err().to_string();
        for expected in [
            "did you mean `apps/v1/Deployment`?",
            "`a..b`",
            "`apps/Deployment` has no version",
            "did you mean `v1/ConfigMap`?",
            "did you mean `delete`?",
        ] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn a_misspelt_kind_of_kubernetes_is_noticed_and_one_of_others_is_not() {
        for (text, expected) in [
            ("v1/Podd", "did you mean `v1/Pod`?"),
            ("v1/Pods", "did you mean `v1/Pod`?"),
            ("v1/ConfigMaps", "did you mean `v1/ConfigMap`?"),
            ("apps/v1/Deploymnt", "did you mean `apps/v1/Deployment`?"),
            ("apps/v1/deployment", "did you mean `apps/v1/Deployment`?"),
            (
                "apps/v1beta1/Deployment",
                "did you mean `apps/v1/Deployment`?",
            ),
            ("batch/v1/Jobs", "did you mean `batch/v1/Job`?"),
            ("app/v1/Deployment", "did you mean `apps`?"),
            (
                "apps/v1/Frobnicator",
                "check it against a cluster that has it",
            ),
        ] {
            let KnownKind::Wrong(noticed) = look_up(text) else {
                panic!("{text} is not noticed");
            };
            assert!(noticed.ends_with(expected), "{noticed}");
        }
        let patterns = ["*", "apps/*"];
        for text in KNOWN.into_iter().chain(NOT_STORED).chain(patterns) {
            assert_eq!(look_up(text), KnownKind::Known, "{text}");
        }
        for text in [
            "example.com/v1/Deploymnt",
            "gateway.networking.k8s.io/v1/Gateway",
        ] {
            let kind = text.parse().unwrap();
            assert_eq!(look_up(text), KnownKind::OfOthers(kind), "{text}");
        }
    }

    #[test]
    fn a_kind_without_a_version_is_refused_with_the_one_that_was_meant() {
        for (text, expected) in [
            ("Deployment", "did you mean `apps/v1/Deployment`?"),
            ("Deploymnet", "did you mean `apps/v1/Deployment`?"),
            (
                "apps/Deploymnet",
                "`apps/Deploymnet` has no version: did you mean `apps/v1/Deployment`?",
            ),
            (
                "example.com/Widget",
                "`example.com/Widget` has no version: write it as `example.com/v1/Widget`",
            ),
        ] {
            let refused = check(text).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
        for text in
            KNOWN
                .into_iter()
                .chain(["*", "apps/*", "example.com/stable/Widget", "v1beta1/X"])
        {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
