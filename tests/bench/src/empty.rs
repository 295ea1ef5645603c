//! The memory of all controllers in an idle cluster, and of each of Flyball's built-in controllers: after a minute,
//! when the caches are filled and what only the start needed is released. Flyball unloads what was not used for 15 s.

use std::time::Duration;

use anyhow::Result;
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};

use super::bed::{BURST, NAMESPACE, QPS, QUIET, create_namespace, plane};
use super::process::{anonymous_kib, peak_mib, resident_mib};
use super::report::Figures;
use super::wait::wait;

/// The controllers without which a namespace is not usable.
const FEWEST: [&str; 2] = [
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
];

/// Measures one subject with all its controllers, after so long.
pub(super) async fn measure(subject: Subject, after: Duration) -> Result<Figures> {
    let (figures, _) = idle(subject, "*", after).await?;
    Ok(figures)
}

/// Measures the memory that each other built-in controller adds to a host with two of them. Clean pages, such as those
/// of compiled guests, don't count: the system can drop them.
pub(super) async fn each_built_in(after: Duration) -> Result<Figures> {
    let (_, (few_kib, few)) = idle(Subject::Flyball, &FEWEST.join(","), after).await?;
    let (_, (all_kib, all)) = idle(Subject::Flyball, "*", after).await?;
    let mut figures = Figures::default();
    figures.push("built-in controllers", all as f64);
    figures.push(
        "KiB of each, idle",
        (all_kib - few_kib) / (all - few) as f64,
    );
    Ok(figures)
}

/// Starts a subject with these controllers in an empty cluster, and waits for so long. Returns its figures, and its
/// anonymous memory in KiB with the number of its plugins (0 for stock).
async fn idle(subject: Subject, names: &str, after: Duration) -> Result<(Figures, (f64, usize))> {
    let cluster = plane(Options::default()).await?;
    let client = &cluster.client;
    let mut controllers = subject.start_with(&cluster, "controllers", names, QPS, BURST, QUIET)?;
    create_namespace(client, NAMESPACE).await?;
    wait("the service account exists", async || {
        Ok((
            api::list(client, "ServiceAccount", NAMESPACE).await?.len(),
            1,
        ))
    })
    .await?;
    tokio::time::sleep(after).await;
    let mut figures = Figures::default();
    figures.push("memory, MiB", resident_mib(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    let plugins = match subject {
        Subject::Flyball => cluster.plugins("controllers")?.len(),
        Subject::Stock | Subject::StockBefore => 0,
    };
    let anonymous = anonymous_kib(&controllers)?;
    controllers.stop().await?;
    cluster.shutdown().await?;
    Ok((figures, (anonymous, plugins)))
}
