//! The leader, and how it hands over to the next one through their shared lease.

use anyhow::Result;
use flyball_cluster_tests::{Cluster, until};
use flyball_controlplane::Process;
use flyball_differential::{Subject, api};
use kube::Client;

/// The lease expires soon after its holder has ended.
const ELECTION: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];

/// The leader.
pub(crate) struct Lead<'a> {
    cluster: &'a Cluster,
    controllers: &'static str,
    leader: Process,
    /// The number of leaders so far.
    count: usize,
}

impl<'a> Lead<'a> {
    /// Starts the first leader, with these controllers.
    pub(crate) fn start(
        cluster: &'a Cluster,
        subject: Subject,
        controllers: &'static str,
    ) -> Result<Self> {
        Ok(Self {
            cluster,
            controllers,
            leader: start(cluster, subject, controllers, 1)?,
            count: 1,
        })
    }

    /// Starts another subject, which waits for the lease, ends the leader, and waits until the other
    /// holds the lease.
    pub(crate) async fn pass_to(&mut self, subject: Subject) -> Result<()> {
        let client = &self.cluster.client;
        let before = holder(client).await?;
        self.count += 1;
        let successor = start(self.cluster, subject, self.controllers, self.count)?;
        let mut ended = std::mem::replace(&mut self.leader, successor);
        ended.stop().await?;
        until("the successor leads", async || {
            let holder = holder(client).await?;
            Ok(if holder.is_empty() || holder == before {
                Err(format!("{holder} leads"))
            } else {
                Ok(())
            })
        })
        .await
    }

    /// Ends the leader. Stock doesn't handle SIGTERM, so that its status is not a success.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.leader.stop().await?;
        Ok(())
    }
}

/// Starts a subject that leads as soon as no other does.
fn start(cluster: &Cluster, subject: Subject, controllers: &str, number: usize) -> Result<Process> {
    let name = format!("leader-{number}");
    subject.start_with(cluster, &name, controllers, 500, 1000, &ELECTION)
}

/// The identity of the lease's holder; empty if there is none.
async fn holder(client: &Client) -> Result<String> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let lease = api::send(client, "GET", path, None).await?;
    Ok(lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}
