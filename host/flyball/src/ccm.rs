//! cloud-controller-manager as this binary stands for it: the flags that kube-controller-manager lacks, other defaults, and
//! its names.
//!
//! Upstream: k8s.io/cloud-provider/options, k8s.io/cloud-provider/config.

use clap::Command;
use flyball_controllers::flag::Effect::Yes;
use flyball_controllers::flag::Kind::{Duration, Int32};
use flyball_controllers::flag::{Flag, flag};

use crate::flags;

/// The component's name, which is the default name of its Lease, too.
pub(crate) const NAME: &str = "cloud-controller-manager";
/// The name of its configuration under `/configz`.
pub(crate) const CONFIGURATION: &str = "cloudcontrollermanager.config.k8s.io";
/// The default of `--secure-port`.
const PORT: &str = "10258";

/// The flags that kube-controller-manager lacks. `flyball run` has them too, for a process that runs all controllers.
pub(crate) const FLAGS: &[Flag] = &[
    flag(
        "concurrent-node-lifecycle-syncs",
        Int32,
        "1",
        Yes(
            "Number of nodes that the cloud-node-lifecycle-controller asks the cloud about at once",
        ),
    ),
    flag(
        "concurrent-node-status-updates",
        Int32,
        "0",
        Yes(
            "Number of nodes whose addresses the cloud-node-controller asks the cloud for at once; 0 for --concurrent-node-syncs",
        ),
    ),
    flag(
        "concurrent-node-syncs",
        Int32,
        "1",
        Yes("Number of nodes that the cloud-node-controller initialises at once"),
    ),
    flag(
        "concurrent-service-syncs",
        Int32,
        "1",
        Yes("Number of load balancers that are created or updated at once"),
    ),
    flag(
        "node-status-update-frequency",
        Duration,
        "5m0s",
        Yes("How often the cloud-node-controller asks the cloud for the addresses of nodes"),
    ),
];

/// Returns the command `cloud` with its subcommand `run`.
pub(crate) fn command() -> Command {
    let run = flags::command()
        .about("Run the cloud controllers alone, in place of a cloud-controller-manager")
        .mut_arg("secure-port", |arg| arg.default_value(PORT))
        .mut_arg("leader-elect-resource-name", |arg| arg.default_value(NAME));
    Command::new("cloud")
        .about("Run the cloud controllers, with a cloud that is a plugin")
        .subcommand_required(true)
        .subcommand(run)
}
