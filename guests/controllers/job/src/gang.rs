//! The Workload and the PodGroup of a job, whose pods are scheduled as a group (KEP-5547).
//!
//! They are behind the feature gate [`GATE`]. Both are created before the job's first pods, which name the PodGroup. A
//! job that has already started gets neither: its pods are scheduled one by one.
//!
//! Upstream: pkg/controller/job/job_scheduling_manager.go: shouldManageWorkloadForJob, ensureWorkloadAndPodGroup,
//! isNewJob, podGroupTemplateName, computeWorkloadName, computePodGroupName, addSchedulingInformers.

mod v1alpha2;
mod v1beta1;

use flyball_hash::{Fnv32a, fnv32a, safe_suffix};
use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::views::{Job, Pod};

/// The feature gate.
pub const GATE: &str = "WorkloadWithJob";
/// The index of Workloads by the name of the object that they were created for.
const BY_JOB: &str = "workload-by-job";
/// The index of PodGroups by their Workload.
const BY_WORKLOAD: &str = "group-by-workload";
/// The maximum length of a name.
const MAX_NAME: usize = 253;

/// Which of the API's versions the controller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Before Kubernetes 1.37.
    V1Alpha2,
    V1Beta1,
}

impl Version {
    /// `None` if the feature gate is off.
    pub fn read(host: &Host) -> Option<Self> {
        let version = match host.release_at_least(37) {
            true => Self::V1Beta1,
            false => Self::V1Alpha2,
        };
        host.feature_enabled(GATE).then_some(version)
    }
}

/// Adds the watches and permissions to the controller's description. The API server serves these kinds only behind a
/// feature gate of its own.
pub fn describe(description: Description, version: Version) -> Description {
    match version {
        Version::V1Alpha2 => v1alpha2::describe(description),
        Version::V1Beta1 => v1beta1::describe(description),
    }
}

/// Adds the fields of jobs that only matter here to a watch of jobs.
pub fn with_fields(jobs: Watch, version: Version) -> Watch {
    match version {
        Version::V1Alpha2 => jobs,
        Version::V1Beta1 => v1beta1::with_fields(jobs),
    }
}

/// Returns the name of the PodGroup for the job's next pods; `None` if the pods are scheduled one by one. Creates the
/// Workload and the PodGroup if they are missing. `pods` are the job's existing pods.
///
/// # Errors
/// A read or a write failed. No pod may be created then.
pub fn ensure(host: &Host, job: &Job, pods: &[Pod]) -> Result<Option<String>, Error> {
    if job.meta.is_deleting() {
        return Ok(None);
    }
    let group = match Version::read(host) {
        None => return Ok(None),
        Some(Version::V1Alpha2) => v1alpha2::ensure(host, job, pods),
        Some(Version::V1Beta1) => v1beta1::ensure(host, job, pods),
    };
    group.doing(|| format!("ensuring Workload and PodGroup for Job {}", job.meta.key()))
}

/// Whether a job has never started. Each of these signs alone may be missing: ended pods are deleted, and a
/// suspended job has no start time.
fn is_new(job: &Job, pods: &[Pod]) -> bool {
    let status = &job.status;
    pods.is_empty()
        && status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && condition::get(&status.conditions, "Suspended").is_none()
}

/// The name of the only template in a job's Workload.
fn template_name(job: &Job) -> String {
    format!("{}-pgt-0", job.meta.name)
}

/// The name of a job's Workload: the job's name, and a hash of its UID.
pub(crate) fn workload_name(job: &str, uid: &str) -> String {
    // The text is Go's, of a value with its type.
    let hash = safe_suffix(fnv32a(format!("(types.UID){uid}").as_bytes()));
    let room = MAX_NAME - hash.len() - 1;
    format!("{}-{hash}", cut(job, room))
}

/// The name of a Workload's PodGroup: the names of both the Workload and the template, and a hash of them. If they are
/// too long together, each keeps at least half of the room.
pub(crate) fn group_name(workload: &str, template: &str) -> String {
    let mut hash = Fnv32a::default();
    hash.write(workload.as_bytes());
    hash.write(template.as_bytes());
    let hash = safe_suffix(hash.finish());
    let room = MAX_NAME - hash.len() - 2;
    let template = cut(
        template,
        (room / 2).max(room.saturating_sub(workload.len())),
    );
    let workload = cut(workload, room - template.len());
    format!("{workload}-{template}-{hash}")
}

/// The first `length` bytes of a name. Names are ASCII.
fn cut(name: &str, length: usize) -> &str {
    name.get(..length).unwrap_or(name)
}
