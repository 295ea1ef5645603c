//! A cluster in which nothing happens, with all controllers on: the memory that it takes to be there.

use std::time::Duration;

use anyhow::Result;
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};

use super::bed::{BURST, NAMESPACE, QPS, QUIET, make_namespace, plane};
use super::process::{peak_mib, resident_mib};
use super::report::Figures;
use super::wait;

/// How long the controllers get to fill their caches and to give back what they needed for it.
const SETTLED: Duration = Duration::from_secs(20);

/// Measures one subject with all the controllers that it has.
pub(super) async fn measure(subject: Subject) -> Result<Figures> {
    let cluster = plane(Options::default()).await?;
    let client = &cluster.client;
    let mut controllers = subject.start_with(&cluster, "controllers", "*", QPS, BURST, QUIET)?;
    make_namespace(client).await?;
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
