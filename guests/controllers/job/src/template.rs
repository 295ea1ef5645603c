//! The pods that a Job creates.
//!
//! Upstream: pkg/controller/job/job_controller.go: manageJob.
//! Upstream: pkg/controller/job/indexed_job_utils.go: addIndexFailureCountAnnotation, addCompletionIndexEnvVariables,
//! addCompletionIndexAnnotation, addCompletionIndexLabel, podGenerateNameWithIndex.
//! Upstream: pkg/controller/controller_utils.go: GetPodFromTemplate, getPodsPrefix.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;

use crate::observed::Observed;
use crate::pods::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX, has_finalizer};
use crate::views::Job;

/// The environment variable with the pod's index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest `generateName` prefix that the API server does not truncate.
const MAX_PREFIX: usize = 58;

/// Returns the writes that create pods: one for each element of `numbers`, which holds the pods'
/// indexes.
///
/// # Errors
/// The template has no labels, so the selector could not match its pods.
pub fn creations(observed: &Observed, numbers: &[Option<i64>]) -> Result<Vec<Write>, Error> {
    let job = observed.job;
    let mut template = job.template.clone();
    if !has_finalizer(&template.metadata.finalizers) {
        template.metadata.finalizers.push(FINALIZER.into());
    }
    let owner = job.meta.controller_reference(Job::KIND);
    let Some(indexes) = &observed.indexes else {
        if template.metadata.labels.is_empty() {
            return Err(Error::failed("unable to create pods, no labels"));
        }
        if let Some(group) = observed.group {
            let mut spec = template.spec.value();
            set_group(&mut spec, group);
            template.spec = Raw::of(&spec);
        }
        let creation =
            template.creation(&job.meta.namespace, &format!("{}-", job.meta.name), &owner);
        return Ok(vec![creation; numbers.len()]);
    };
    let mut spec = template.spec.value();
    for containers in ["initContainers", "containers"] {
        let containers = spec
            .get_mut(containers)
            .and_then(|containers| containers.as_array_mut());
        containers
            .into_iter()
            .flatten()
            .for_each(add_index_variable);
    }
    if let Some(group) = observed.group {
        set_group(&mut spec, group);
    }
    let of_index = |index: i64| {
        spec["hostname"] = format!("{}-{index}", job.meta.name).into();
        template.spec = Raw::of(&spec);
        let metadata = &mut template.metadata;
        metadata.labels.insert(INDEX.into(), index.to_string());
        metadata.annotations.insert(INDEX.into(), index.to_string());
        if job.backoff_limit_per_index.is_some() {
            let (failures, ignored) = indexes.failures_before(job, index);
            metadata
                .annotations
                .insert(FAILURES.into(), failures.to_string());
            metadata.annotations.remove(IGNORED_FAILURES);
            if ignored > 0 {
                metadata
                    .annotations
                    .insert(IGNORED_FAILURES.into(), ignored.to_string());
            }
        }
        let prefix = prefix_of_index(&job.meta.name, index);
        template.creation(&job.meta.namespace, &prefix, &owner)
    };
    Ok(numbers.iter().flatten().copied().map(of_index).collect())
}

/// Makes a pod one of a PodGroup.
fn set_group(spec: &mut serde_json::Value, group: &str) {
    spec["schedulingGroup"] = json!({"podGroupName": group});
}

/// Adds the index variable, unless the container already has a variable of that name.
fn add_index_variable(container: &mut serde_json::Value) {
    let env = &mut container["env"];
    if env.is_null() {
        *env = json!([]);
    }
    let Some(env) = env.as_array_mut() else {
        return;
    };
    if env
        .iter()
        .all(|variable| variable["name"] != INDEX_VARIABLE)
    {
        let field = format!("metadata.labels['{INDEX}']");
        env.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": field}}}));
    }
}

/// The `generateName` prefix of an index's pods. The job's name is cut so that the index is kept:
/// the API server would truncate the end of a long prefix.
fn prefix_of_index(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let room = MAX_PREFIX - end.len();
    format!("{}{end}", job.get(..room.min(job.len())).unwrap_or(job))
}
