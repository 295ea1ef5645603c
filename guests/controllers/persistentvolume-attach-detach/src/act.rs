//! The writes of a pass. Their order keeps data safe: a volume leaves the node's status first, so that the kubelet does
//! not begin to use it; then the API server is asked whether the kubelet uses it; only then it is detached.
//!
//! Upstream: pkg/controller/volume/attachdetach/statusupdater/node_status_updater.go.
//! Upstream: pkg/volume/util/operationexecutor/operation_generator.go: verifyVolumeIsSafeToDetach.
//! Upstream: pkg/volume/csi/csi_attacher.go: Attach, Detach.

use flyball_sdk::prelude::*;
use flyball_sdk::{info, warning};
use flyball_volume_plugins::csi;

use crate::decide::{Decider, Force, force};
use crate::operations::{Action, Operations};
use crate::pass::{Attached, Detaching, Pass};
use crate::settings::Settings;
use crate::views::{Attachment, Node};
use crate::{events, metrics};

/// A write to a VolumeAttachment, and the volume that it is about.
pub(crate) struct Request {
    volume: String,
    action: Action,
    write: Write,
}

/// The node's status.
impl Pass<'_> {
    /// Writes the attached volumes to the node's status. If that fails, the volumes stay as they were, and it is tried
    /// again.
    ///
    /// # Errors
    /// The memo is full.
    pub(crate) fn write_status(&mut self) -> Result<(), Error> {
        let result = match self.is_stale {
            true => self.patch_status(),
            false => Ok(()),
        };
        let Err(error) = result else {
            return self.confirm();
        };
        let Decider {
            host,
            disks,
            settings,
        } = self.decider;
        let name = &self.observed.name;
        warning!(host, "can't write the status of node {name}: {error}");
        let volumes = &mut self.observed.memory.volumes;
        for Attached { volume, before } in self.attached.drain(..) {
            // The operation of a plugin that attaches at once has no VolumeAttachment to wait for.
            if disks.source(&volume).is_none() {
                Operations::succeed(host, &volume, name)?;
            }
            match before {
                Some(before) => drop(volumes.insert(volume, before)),
                None => drop(volumes.remove(&volume)),
            }
        }
        for Detaching { volume, before, .. } in self.detaching.drain(..) {
            if let Some(held) = volumes.get_mut(&volume) {
                held.standing = before;
            }
        }
        // The status has to be written even if nothing else changes until then.
        self.observed.memory.uid.clear();
        self.wait(settings.retry);
        Ok(())
    }

    /// Patches the node's status unless it has these volumes. A node that does not exist has no status.
    fn patch_status(&self) -> Result<(), ApiError> {
        let host = self.decider.host;
        let Some(node) = &self.observed.node else {
            return Ok(());
        };
        let volumes = self.observed.memory.reported();
        let is_same = volumes.len() == node.attached.len()
            && volumes.iter().all(|volume| node.attached.contains(volume));
        if is_same {
            return Ok(());
        }
        // An empty list is not in the API's objects.
        let volumes = match volumes.is_empty() {
            true => Value::Null,
            false => json!(volumes),
        };
        let patch = json!({"status": {"volumesAttached": volumes}});
        let name = &self.observed.name;
        let write = Write::patch(Node::KIND, "", name, PatchType::Strategic, &patch).on("status");
        host.write(write).found().map(drop)
    }

    /// Tells the pods that their volumes have been attached.
    fn confirm(&mut self) -> Result<(), Error> {
        let host = self.decider.host;
        let name = self.observed.name.clone();
        for attached in std::mem::take(&mut self.attached) {
            let volume = &attached.volume;
            info!(host, "attached volume {volume} to node {name}");
            if let Some(operation) = Operations::pending(host, volume, &name) {
                events::attached(host, &operation.audience);
            }
            metrics::observe_end(self.decider, &self.observed, volume, Action::Attach, true);
            Operations::succeed(host, volume, &name)?;
            self.observed.memory.refused.remove(volume);
        }
        Ok(())
    }
}

/// The VolumeAttachments.
impl Pass<'_> {
    /// The creations.
    pub(crate) fn creations(&mut self) -> Vec<Request> {
        let creations = std::mem::take(&mut self.creations).into_iter();
        creations
            .map(|(volume, object)| Request {
                volume,
                action: Action::Attach,
                write: Write::create(csi::ATTACHMENT, "", &object),
            })
            .collect()
    }

    /// Begins to detach volumes that the node does not use, or may lose. Returns the deletions of their
    /// VolumeAttachments; other volumes are detached then.
    ///
    /// # Errors
    /// The memo or a queue is full.
    pub(crate) fn deletions(&mut self) -> Result<Vec<Request>, Error> {
        let detaching = std::mem::take(&mut self.detaching);
        if detaching.is_empty() {
            return Ok(Vec::new());
        }
        let decider = self.decider;
        let (host, name) = (decider.host, self.observed.name.clone());
        let live = host.live().get::<Node>("", &name);
        let mut requests = Vec::new();
        for one in detaching {
            let volume = &one.volume;
            Operations::begin_detaching(host, volume, &name)?;
            let permitted = match &live {
                Ok(live) => permit(live.as_ref(), &one, decider.settings),
                Err(error) => Err(error.message()),
            };
            match permitted {
                Err(error) => self.failed(volume, Action::Detach, &error)?,
                Ok(forced) => {
                    info!(host, "detaching volume {volume} from node {name}");
                    metrics::count_forced(host, forced);
                    requests.extend(self.deletion(volume)?);
                }
            }
        }
        Ok(requests)
    }

    /// Returns the deletion of a volume's VolumeAttachment; `None` if it is being deleted already, or if the plugin needs none
    /// and so has detached the volume.
    fn deletion(&mut self, volume: &str) -> Result<Option<Request>, Error> {
        let disks = self.decider.disks;
        let Some(name) = disks.attachment_name(volume, &self.observed.name) else {
            return self.detached(volume).map(|()| None);
        };
        let attachment = self.observed.attachment(volume);
        if attachment.is_some_and(|attachment| attachment.meta.is_deleting()) {
            return self.follow(volume).map(|()| None);
        }
        Ok(Some(Request {
            volume: volume.into(),
            action: Action::Detach,
            write: Write::delete(csi::ATTACHMENT, "", &name),
        }))
    }

    /// Runs the requests.
    ///
    /// # Errors
    /// The memo or a queue is full.
    pub(crate) fn send(&mut self, requests: Vec<Request>) -> Result<(), Error> {
        let host = self.decider.host;
        let tagged = requests.into_iter().map(|request| {
            let Request {
                volume,
                action,
                write,
            } = request;
            ((volume, action), write)
        });
        for ((volume, action), result) in host.tagged_batch().extend(tagged).run() {
            match (action, result) {
                (Action::Attach, Ok(_)) => {}
                (Action::Attach, Err(error)) if error.is_already_exists() => {}
                (Action::Attach, Err(error)) => {
                    let message = &error.message;
                    let error = format!("kubernetes.io/csi: attacher.Attach failed: {message}");
                    self.failed(&volume, action, &error)?;
                }
                (Action::Detach, Ok(_)) => self.deleted(&volume)?,
                (Action::Detach, Err(error)) if error.is_not_found() => self.detached(&volume)?,
                (Action::Detach, Err(error)) => {
                    let message = &error.message;
                    let error = format!("can't delete the VolumeAttachment: {message}");
                    self.failed(&volume, action, &error)?;
                }
            }
        }
        Ok(())
    }

    /// Follows a detachment. It has ended once the VolumeAttachment is gone.
    fn deleted(&mut self, volume: &str) -> Result<(), Error> {
        let decider = self.decider;
        let attachment = decider.disks.attachment_name(volume, &self.observed.name);
        let found = match attachment {
            Some(name) => decider.host.get::<Attachment>("", &name)?,
            None => None,
        };
        match found {
            None => self.detached(volume),
            Some(attachment) => {
                self.observed.set_attachment(volume, attachment);
                self.follow(volume)
            }
        }
    }
}

/// Returns why a volume may be detached although the node uses it, as far as the API server confirms it; or why it may
/// not be detached. A node that does not exist uses nothing.
fn permit(
    live: Option<&Node>,
    detaching: &Detaching,
    settings: &Settings,
) -> Result<Option<Force>, String> {
    let Some(live) = live else {
        return Ok(detaching.force);
    };
    let is_over = detaching.force == Some(Force::Timeout);
    let force = force(Some(live), is_over, settings);
    match force.is_none() && live.uses(&detaching.volume) {
        true => Err("volume is still in use by node, according to Node status".into()),
        false => Ok(force),
    }
}
