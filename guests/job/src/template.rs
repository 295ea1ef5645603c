//! The pods that a Job makes.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;

use crate::indexes::Indexes;
use crate::pods::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX, is_held};
use crate::views::Job;

/// The variable that tells containers the index of their pod.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The most that the API server keeps of a `generateName`.
const MAX_PREFIX: usize = 58;

/// The writes that make pods: one for each index, or for none.
///
/// # Errors
/// The template gives them no labels, by which the job could know them.
pub fn creations(
    job: &Job,
    numbers: &[Option<i64>],
    indexes: Option<&Indexes>,
) -> Result<Vec<Write>, Error> {
    let mut template = job.template.clone();
    if !is_held(&template.metadata.finalizers) {
        template.metadata.finalizers.push(FINALIZER.into());
    }
    let owner = job.meta.controller_reference(Job::KIND);
    let Some(indexes) = indexes else {
        if template.metadata.labels.is_empty() {
            return Err(Error::failed("unable to create pods, no labels"));
        }
        let creation = template.creation(&job.meta.namespace, &prefix(&job.meta.name), &owner);
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

/// Tells a container the index, unless it has a variable of that name.
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

/// What the names of a job's pods begin with. The dash is left out where the longest name has no
/// room for it.
fn prefix(job: &str) -> String {
    if job.len() < 253 {
        format!("{job}-")
    } else {
        job.into()
    }
}

/// What the names of an index's pods begin with: always with the index, which the server would cut
/// off a long name.
fn prefix_of_index(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let room = MAX_PREFIX - end.len();
    format!("{}{end}", job.get(..room.min(job.len())).unwrap_or(job))
}
