//! A cluster in which nothing happens, with all controllers enabled: what memory they take.

use std::time::Duration;

use anyhow::Result;
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};

use super::bed::{BURST, NAMESPACE, QPS, QUIET, create_namespace, plane};
use super::process::{peak_mib, resident_mib};
use super::report::Figures;
use super::wait;

/// How long the controllers get to fill their caches and to release the memory that they needed for
/// it.
const SETTLED: Duration = Duration::from_secs(20);

/// Measures one subject with all its controllers.
pub(super) async fn measure(subject: Subject) -> Result<Figures> {
    let cluster = plane(Options::default()).await?;
    let client = &cluster.client;
    let mut controllers = subject.start_with(&cluster, "controllers", "*", QPS, BURST, QUIET)?;
    create_namespace(client, NAMESPACE).await?;
    wait("there is a service account", async || {
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
