//! The control planes that scenarios are played on: which controllers run there, and who plays there.

use anyhow::{Context, Result};

/// A control plane, of which each set of scenarios gets a fresh one.
#[derive(Debug, PartialEq, Eq)]
pub struct Plane {
    /// The folders of scenarios that are played on it: controllers without the end `-controller`.
    folders: &'static [&'static str],
    /// Who controls it.
    controllers: &'static [&'static str],
    /// Whether its scenarios keep the machine busy: no other control plane runs meanwhile, since how many writes they take is
    /// a matter of time.
    pub(crate) is_busy: bool,
    /// More flags for who controls it, which win over others.
    pub(crate) flags: &'static [&'static str],
}

/// All of them. Controllers that reach into the scenarios of others are kept apart: one that collects what an owner leaves
/// behind, or one that looks at Secrets but once, when it starts.
static PLANES: &[Plane] = &[WORKLOADS, NAMESPACES, GARBAGE, LEGACY_TOKENS];

/// Where what runs pods is controlled.
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
    // With a key stock always runs the serviceaccount-token-controller, which writes to the Secrets that the cleaner looks at.
    flags: &["--service-account-private-key-file="],
};

impl Plane {
    /// The one for a folder of scenarios.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn of(folder: &str) -> Result<&'static Self> {
        let found = PLANES.iter().find(|plane| plane.folders.contains(&folder));
        found.with_context(|| {
            format!("no control plane is for scenarios of {folder}: name one in src/plane.rs")
        })
    }

    /// Its controllers, in the syntax of `--controllers`.
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
