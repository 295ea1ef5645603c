//! persistentvolume-attach-detach-controller: attaches the volumes of pods to their nodes, and detaches them.
//!
//! [Keys](key) name nodes. A [pass](pass) over a node
//!
//! 1. [observes](observe) which volumes its pods need ([`desired`]), and which ones it has: those in its [`memory`], and
//!    those that only a VolumeAttachment shows, which may be attached;
//! 2. [decides](decide) about each volume, given the [`operations`] on it at this node and at others;
//! 3. [writes](act) the node's status and the VolumeAttachments, and tells the pods ([`events`], [`multi_attach`]).
//!
//! For CSI volumes an external attacher does the work. It is asked for by a VolumeAttachment, and reports in its status.
//! Other plugins attach at once.
//!
//! The memo holds what was attached, operations and waiting times. If it is emptied, all of that begins anew as after a
//! restart: volumes in the status of nodes are attached, and other ones with a VolumeAttachment may be.
//!
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: Run, podAdd, podUpdate, podDelete,
//! nodeAdd, nodeUpdate, nodeDelete.

pub mod act;
pub mod decide;
pub mod describe;
pub mod desired;
pub mod disk;
pub mod events;
pub mod key;
pub mod memory;
pub mod metrics;
pub mod multi_attach;
pub mod observe;
pub mod operations;
pub mod pass;
pub mod settings;
pub mod time;
pub mod verify;
pub mod views;
pub mod wake;

#[cfg(test)]
mod tests;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use flyball_volume_plugins::{Plugins, Volume};

use decide::Decider;
use disk::Disks;
use key::{Item, Look};
use settings::Settings;

/// The controller.
pub struct AttachDetach;

export!(AttachDetach);

impl Controller for AttachDetach {
    fn describe() -> Description {
        describe::description(false)
    }

    fn describe_configured(host: &Host) -> Description {
        // Only the mock of the plugins has volumes without a source.
        let volume = json!({});
        let plugins = Plugins::read(host);
        let is_mock = |plugins: Plugins| plugins.find_by_volume(Volume::of_pod(&volume)).is_ok();
        describe::description(plugins.is_ok_and(is_mock))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        if request.queue == wake::CLAIMS {
            return wake::nodes_of_claim(host, key);
        }
        let settings = Settings::read(host)?;
        let plugins = Plugins::read(host)?;
        let disks = Disks::new(host, &plugins);
        let decider = Decider {
            host,
            disks: &disks,
            settings: &settings,
        };
        match Item::parse(key) {
            Item::Node(node) => pass::run(&decider, &node),
            Item::Verification(node) => verify::run(&decider, &node),
            Item::All(Look::Verification) if !settings.verifies => Ok(Outcome::Done),
            Item::All(Look::Verification) => wake::all_nodes(host, Item::Verification),
            Item::All(Look::Drivers) => wake::nodes_of_drivers(host),
            Item::All(Look::Nodes) => wake::all_nodes(host, Item::Node),
        }
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        wake::route(host, deltas)
    }
}
