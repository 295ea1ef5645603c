//! The memory of all controllers in an idle cluster.

use std::time::Duration;

use anyhow::Result;
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};

use super::bed::{BURST, NAMESPACE, QPS, QUIET, create_namespace, plane};
use super::process::{peak_mib, resident_mib};
use super::report::Figures;
use super::wait;

/// How long to wait for the controllers to fill their caches and to release temporary memory.
const SETTLED: Duration = Duration::from_secs(20);

/// Measures one subject with all its controllers.
pub(super) async fn measure(subject: Subject) -> Result<Figures> {
    let cluster = plane(Options::default()).await?;
    let client = &cluster.client;
    let mut controllers = subject.start_with(&cluster, "controllers", "*", QPS, BURST, QUIET)?;
    create_namespace(client, NAMESPACE).await?;
    wait("the service account exists", async || {
        Ok((
            api::list(client, "ServiceAccount", NAMESPACE).await?.len(),
            1,
        ))
    })
    .await?;
    tokio::time::sleep(SETTLED).await;
    let mut figures = Figures::default();
    figures.push("memory, MiB", resident_mib(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    controllers.stop().await?;
    cluster.shutdown().await?;
    Ok(figures)
}
