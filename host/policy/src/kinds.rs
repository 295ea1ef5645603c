//! Checks the kinds that a policy or a description names, and suggests the kind that was probably meant.

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

/// The longest difference of a misspelt name from the one that was meant, in bytes.
const MISSPELT: usize = 2;

/// Fails with a sentence if a text names a kind that Kubernetes does not have, although it looks like one of
/// Kubernetes' own. A host accepts it, because a later Kubernetes may have it. The check of a policy reports it.
pub(super) fn check_spelling(text: &str) -> Result<(), String> {
    let Ok(KindPattern::One(kind)) = text.parse::<KindPattern>() else {
        return Ok(());
    };
    let known_kinds = || kubernetes_kinds().map(|(kind, _)| kind);
    if known_kinds().any(|known| known == text) {
        return Ok(());
    }
    let (version, name) = text.rsplit_once('/').unwrap_or_default();
    let beside = known_kinds().filter_map(|known| known.rsplit_once('/'));
    let beside = beside.filter(|(known, _)| *known == version);
    let meant = nearest(name, beside.map(|(_, known)| known))
        .filter(|meant| meant.len().abs_diff(name.len()) <= MISSPELT);
    if let Some(meant) = meant {
        return Err(format!(
            "Kubernetes has no kind `{}`: did you mean `{version}/{meant}`?",
            printable(text)
        ));
    }
    // Groups of other projects have a domain.
    let group_of = |known: &'static str| known.split('/').next().unwrap_or_default();
    let is_own = known_kinds().any(|known| group_of(known) == kind.group);
    if !kind.group.is_empty() && !kind.group.contains('.') && !is_own {
        let groups = known_kinds().map(group_of);
        let meant = nearest(&kind.group, groups);
        let meant = meant.map(|meant| format!(": did you mean `{meant}`?"));
        return Err(format!(
            "Kubernetes has no group `{}`{}",
            printable(&kind.group),
            meant.unwrap_or_default()
        ));
    }
    Ok(())
}

/// Fails if a watch or a permission is on a kind without a version.
pub fn check_description(description: &Description) -> Result<(), DescriptionError> {
    let watched = description.watches.iter();
    let watched = watched.filter_map(|watch| watch.kind.clone().map(KindPattern::One));
    let asked = description.permissions.iter();
    let asked = asked.map(|permission| permission.kind.clone());
    watched.chain(asked).try_for_each(|kind| {
        check(&kind.to_string()).map_err(|problem| DescriptionError::Invalid {
            plugin: description.name.clone(),
            problem,
        })
    })
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
            let description = Description::read(&text).unwrap();
            let checked = check_description(&description).map_err(|error| error.to_string());
            assert_eq!(checked.is_ok(), is_valid, "{part}: {checked:?}");
            if let Err(problem) = checked {
                let meant = "`apps/Deployment` has no version: did you mean `apps/v1/Deployment`?";
                assert!(problem.ends_with(meant), "{problem}");
            }
        }
    }

    #[test]
    fn a_misspelt_kind_of_kubernetes_is_noticed_and_one_of_others_is_not() {
        for (text, meant) in [
            ("v1/Podd", "`v1/Pod`"),
            ("v1/Pods", "`v1/Pod`"),
            ("apps/v1/Deploymnet", "`apps/v1/Deployment`"),
            ("batch/v1/Jobs", "`batch/v1/Job`"),
            ("app/v1/Deployment", "`apps`"),
        ] {
            let noticed = check_spelling(text).unwrap_err();
            assert!(
                noticed.ends_with(&format!("did you mean {meant}?")),
                "{noticed}"
            );
        }
        let others = [
            "example.com/v1/Deploymnet",
            "authorization.k8s.io/v1/SelfSubjectAccessReview",
            "authentication.k8s.io/v1/TokenReview",
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            "autoscaling/v1/Scale",
            "policy/v1/Eviction",
            "v1/Binding",
            "*",
            "apps/*",
        ];
        for text in KNOWN.into_iter().chain(others) {
            assert_eq!(check_spelling(text), Ok(()), "{text}");
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
