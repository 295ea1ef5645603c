//! The Workload and the PodGroup of a job before Kubernetes 1.37, in the API v1alpha2.
//!
//! Only a gang has them: an Indexed job all of whose pods run at once. The pods of a job whose Workload or PodGroup belongs to
//! another object, is ambiguous or was deleted are scheduled one by one.
//!
//! Upstream, in v1.36.3: pkg/controller/job/job_scheduling_manager.go and pkg/controller/job/util/utils.go:
//! IsGangSchedulingCandidate.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::{debug, error};
use serde::Deserialize;

use super::{BY_JOB, BY_WORKLOAD, group_name, is_new, template_name, workload_name};
use crate::views::{Job, Pod};

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

/// Adds the watches and permissions to the controller's description.
pub(super) fn describe(description: Description) -> Description {
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

/// Returns the name of the PodGroup for the job's next pods, and creates what is missing.
pub(super) fn ensure(host: &Host, job: &Job, pods: &[Pod]) -> Result<Option<String>, Error> {
    if !is_gang(job) {
        return Ok(None);
    }
    match workload(host, job, pods)? {
        Some(workload) => group(host, job, &workload),
        None => Ok(None),
    }
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

fn create_workload(host: &Host, job: &Job) -> Result<Workload, Error> {
    let name = workload_name(&job.meta.name, &job.meta.uid);
    let template = json!({
        "name": template_name(job),
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
