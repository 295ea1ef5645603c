//! The release of Kubernetes whose control plane is built: the one that Flyball stands for, or an earlier one that it
//! emulates.
//!
//! `FLYBALL_KUBERNETES=1.36` chooses an earlier one, for the differential suite above all. Its Go module is beside the
//! current one, and hosts under test get `--emulated-version=1.36`.

use std::env;
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// The environment variable that chooses an earlier release, such as `1.36`.
pub const KUBERNETES: &str = "FLYBALL_KUBERNETES";

/// A release of Kubernetes.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Such as `1.36`.
    pub name: &'static str,
    /// The minor number, such as 36.
    pub minor: u32,
    /// The folder of its Go module in this crate.
    pub(crate) folder: &'static str,
    /// The folder of its binaries in the target folder; empty for the target folder itself.
    pub(crate) binaries: &'static str,
    /// Kinds that it has in another version than the current release: the kind, its current version and its own.
    kinds: &'static [(&'static str, &'static str, &'static str)],
}

/// The release that Flyball stands for.
static CURRENT: Release = Release {
    name: "1.37",
    minor: 37,
    folder: "go",
    binaries: "",
    kinds: &[],
};

/// The earlier releases, newest first.
static FORMER: &[Release] = &[Release {
    name: "1.36",
    minor: 36,
    folder: "go-1.36",
    binaries: "kubernetes-1.36",
    kinds: &[
        (
            "ClusterTrustBundle",
            "certificates.k8s.io/v1",
            "certificates.k8s.io/v1beta1",
        ),
        (
            "DeviceTaintRule",
            "resource.k8s.io/v1",
            "resource.k8s.io/v1beta2",
        ),
        (
            "PodCertificateRequest",
            "certificates.k8s.io/v1",
            "certificates.k8s.io/v1beta1",
        ),
        (
            "PodGroup",
            "scheduling.k8s.io/v1beta1",
            "scheduling.k8s.io/v1alpha2",
        ),
        (
            "StorageVersionMigration",
            "storagemigration.k8s.io/v1",
            "storagemigration.k8s.io/v1beta1",
        ),
        (
            "Workload",
            "scheduling.k8s.io/v1beta1",
            "scheduling.k8s.io/v1alpha2",
        ),
    ],
}];

impl Release {
    /// The release that the environment chooses; the current one if it chooses none.
    ///
    /// # Errors
    /// There is no module for the release that the environment names.
    pub fn chosen() -> anyhow::Result<&'static Self> {
        static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
        match CHOSEN.get_or_init(|| env::var(KUBERNETES).ok()) {
            Some(name) => Self::named(name),
            None => Ok(&CURRENT),
        }
    }

    /// The release before the current one.
    pub(crate) fn before() -> &'static Self {
        &FORMER[0]
    }

    fn named(name: &str) -> anyhow::Result<&'static Self> {
        if name == CURRENT.name {
            return Ok(&CURRENT);
        }
        let Some(found) = FORMER.iter().find(|release| release.name == name) else {
            let known: Vec<&str> = FORMER.iter().map(|release| release.name).collect();
            bail!(
                "{KUBERNETES}={name}: there is no such release in tests/controlplane: use {}, or unset it",
                known.join(" or ")
            )
        };
        Ok(found)
    }

    pub fn is_current(&self) -> bool {
        self == &CURRENT
    }

    /// The version of a kind in this release, given the current one.
    pub(crate) fn group_version<'a>(&self, kind: &str, current: &'a str) -> &'a str {
        let found =
            { self.kinds.iter() }.find(|(name, version, _)| *name == kind && *version == current);
        found.map_or(current, |(_, _, own)| own)
    }

    /// Replaces the versions of kinds in the text of JSON objects with those of this release. In the text, `apiVersion` is
    /// directly before `kind`.
    pub fn adapt(&self, text: &str) -> String {
        self.kinds
            .iter()
            .fold(text.to_owned(), |text, (kind, current, own)| {
                let of = |version: &str| format!(r#""apiVersion": "{version}", "kind": "{kind}""#);
                text.replace(&of(current), &of(own))
            })
    }
}

/// The flag with which a host under test emulates the chosen release; none if it is the current one.
///
/// # Errors
/// As [`Release::chosen`].
pub fn emulated_version() -> anyhow::Result<Option<String>> {
    let release = Release::chosen().context("can't choose the release")?;
    Ok((!release.is_current()).then(|| format!("--emulated-version={}", release.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_release_has_its_own_versions_of_kinds() {
        let text = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule"}, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}"#;
        let former = Release::named("1.36").unwrap();
        assert_eq!(former.adapt(text), text.replacen("/v1", "/v1beta2", 1));
        assert_eq!(CURRENT.adapt(text), text);
        let version = |kind| former.group_version(kind, "resource.k8s.io/v1");
        assert_eq!(version("DeviceTaintRule"), "resource.k8s.io/v1beta2");
        assert_eq!(version("ResourceSlice"), "resource.k8s.io/v1");
    }

    #[test]
    fn an_unknown_release_is_an_error_that_names_the_others() {
        let error = Release::named("1.20").unwrap_err().to_string();
        assert!(error.ends_with("use 1.36, or unset it"), "{error}");
        assert!(Release::named("1.37").unwrap().is_current());
    }
}
