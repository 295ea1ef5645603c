//! The Workload and the PodGroup of a gang (KEP-4671): a job whose pods are scheduled all together or not at all.
//!
//! They are behind the feature gate [`GATE`]. Both are created before the job's first pods, which name the PodGroup. A
//! job that has already started gets neither: its pods are scheduled one by one. So are the pods of a job whose
//! Workload or PodGroup belongs to another object, is ambiguous or was deleted.
//!
//! Upstream: pkg/controller/job/job_scheduling_manager.go: shouldManageWorkloadForJob, ensureWorkloadAndPodGroup,
//! isNewJob, getOrCreateWorkload, validateWorkloadStructure, getOrCreatePodGroup, buildPodGroupTemplates,
//! createWorkloadForJob, createPodGroupForWorkload, computeWorkloadName, computePodGroupName, addSchedulingInformers.
//! Upstream: pkg/controller/job/util/utils.go: IsGangSchedulingCandidate.

use flyball_hash::{Fnv32a, fnv32a, safe_suffix};
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::{condition, debug, error};
use serde::Deserialize;

use crate::views::{Job, Pod};

/// The feature gate.
pub const GATE: &str = "WorkloadWithJob";
/// The index of Workloads by the job that they were created for.
const BY_JOB: &str = "workload-by-job";
/// The index of PodGroups by their Workload.
const BY_WORKLOAD: &str = "group-by-workload";
/// The maximum length of a name.
const MAX_NAME: usize = 253;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "scheduling.k8s.io/v1alpha2/Workload")]
struct Workload {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
    /// The object that it was created for.
    #[view(path = "spec.controllerRef")]
    target: Target,
    #[view(path = "spec.podGroupTemplates")]
    templates: Vec<GroupTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Target {
    api_group: String,
    kind: String,
}

/// The template of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupTemplate {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    /// Copied into the PodGroup as it is.
    scheduling_policy: Raw,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "scheduling.k8s.io/v1alpha2/PodGroup")]
struct PodGroup {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
}

/// Adds the watches and permissions for gangs to the controller's description. The API server serves these kinds only
/// behind a feature gate of its own.
pub fn describe(description: Description) -> Description {
    description
        .watch(watch::<Workload>())
        .watch(watch::<PodGroup>())
        .index(BY_JOB, Workload::KIND, "spec.controllerRef.name")
        .index(
            BY_WORKLOAD,
            PodGroup::KIND,
            "spec.podGroupTemplateRef.workload.workloadName",
        )
        .permission(Workload::KIND, ["create"])
        .permission(PodGroup::KIND, ["create"])
}

/// Returns the name of the PodGroup for the job's next pods; `None` if the pods are scheduled one by one. Creates the
/// Workload and the PodGroup if they are missing. `pods` are the job's existing pods.
///
/// # Errors
/// A read or a write failed. No pod may be created then.
pub fn ensure(host: &Host, job: &Job, pods: &[Pod]) -> Result<Option<String>, Error> {
    if !host.feature_enabled(GATE) || job.meta.is_deleting() || !is_gang(job) {
        return Ok(None);
    }
    let doing = || format!("ensuring Workload and PodGroup for Job {}", job.meta.key());
    let Some(workload) = workload(host, job, pods).doing(doing)? else {
        return Ok(None);
    };
    group(host, job, &workload).doing(doing)
}

/// Whether all pods of a job run at once, one for each index, and the job does not choose their group itself.
fn is_gang(job: &Job) -> bool {
    job.parallelism() > 1
        && job.is_indexed()
        && job.completions == job.parallelism
        && !job.sets_group()
}

/// Returns the job's Workload. Creates it for a new job.
fn workload(host: &Host, job: &Job, pods: &[Pod]) -> Result<Option<Workload>, Error> {
    let mut found = host
        .list::<Workload>()
        .namespace(&job.meta.namespace)
        .index(BY_JOB, &job.meta.name)
        .all()?;
    found.retain(|workload| workload.target.is_job());
    if found.len() > 1 {
        error!(
            host,
            "{} Workloads refer to {}",
            found.len(),
            job.meta.key()
        );
        return Ok(None);
    }
    let Some(workload) = found.pop() else {
        return is_new(job, pods)
            .then(|| create_workload(host, job))
            .transpose();
    };
    let is_usable = workload.meta.is_controlled_by(&job.meta.uid) && workload.templates.len() == 1;
    if !is_usable {
        debug!(
            host,
            "the Workload {} is not the one of {}",
            workload.meta.name,
            job.meta.key()
        );
    }
    Ok(is_usable.then_some(workload))
}

/// Returns the name of the Workload's PodGroup. Creates it if it is missing.
fn group(host: &Host, job: &Job, workload: &Workload) -> Result<Option<String>, Error> {
    let found = host
        .list::<PodGroup>()
        .namespace(&job.meta.namespace)
        .index(BY_WORKLOAD, &workload.meta.name)
        .all()?;
    match found.as_slice() {
        [] => create_group(host, job, workload).map(Some),
        [own] if own.meta.is_controlled_by(&job.meta.uid) => Ok(Some(own.meta.name.clone())),
        [other] => {
            let (name, job) = (&other.meta.name, job.meta.key());
            debug!(host, "the PodGroup {name} is not the one of {job}");
            Ok(None)
        }
        several => {
            let (count, name) = (several.len(), &workload.meta.name);
            error!(host, "{count} PodGroups refer to the Workload {name}");
            Ok(None)
        }
    }
}

impl Target {
    fn is_job(&self) -> bool {
        self.api_group == "batch" && self.kind == "Job"
    }
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

fn create_workload(host: &Host, job: &Job) -> Result<Workload, Error> {
    let name = workload_name(&job.meta.name, &job.meta.uid);
    let template = json!({
        "name": format!("{}-pgt-0", job.meta.name),
        "schedulingPolicy": {"gang": {"minCount": job.parallelism()}},
    });
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": name, "ownerReferences": [job.meta.controller_reference(Job::KIND)]},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.meta.name},
            "podGroupTemplates": [template],
        },
    });
    let creation = Write::create(Workload::KIND, &job.meta.namespace, &workload)
        .returning(&["metadata", "spec.podGroupTemplates"]);
    let created = host.write(creation)?.parse()?;
    host.emit(Event::normal(
        &job.meta.reference(Job::KIND),
        "WorkloadCreated",
        &format!("Created Workload {name} for Job {}", job.meta.name),
    ));
    Ok(created)
}

/// Creates the PodGroup, and returns its name. The job controls it; the Workload is a second owner, whose deletion it
/// does not block.
fn create_group(host: &Host, job: &Job, workload: &Workload) -> Result<String, Error> {
    let Some(template) = workload.templates.first() else {
        let name = &workload.meta.name;
        return Err(Error::failed(format!(
            "the Workload {name} has no templates of PodGroups"
        )));
    };
    let name = group_name(&workload.meta.name, &template.name);
    let owners = [
        job.meta.controller_reference(Job::KIND),
        workload.meta.owner_reference(Workload::KIND),
    ];
    let source = json!({"workloadName": workload.meta.name, "podGroupTemplateName": template.name});
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {
            "podGroupTemplateRef": {"workload": source},
            "schedulingPolicy": template.scheduling_policy,
        },
    });
    host.create(PodGroup::KIND, &job.meta.namespace, &group)?;
    Ok(name)
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
