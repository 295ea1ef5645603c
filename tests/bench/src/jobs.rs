//! Jobs whose pods all run concurrently and end soon: from their creation until all are complete.

use std::time::Instant;

use anyhow::Result;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, create_all, template};
use super::report::Figures;
use super::wait::wait;

/// How long a pod runs.
const RUN_TIME: &str = "1s";

/// Measures `jobs` Jobs with `completions` completions each.
pub(super) async fn measure(subject: Subject, jobs: usize, completions: usize) -> Result<Figures> {
    let bed = Bed::start(subject, jobs * completions).await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    create_all(
        bed.client(),
        NAMESPACE,
        (0..jobs).map(|number| job(number, completions)),
    )
    .await?;
    wait("all jobs are complete", async || {
        let all = api::list(bed.client(), "Job", NAMESPACE).await?;
        Ok((all.iter().filter(|job| is_complete(job)).count(), jobs))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

fn job(number: usize, completions: usize) -> Value {
    let annotations = json!({"fake-kubelet.flyball.dev/exit-after": RUN_TIME});
    let mut template = template(&json!({"work": number.to_string()}), "work:1", &annotations);
    template["spec"]["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("work-{number}")},
        "spec": {"completions": completions, "parallelism": completions, "template": template},
    })
}

pub(super) fn is_complete(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == "Complete" && one["status"] == "True")
    })
}
