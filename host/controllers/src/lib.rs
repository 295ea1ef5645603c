//! The table of Kubernetes' controllers: their names, feature gates, flags and policies.
//!
//! It is generated at build time from the manifests in `guests/controllers`: `controller.toml` and `policy.toml` in the
//! folder of each controller. The host, the builds and the test suites read this table, so adding a controller is adding a
//! folder.

pub mod flag;

use flag::Flag;

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// A controller of Kubernetes.
#[derive(Debug, PartialEq)]
pub struct Controller {
    /// The canonical name, such as `job-controller`.
    pub name: &'static str,
    /// Older names, which stay valid.
    pub aliases: &'static [&'static str],
    pub start: Start,
    /// Feature gates that can be off. The controller runs only if all of them are on.
    pub gates: &'static [&'static str],
    /// A boolean flag without which the controller does not run.
    pub enabled_by: Option<&'static str>,
    /// The minor number of the first release of Kubernetes that has the controller, if that is later than the current one.
    pub since: Option<u32>,
    /// Flags that concern only this controller, sorted by name.
    pub flags: &'static [ControllerFlag],
    /// The host's features that the guest needs besides the world.
    pub needs: &'static [Need],
    /// Whether `--min-resync-period` applies.
    pub resyncs: bool,
    /// Whether the feature gate `NativeHistograms` applies to the controller's histograms.
    pub native_histograms: bool,
    /// The built-in guest; none if Flyball does not have the controller.
    pub guest: Guest,
}

/// Whether `*` in `--controllers` enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// `*` enables it, if its gates are on.
    Default,
    /// It runs only if it is named.
    Disabled,
    /// It is one of cloud-controller-manager's: it runs if there is a cloud. Without one, its name is accepted.
    Cloud,
}

/// A flag of a controller.
#[derive(Debug, PartialEq)]
pub struct ControllerFlag {
    pub flag: Flag,
    pub sets: Sets,
    /// The range of valid integers.
    pub range: (i64, i64),
    /// Whether a duration of zero is an error.
    pub is_positive: bool,
}

/// The effect of a controller's flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sets {
    /// The host reads the flag itself, or nobody does yet.
    Nothing,
    /// The number of keys that are reconciled concurrently.
    Concurrency,
    /// The configuration value with this key.
    Config(&'static str),
    /// The configuration value with this key: the content of the file that the flag names, YAML or JSON, as JSON.
    File(&'static str),
    /// How often all objects are reconciled.
    ResyncPeriod,
}

/// Something that the host gives a guest through its configuration, or without which the guest can't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The CA bundle that pods use for the API server, as the value `root-ca`.
    RootCa,
    /// The key that signs tokens of service accounts.
    ServiceAccountKey,
    /// An authority of `--cluster-signing-*`.
    ClusterSigning,
    /// The name of the process's time zone, as the value `time-zone`.
    TimeZone,
}

/// A built-in guest.
#[derive(Debug, PartialEq)]
pub struct Guest {
    /// The name of the folder in `guests/controllers`: the controller's name without `-controller`.
    pub folder: &'static str,
    /// A sentence about the controller.
    pub about: &'static str,
    /// How complete it is, for the docs.
    pub state: &'static str,
    /// The policy, in TOML.
    pub policy: &'static str,
    pub scenarios: Scenarios,
}

/// How the differential suite plays the controller's scenarios.
#[derive(Debug, PartialEq, Eq)]
pub struct Scenarios {
    /// The name of the kind of control plane, in `tests/differential/src/plane.rs`.
    pub plane: &'static str,
    /// Scenarios that are played while the host is killed ten times.
    pub killed: &'static [&'static str],
    /// Scenarios that are played while the host is killed at each write, in addition to `killed`.
    pub killed_at_every_write: &'static [&'static str],
}

/// Returns the controller with this name or alias.
pub fn find(name: &str) -> Option<&'static Controller> {
    CONTROLLERS
        .iter()
        .find(|one| one.name == name || one.aliases.contains(&name))
}

/// Returns the canonical name of a controller, given its name or an alias.
pub fn canonical(name: &str) -> Option<&'static str> {
    find(name).map(|controller| controller.name)
}

/// Returns the controllers with a built-in guest, and their guests.
pub fn built_in() -> impl Iterator<Item = (&'static Controller, &'static Guest)> {
    CONTROLLERS
        .iter()
        .map(|controller| (controller, &controller.guest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_by_its_name_and_its_aliases() {
        for name in ["podgc", "pod-garbage-collector-controller"] {
            assert_eq!(canonical(name), Some("pod-garbage-collector-controller"));
        }
        assert_eq!(canonical("pods"), None);
    }

    #[test]
    fn a_folder_has_the_name_of_its_controller() {
        for (controller, guest) in built_in() {
            assert_eq!(controller.name, format!("{}-controller", guest.folder));
        }
    }
}
