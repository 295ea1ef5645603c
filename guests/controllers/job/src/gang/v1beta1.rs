//! The Workload and the PodGroup of a job in the API v1beta1.
//!
//! A job without a controller has both. Its Workload is made from `spec.scheduling`: by default, the pods are scheduled one
//! by one. The smallest number of pods of a gang follows the job's parallelism, also while it runs.
//!
//! A job that another controller has created has neither, unless an annotation names a template in the Workload of that
//! controller. Then it has a PodGroup from that template.
//!
//! Upstream: pkg/controller/job/job_scheduling_manager.go: getManagementMode, hasDelegatedPodGroup, filterControlledByJob,
//! ensureWorkloadAndPodGroup, syncGangMinCount, patchWorkloadMinCount, patchPodGroupMinCount, findParentWorkload,
//! getOrCreateDelegatedPodGroup, syncDelegatedPodGroupMinCount, getOrCreateWorkload, validateWorkloadStructure,
//! getOrCreatePodGroup, createWorkloadForJob, createPodGroup, getPodGroupTemplateByName.
//! Upstream: pkg/api/job/util.go: WorkloadInput, WorkloadItemForJob, defaultMinCountForJob.
//! Upstream: staging/src/k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder/builder.go: buildLeafTemplate,
//! compileSchedulingPolicy, compileDisruptionMode.
//! Upstream: staging/src/k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder/podgroup.go: newPodGroup.

use flyball_sdk::error;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use serde::Deserialize;

use super::{BY_JOB, BY_WORKLOAD, group_name, is_new, template_name, workload_name};
use crate::views::{Job, Pod};

/// The annotation that names the template of a PodGroup in the Workload of the job's controller; empty for its first one.
const TEMPLATE: &str = "scheduling.k8s.io/group-template-name";
/// The fields of a template that its PodGroup has, too.
const COPIED: [&str; 6] = [
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "resourceClaims",
    "priority",
];

/// The fields of a job that only matter here.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/Job")]
struct Scheduled {
    #[view(
        path = "metadata",
        fields(
            "ownerReferences",
            "annotations['scheduling.k8s.io/group-template-name']"
        )
    )]
    meta: Meta,
    #[view(path = "spec.scheduling")]
    scheduling: Scheduling,
}

/// `spec.scheduling` of a job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scheduling {
    #[serde(deserialize_with = "null_is_default")]
    scheduling_policy: Policy,
    #[serde(deserialize_with = "null_is_default")]
    scheduling_constraints: Constraints,
    disruption_mode: Option<Value>,
    #[serde(deserialize_with = "null_is_default")]
    resource_claims: Vec<Value>,
}

/// How the pods of a group are scheduled: `basic`, one by one, or as a `gang`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    basic: Option<Value>,
    gang: Option<Gang>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gang {
    /// How many pods are scheduled together at least.
    min_count: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Constraints {
    #[serde(deserialize_with = "null_is_default")]
    topology: Vec<Value>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "scheduling.k8s.io/v1beta1/Workload")]
struct Workload {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
    /// The object that it was created for.
    #[view(path = "spec.controllerRef")]
    target: Target,
    /// The templates of PodGroups. They are written back as they are.
    #[view(path = "spec.podGroupTemplates")]
    templates: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Target {
    api_group: String,
    kind: String,
    name: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "scheduling.k8s.io/v1beta1/PodGroup")]
struct PodGroup {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
    #[view(path = "spec.schedulingPolicy.gang.minCount")]
    min_count: Option<i32>,
}

/// Adds the watches and permissions to the controller's description.
pub(super) fn describe(description: Description) -> Description {
    description
        .watch(watch::<Workload>())
        .watch(watch::<PodGroup>())
        .index(BY_JOB, Workload::KIND, "spec.controllerRef.name")
        .index(BY_WORKLOAD, PodGroup::KIND, "spec.workloadRef.workloadName")
        .permission(Workload::KIND, ["create", "patch"])
        .permission(PodGroup::KIND, ["create", "patch"])
}

/// Adds the fields of jobs that only matter here to a watch of jobs.
pub(super) fn with_fields(jobs: Watch) -> Watch {
    jobs.and_view::<Scheduled>()
}

/// Returns the name of the PodGroup for the job's next pods, and creates what is missing.
pub(super) fn ensure(host: &Host, job: &Job, pods: &[Pod]) -> Result<Option<String>, Error> {
    if job.sets_group() {
        return Ok(None);
    }
    let Some(scheduled) = host.get_by_key::<Scheduled>(&job.meta.key())? else {
        return Ok(None);
    };
    let is_new = is_new(job, pods);
    let template = scheduled.meta.annotation(TEMPLATE);
    match (scheduled.meta.controller(), template) {
        (None, _) => of_root(host, job, &scheduled.scheduling, is_new),
        (Some(parent), Some(template)) => of_child(host, job, parent, template, is_new),
        // The parent cares for the job's pods.
        (Some(_), None) => Ok(None),
    }
}

/// The group of a job with a Workload of its own.
fn of_root(
    host: &Host,
    job: &Job,
    scheduling: &Scheduling,
    is_new: bool,
) -> Result<Option<String>, Error> {
    let Some(workload) = workload(host, job, scheduling, is_new)? else {
        return Ok(None);
    };
    let group = group(host, job, &workload, is_new)?;
    let wanted = scheduling.min_count(job);
    if let (Some(wanted), [template]) = (wanted, workload.templates.as_slice()) {
        if min_count(template).is_some_and(|current| current != wanted) {
            resize_workload(host, &workload, template, wanted)?;
        }
        if let Some(group) = &group {
            resize_group(host, group, wanted)?;
        }
    }
    Ok(group.map(|group| group.meta.name))
}

/// Returns the job's Workload. Creates it for a new job.
fn workload(
    host: &Host,
    job: &Job,
    scheduling: &Scheduling,
    is_new: bool,
) -> Result<Option<Workload>, Error> {
    let target = Target {
        api_group: "batch".into(),
        kind: "Job".into(),
        name: job.meta.name.clone(),
    };
    let mut found = workloads(host, &job.meta.namespace, &target)?;
    found.retain(|workload| workload.meta.is_controlled_by(&job.meta.uid));
    if found.len() > 1 {
        let (count, job) = (found.len(), job.meta.key());
        error!(host, "{count} Workloads refer to {job}");
        return Ok(None);
    }
    let Some(workload) = found.pop() else {
        return is_new
            .then(|| create_workload(host, job, scheduling))
            .transpose();
    };
    match workload.templates.len() {
        1 => Ok(Some(workload)),
        count => Err(Error::failed(format!(
            "workload {} for job {} has {count} PodGroupTemplates, want exactly 1",
            workload.meta.key(),
            job.meta.key()
        ))),
    }
}

/// Lists the Workloads that were created for an object.
fn workloads(host: &Host, namespace: &str, target: &Target) -> Result<Vec<Workload>, Error> {
    let named = host.list::<Workload>().namespace(namespace);
    let mut found = named.index(BY_JOB, &target.name).all()?;
    found.retain(|workload| workload.target == *target);
    Ok(found)
}

/// Lists the PodGroups of a Workload that a job controls.
fn groups(host: &Host, job: &Job, workload: &Workload) -> Result<Vec<PodGroup>, Error> {
    let of_workload = host.list::<PodGroup>().namespace(&job.meta.namespace);
    let mut found = of_workload.index(BY_WORKLOAD, &workload.meta.name).all()?;
    found.retain(|group| group.meta.is_controlled_by(&job.meta.uid));
    Ok(found)
}

/// Returns the PodGroup of the job's Workload. Creates it for a new job.
fn group(
    host: &Host,
    job: &Job,
    workload: &Workload,
    is_new: bool,
) -> Result<Option<PodGroup>, Error> {
    let mut found = groups(host, job, workload)?;
    match found.len() {
        0 => match workload.templates.first().filter(|_| is_new) {
            Some(template) => {
                let second_owner = workload.meta.owner_reference(Workload::KIND);
                create_group(host, job, workload, template, Some(second_owner)).map(Some)
            }
            None => Ok(None),
        },
        1 => Ok(found.pop()),
        count => {
            let name = &workload.meta.name;
            error!(host, "{count} PodGroups refer to the Workload {name}");
            Ok(None)
        }
    }
}

/// The group of a job from a template in its parent's Workload. Without the Workload or the template, the pods are scheduled
/// one by one.
fn of_child(
    host: &Host,
    job: &Job,
    parent: &OwnerReference,
    template: &str,
    is_new: bool,
) -> Result<Option<String>, Error> {
    let group = parent.api_version.split_once('/');
    let target = Target {
        api_group: group.map_or("", |(group, _)| group).into(),
        kind: parent.kind.clone(),
        name: parent.name.clone(),
    };
    let found = workloads(host, &job.meta.namespace, &target)?;
    let Some(workload) = found.first() else {
        return Ok(None);
    };
    let mut templates = workload.templates.iter();
    let template = match template {
        "" => templates.next(),
        name => templates.find(|template| template["name"] == name),
    };
    let Some(template) = template else {
        return Ok(None);
    };
    let own = groups(host, job, workload)?.into_iter().next();
    let group = match own {
        None if is_new => create_group(host, job, workload, template, None)?,
        None => return Ok(None),
        Some(own) => own,
    };
    if let Some(wanted) = min_count(template) {
        resize_group(host, &group, wanted)?;
    }
    Ok(Some(group.meta.name))
}

impl Scheduling {
    /// The smallest number of pods of the job's gang; `None` if its pods are scheduled one by one.
    fn min_count(&self, job: &Job) -> Option<i32> {
        let Policy { basic, gang } = &self.scheduling_policy;
        let gang = gang.as_ref().filter(|_| basic.is_none())?;
        let all = || job.parallelism.unwrap_or(1).max(1);
        Some(gang.min_count.unwrap_or_else(all))
    }

    /// The template of the job's PodGroup.
    fn template(&self, job: &Job) -> Value {
        let policy = match self.min_count(job) {
            Some(count) => json!({"gang": {"minCount": count}}),
            None => json!({"basic": {}}),
        };
        let mut template = json!({"name": template_name(job), "schedulingPolicy": policy});
        if let Some(class) = job.priority_class() {
            template["priorityClassName"] = class.into();
        }
        let topology = &self.scheduling_constraints.topology;
        if !topology.is_empty() {
            template["schedulingConstraints"] = json!({"topology": topology});
        }
        let mode = self.disruption_mode.as_ref();
        let has =
            |name: &&str| mode.is_some_and(|mode| mode.get(name).is_some_and(|one| !one.is_null()));
        if let Some(mode) = ["all", "single"].into_iter().find(has) {
            let mut chosen = Map::new();
            chosen.insert(mode.into(), json!({}));
            template["disruptionMode"] = chosen.into();
        }
        if !self.resource_claims.is_empty() {
            template["resourceClaims"] = json!(self.resource_claims);
        }
        template
    }
}

/// The smallest number of pods of a template's gang.
fn min_count(template: &Value) -> Option<i32> {
    let count = template["schedulingPolicy"]["gang"]["minCount"].as_i64()?;
    i32::try_from(count).ok()
}

fn create_workload(host: &Host, job: &Job, scheduling: &Scheduling) -> Result<Workload, Error> {
    let name = workload_name(&job.meta.name, &job.meta.uid);
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name, "ownerReferences": [job.meta.controller_reference(Job::KIND)]},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.meta.name},
            "podGroupTemplates": [scheduling.template(job)],
        },
    });
    let creation = Write::create(Workload::KIND, &job.meta.namespace, &workload)
        .returning(&["metadata", "spec.podGroupTemplates"]);
    let about = job.meta.reference(Job::KIND);
    let created = host.write(creation).inspect_err(|error| {
        let message = format!(
            "Failed to create Workload for Job {}: {}",
            job.meta.name, error.message
        );
        host.emit(Event::warning(&about, "FailedWorkloadCreate", &message));
    })?;
    let message = format!("Created Workload {name} for Job {}", job.meta.name);
    host.emit(Event::normal(&about, "WorkloadCreated", &message));
    created.parse()
}

/// Creates a PodGroup. The job controls it; the job's own Workload is a second owner, whose deletion it does not block.
fn create_group(
    host: &Host,
    job: &Job,
    workload: &Workload,
    template: &Value,
    second_owner: Option<OwnerReference>,
) -> Result<PodGroup, Error> {
    let template_name = template["name"].as_str().unwrap_or_default();
    let name = group_name(&workload.meta.name, template_name);
    let mut spec = Map::new();
    let source = json!({"workloadName": workload.meta.name, "templateName": template_name});
    spec.insert("workloadRef".into(), source);
    for field in COPIED {
        if let Some(value) = template.get(field).filter(|value| !value.is_null()) {
            spec.insert(field.into(), value.clone());
        }
    }
    let mut owners = vec![job.meta.controller_reference(Job::KIND)];
    owners.extend(second_owner);
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": spec,
    });
    host.create(PodGroup::KIND, &job.meta.namespace, &group)?;
    let message = format!("Created PodGroup {name} for Job {}", job.meta.name);
    let about = job.meta.reference(Job::KIND);
    host.emit(Event::normal(&about, "PodGroupCreated", &message));
    let meta = Meta {
        name,
        namespace: job.meta.namespace.clone(),
        ..Meta::default()
    };
    Ok(PodGroup {
        meta,
        min_count: min_count(template),
    })
}

/// Changes the size of the gang in a Workload's only template. The list of templates is replaced as a whole.
fn resize_workload(
    host: &Host,
    workload: &Workload,
    template: &Value,
    wanted: i32,
) -> Result<(), Error> {
    let mut resized = template.clone();
    resized["schedulingPolicy"]["gang"]["minCount"] = wanted.into();
    let patch = json!({"spec": {"podGroupTemplates": [resized]}});
    let Meta {
        namespace, name, ..
    } = &workload.meta;
    let patch = Write::patch(
        Workload::KIND,
        namespace,
        name,
        PatchType::Strategic,
        &patch,
    );
    host.write(patch)?;
    Ok(())
}

/// Changes the size of a PodGroup's gang, unless it has it or is no gang.
fn resize_group(host: &Host, group: &PodGroup, wanted: i32) -> Result<(), Error> {
    if group.min_count.is_none_or(|current| current == wanted) {
        return Ok(());
    }
    let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}}});
    let Meta {
        namespace, name, ..
    } = &group.meta;
    let patch = Write::patch(
        PodGroup::KIND,
        namespace,
        name,
        PatchType::Strategic,
        &patch,
    );
    host.write(patch)?;
    Ok(())
}
