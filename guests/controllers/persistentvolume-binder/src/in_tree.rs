//! Provisions a volume with a plugin.
//!
//! The name of the volume follows from the UID of its claim, so that a claim never gets two, whatever happens between
//! the steps. A plugin that needs time is asked again when it is due: the memo knows since when it works. If the memo is
//! lost, the time begins anew.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: provisionClaimOperation,
//! rescheduleProvisioning, getProvisionedVolumeNameForClaim.

use std::time::Duration;

use flyball_sdk::MicroTime;
use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::{
    ProvisionRequest, Provisioning, Volume as PluginVolume, VolumePlugin,
};
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::metrics::{self, Operation, Started};
use crate::names::{BOUND_BY_CONTROLLER, IN_TREE_FINALIZER, PROVISIONED_BY, SELECTED_NODE, YES};
use crate::provision::{FAILED, annotate, report};
use crate::views::{Claim, ClaimSpec, Class, Node, Volume};
use crate::write;

/// How often the creation of a volume is tried before its storage is deleted again.
const CREATIONS: u32 = 5;
/// The time between two of these attempts.
const CREATION_INTERVAL: Duration = Duration::from_secs(10);

/// The work for one claim: a plugin, and the class that it works for.
#[derive(Clone, Copy)]
struct Job<'a> {
    host: &'a Host<'a>,
    plugin: &'a dyn VolumePlugin,
    class: &'a Class,
}

/// How far the work is, while something has to be waited for.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Work {
    /// The UUID that the plugin got.
    uuid: String,
    since: MicroTime,
    /// The time of the next step.
    due: MicroTime,
    /// How often the volume could not be created.
    failures: u32,
}

/// A volume, and how long the plugin takes to create its storage.
struct Planned {
    volume: Value,
    after: Duration,
}

/// Why a plugin does not provision. The text is that of the event.
struct Failure {
    message: String,
    /// Whether the scheduler has to choose another node.
    reschedules: bool,
}

/// Takes the next step of provisioning a volume.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn provision(
    host: &Host,
    plugin: &dyn VolumePlugin,
    mut claim: Claim,
    class: &Class,
) -> Result<Outcome, Error> {
    let job = Job {
        host,
        plugin,
        class,
    };
    let saved = Work::saved(host, &claim.meta);
    if let Some(work) = &saved
        && work.due.0 > host.now()
    {
        return Ok(Outcome::RequeueAfter(work.due.0.since(host.now())));
    }
    let Some(ClaimSpec { spec }) = host.get_by_key(&claim.meta.key())? else {
        return Ok(Outcome::Done);
    };
    if let Err(failure) = job.check_source(&spec) {
        return job.fail(&mut claim, failure);
    }
    annotate(host, &mut claim, &class.provisioner)?;
    let name = format!("pvc-{}", claim.meta.uid);
    if host.live().get::<Volume>("", &name)?.is_some() {
        // The claim is bound to it when the cache has it.
        Work::forget(host, &claim.meta);
        return Ok(Outcome::Done);
    }
    let has_waited = saved.is_some();
    let work = saved.unwrap_or_else(|| Work::new(host));
    let Planned { volume, after } = match job.plan(&claim.meta, &name, &spec, &work)? {
        Ok(planned) => planned,
        Err(failure) => return job.fail(&mut claim, failure),
    };
    if !has_waited && !after.is_zero() {
        return work.wait(host, &claim.meta, after);
    }
    job.observe(work.since.0, true);
    let volume = completed(volume, &claim, plugin.name());
    job.create(&claim.meta, &name, &volume, work)
}

impl Job<'_> {
    /// Only external provisioners can fill a volume.
    fn check_source(&self, claim: &Value) -> Result<(), Failure> {
        if claim["dataSource"].is_null() {
            return Ok(());
        }
        Err(Failure::of(format!(
            "plugin {:?} is not a CSI plugin. Only CSI plugin can provision a claim with a datasource",
            self.plugin.name()
        )))
    }

    /// Asks the plugin for a volume with this name. `spec` is the spec of the claim.
    fn plan(
        &self,
        claim: &Meta,
        name: &str,
        spec: &Value,
        work: &Work,
    ) -> Result<Result<Planned, Failure>, Error> {
        let class = self.class;
        let class_name = &class.meta.name;
        if !self.plugin.supports_mount_options() && !class.mount_options.is_empty() {
            return Ok(Err(Failure::of(format!(
                "Mount options are not supported by the provisioner but StorageClass {class_name:?} has mount options [{}]",
                class.mount_options.join(" ")
            ))));
        }
        let provisioned = self.plugin.provision(&ProvisionRequest {
            volume_name: name,
            claim: spec,
            reclaim_policy: &class.reclaim_policy,
            parameters: &class.parameters,
            uuid: &work.uuid,
        });
        if let Provisioning::Refused(reason) = provisioned {
            let message = format!("Failed to create provisioner: {reason}");
            return Ok(Err(Failure::of(message)));
        }
        if let Some(node) = claim.annotation(SELECTED_NODE)
            && self.host.get::<Node>("", node)?.is_none()
        {
            let message = format!("Failed to get target node: node {node:?} not found");
            return Ok(Err(Failure::of(message)));
        }
        Ok(match provisioned {
            Provisioning::Created { volume, after } => Ok(Planned { volume, after }),
            Provisioning::Failed(reason) | Provisioning::Refused(reason) => {
                self.observe(work.since.0, false);
                Err(Failure {
                    message: format!(
                        "Failed to provision volume with StorageClass {class_name:?}: {reason}"
                    ),
                    reschedules: true,
                })
            }
        })
    }

    /// Creates the volume. After several failures, its storage is deleted.
    fn create(
        &self,
        claim: &Meta,
        name: &str,
        volume: &Value,
        mut work: Work,
    ) -> Result<Outcome, Error> {
        let Self { host, plugin, .. } = self;
        let error = match host.create(Volume::KIND, "", volume) {
            Err(error) if !error.is_already_exists() => error,
            _ => {
                Work::forget(host, claim);
                Backoff::new(Operation::Provision, &claim.uid).succeed(host);
                let message = format!(
                    "Successfully provisioned volume {name} using {}",
                    plugin.name()
                );
                let about = claim.reference(Claim::KIND);
                host.emit(Event::normal(&about, "ProvisioningSucceeded", &message));
                return Ok(Outcome::Done);
            }
        };
        work.failures += 1;
        if work.failures < CREATIONS {
            return work.wait(host, claim, CREATION_INTERVAL);
        }
        Work::forget(host, claim);
        let key = claim.key();
        let message = format!(
            "Error creating provisioned PV object for claim {key}: {}. Deleting the volume.",
            error.message
        );
        report(host, claim, FAILED, &message);
        if let Err(problem) = plugin.delete(PluginVolume::persistent(name, &volume["spec"])) {
            let message = format!(
                "Error cleaning provisioned volume for claim {key}: {problem}. Please delete manually."
            );
            report(host, claim, "ProvisioningCleanupFailed", &message);
        }
        Ok(Outcome::Done)
    }

    /// Reports a failure. The next attempt is due after a backoff, in the next period.
    fn fail(&self, claim: &mut Claim, failure: Failure) -> Result<Outcome, Error> {
        let host = self.host;
        if failure.reschedules {
            reschedule(host, claim)?;
        }
        report(host, &claim.meta, FAILED, &failure.message);
        let meta = &claim.meta;
        Started::new(Operation::Provision, &meta.key(), &meta.uid).count_error(host);
        Backoff::new(Operation::Provision, &meta.uid).fail(host);
        Work::forget(host, meta);
        Ok(Outcome::Done)
    }

    fn observe(&self, since: Time, is_done: bool) {
        let step = "volume_provision";
        metrics::observe_step(self.host, self.plugin.name(), step, since, is_done);
    }
}

impl Failure {
    fn of(message: String) -> Self {
        Self {
            message,
            reschedules: false,
        }
    }
}

impl Work {
    fn new(host: &Host) -> Self {
        let now = MicroTime(host.now());
        Self {
            uuid: uuid(host),
            since: now,
            due: now,
            failures: 0,
        }
    }

    fn saved(host: &Host, claim: &Meta) -> Option<Self> {
        host.memo().get(&Self::key(claim))
    }

    /// Goes on after this time.
    fn wait(mut self, host: &Host, claim: &Meta, time: Duration) -> Result<Outcome, Error> {
        self.due = MicroTime(host.now() + time);
        let key = Self::key(claim);
        host.memo().put(&key, &self, &claim.uid, Duration::ZERO)?;
        Ok(Outcome::RequeueAfter(time))
    }

    fn forget(host: &Host, claim: &Meta) {
        host.memo().remove(&Self::key(claim));
    }

    fn key(claim: &Meta) -> String {
        format!("provisioning/{}", claim.uid)
    }
}

/// Lets the scheduler choose another node, by removing its choice.
fn reschedule(host: &Host, claim: &mut Claim) -> Result<(), Error> {
    if !claim.has(SELECTED_NODE) {
        return Ok(());
    }
    let change = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
    write::update(host, Claim::KIND, &mut claim.meta, &change)
        .doing(|| format!("rescheduling claim {}", claim.meta.key()))
}

/// Completes a volume: it is bound to its claim from the beginning, and keeps until its storage is deleted.
fn completed(mut volume: Value, claim: &Claim, plugin: &str) -> Value {
    let reference = CoreObjectReference::to(Claim::KIND, &claim.meta);
    volume["spec"]["claimRef"] = json!(reference);
    volume["spec"]["storageClassName"] = claim.class().into();
    let metadata = &mut volume["metadata"];
    metadata["annotations"][BOUND_BY_CONTROLLER] = YES.into();
    metadata["annotations"][PROVISIONED_BY] = plugin.into();
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
        volume["metadata"]["finalizers"] = json!([IN_TREE_FINALIZER]);
    }
    volume
}

/// A random UUID of version 4.
fn uuid(host: &Host) -> String {
    let mut bytes = host.imports().random_bytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
