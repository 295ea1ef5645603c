//! HorizontalPodAutoscalers that read the use of CPU from a metrics API behind the aggregator.

use std::time::{Duration, Instant};

use anyhow::Result;
use flyball_cluster_tests::MetricsApi;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, create_all};
use super::converge::Shape;
use super::report::Figures;
use super::wait::wait;

/// The replicas of each Deployment before and after it is scaled.
const REPLICAS: usize = 2;
const SCALED: usize = 4;

/// Measures autoscalers from their creation until all have scaled their Deployments, and for this time after it.
pub(super) async fn measure(subject: Subject, count: usize, time: Duration) -> Result<Figures> {
    let mut bed = Bed::start(subject, count * SCALED).await?;
    let _metrics = MetricsApi::start(&bed.cluster).await?;
    // Each pod uses twice the target, whatever their number.
    let usage = json!({"*": {"app": {"cpu": "100m"}}});
    let values = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "metrics"},
        "data": {"resource": usage.to_string()},
    });
    create_all(bed.client(), NAMESPACE, [values].into_iter()).await?;
    let deployments = Shape {
        kind: "Deployment",
        owners: count,
        replicas: REPLICAS,
    };
    deployments.create(&bed).await?;
    bed.begin().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    create_all(bed.client(), NAMESPACE, (0..count).map(autoscaler)).await?;
    wait("all autoscalers have scaled", async || {
        let all = api::list(bed.client(), "Deployment", NAMESPACE).await?;
        let scaled = all.iter().filter(|one| one["spec"]["replicas"] == SCALED);
        Ok((scaled.count(), count))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(time).await;
    bed.end(&mut figures).await?;
    Ok(figures)
}

fn autoscaler(number: usize) -> Value {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": REPLICAS, "maxReplicas": SCALED,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "AverageValue", "averageValue": "50m"}}}],
        },
    })
}
