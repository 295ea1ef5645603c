//! The control planes that scenarios are played on, and the controllers that run on each.

use anyhow::{Context, Result};

/// A kind of control plane. Each set of scenarios is played on a fresh one.
#[derive(Debug, PartialEq, Eq)]
pub struct Plane {
    /// The folders of scenarios that are played on it: names of controllers without `-controller`.
    folders: &'static [&'static str],
    /// The controllers that run on it.
    controllers: &'static [&'static str],
    /// Whether its scenarios keep the machine busy. Then no other control plane runs meanwhile,
    /// since the number of their writes is a matter of time.
    pub(crate) is_busy: bool,
    /// More flags for the controllers, which override others.
    pub(crate) flags: &'static [&'static str],
}

/// All of them. A controller that would interfere with the scenarios of others runs on a plane of
/// its own: the garbage collector, or the cleaner of legacy tokens, which looks at Secrets only
/// once, when it starts.
static PLANES: &[Plane] = &[WORKLOADS, NAMESPACES, GARBAGE, LEGACY_TOKENS];

/// The control plane of the controllers that create pods.
pub const WORKLOADS: Plane = Plane {
    folders: &[
        "deployment",
        "job",
        "replicaset",
        "replicationcontroller",
        "root-ca-certificate-publisher",
        "serviceaccount",
    ],
    controllers: &[
        "deployment-controller",
        "job-controller",
        "replicaset-controller",
        "replicationcontroller-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ],
    is_busy: true,
    flags: &[],
};

const NAMESPACES: Plane = Plane {
    folders: &["namespace", "serviceaccount-token"],
    controllers: &[
        "deployment-controller",
        "namespace-controller",
        "replicaset-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "serviceaccount-token-controller",
    ],
    is_busy: false,
    flags: &[],
};

const GARBAGE: Plane = Plane {
    folders: &["garbage-collector"],
    controllers: &[
        "deployment-controller",
        "garbage-collector-controller",
        "replicaset-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ],
    is_busy: false,
    flags: &[],
};

const LEGACY_TOKENS: Plane = Plane {
    folders: &["legacy-serviceaccount-token-cleaner"],
    controllers: &[
        "legacy-serviceaccount-token-cleaner-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ],
    is_busy: false,
    // With a key, stock always runs the serviceaccount-token-controller, which writes to the
    // Secrets that the cleaner reads.
    flags: &["--service-account-private-key-file="],
};

impl Plane {
    /// The control plane for a folder of scenarios.
    ///
    /// # Errors
    /// No control plane is for the folder.
    pub(crate) fn of(folder: &str) -> Result<&'static Self> {
        let found = PLANES.iter().find(|plane| plane.folders.contains(&folder));
        found.with_context(|| {
            format!("no control plane is for scenarios of {folder}: add the folder to one in tests/differential/src/plane.rs")
        })
    }

    /// The controllers, in the syntax of `--controllers`.
    pub(crate) fn controllers(&self) -> String {
        self.controllers.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_is_a_controller_of_the_one_plane_that_plays_it() {
        let mut seen = Vec::new();
        for plane in PLANES {
            for folder in plane.folders {
                assert!(
                    plane
                        .controllers
                        .contains(&format!("{folder}-controller").as_str()),
                    "{folder}"
                );
                assert!(!seen.contains(folder), "{folder}");
                seen.push(folder);
            }
        }
    }
}
