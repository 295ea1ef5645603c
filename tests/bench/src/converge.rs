//! The creation of workloads until all pods are ready, and rollouts to another image.

use std::time::Instant;

use anyhow::Result;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, create_all, owner};
use super::report::Figures;
use super::wait::wait;

/// A number of objects of one kind, each with a number of pods.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) kind: &'static str,
    pub(super) owners: usize,
    pub(super) replicas: usize,
}

impl Shape {
    pub(super) fn pods(self) -> usize {
        self.owners * self.replicas
    }

    fn objects(self) -> impl Iterator<Item = Value> {
        let Self { kind, replicas, .. } = self;
        (0..self.owners).map(move |number| owner(kind, &format!("web-{number}"), replicas))
    }

    /// Waits until the sum of `count` over the owners is the number of all pods.
    async fn wait_for(self, bed: &Bed, what: &str, count: impl Fn(&Value) -> u64) -> Result<()> {
        wait(what, async || {
            let owners = api::list(bed.client(), self.kind, NAMESPACE).await?;
            Ok((owners.iter().map(&count).sum::<u64>() as usize, self.pods()))
        })
        .await
    }

    /// Creates the owners, and waits until all pods are ready.
    pub(super) async fn create(self, bed: &Bed) -> Result<()> {
        create_all(bed.client(), NAMESPACE, self.objects()).await?;
        let ready = |owner: &Value| owner["status"]["readyReplicas"].as_u64().unwrap_or(0);
        self.wait_for(bed, "all pods are ready", ready).await
    }

    /// Gives the owners another image, and waits until all pods run it and are ready.
    pub(super) async fn roll(self, bed: &Bed) -> Result<()> {
        let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
        for number in 0..self.owners {
            let name = format!("web-{number}");
            api::patch(bed.client(), self.kind, NAMESPACE, &name, &change).await?;
        }
        let rolled = |owner: &Value| {
            let (status, wanted) = (&owner["status"], owner["spec"]["replicas"].as_u64());
            let counts = ["updatedReplicas", "readyReplicas", "replicas"]
                .map(|count| status[count].as_u64());
            let is_rolled = counts == [wanted; 3]
                && status["observedGeneration"] == owner["metadata"]["generation"];
            if is_rolled { wanted.unwrap_or(0) } else { 0 }
        };
        self.wait_for(bed, "all pods run the new image", rolled)
            .await
    }
}

/// Measures from the creation of the owners until all pods are ready.
pub(super) async fn up(subject: Subject, shape: Shape) -> Result<Figures> {
    let bed = Bed::start(subject, shape.pods()).await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    shape.create(&bed).await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Measures a rollout to another image.
pub(super) async fn roll(subject: Subject, shape: Shape) -> Result<Figures> {
    let mut bed = Bed::start(subject, shape.pods()).await?;
    shape.create(&bed).await?;
    bed.begin().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    shape.roll(&bed).await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}
