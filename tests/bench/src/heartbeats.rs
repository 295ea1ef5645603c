//! Nodes that renew their leases every ten seconds and write their status once a minute.

use std::time::Duration;

use anyhow::Result;
use flyball_differential::{Subject, api};
use jiff::Timestamp;

use super::bed::{Bed, Nodes};
use super::report::Figures;
use super::wait::wait;

const LEASES: &str = "kube-node-lease";

/// Measures this number of nodes for this time, after the controllers have removed the taints of new nodes.
pub(super) async fn measure(subject: Subject, count: usize, time: Duration) -> Result<Figures> {
    let nodes = Nodes {
        count,
        settings: &["remove-not-ready-taint=false", "status-period=1m"],
        ..Nodes::NONE
    };
    let mut bed = Bed::on(subject, nodes).await?;
    let mut figures = Figures::default();
    bed.begin().await?;
    tokio::time::sleep(time).await;
    figures.push("CPU, s", bed.cpu().await?);
    // The measurement is invalid unless all nodes have heartbeats.
    let measured = Timestamp::now();
    wait("all nodes have another heartbeat", async || {
        let leases = api::list(bed.client(), "Lease", LEASES).await?;
        let renewed = leases.iter().filter(|lease| {
            let time = lease["spec"]["renewTime"].as_str();
            time.and_then(|time| time.parse::<Timestamp>().ok())
                .is_some_and(|time| time > measured)
        });
        Ok((renewed.count(), count))
    })
    .await?;
    bed.end_without_cpu(&mut figures).await?;
    Ok(figures)
}
