//! Changes at a fixed rate, as in a busy cluster.

use std::time::Duration;

use anyhow::{Result, ensure};
use flyball_differential::api;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::bed::NAMESPACE;

/// The maximum number of concurrent changes. It binds if the server is slower than the rate.
const CONCURRENCY: usize = 16;

/// The field of a pod's status that changes.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// The message, which the pod's owner ignores.
    Message,
    /// The ready condition, which the pod's owner counts.
    Readiness,
}

/// The server, or this machine, can't keep up with the rate of the changes, so that the measurement is invalid.
#[derive(Debug, thiserror::Error)]
#[error("only {done} of {wanted:.0} changes were done in time")]
pub(super) struct TooSlow {
    done: u64,
    wanted: f64,
}

/// Changes that continue until they are stopped.
pub(super) struct Churn {
    task: JoinHandle<Result<u64>>,
    stop: tokio::sync::oneshot::Sender<()>,
    begun: Instant,
    rate: u32,
}

impl Churn {
    /// Starts numbered changes, `rate` per second.
    pub(super) fn start<F>(rate: u32, change: impl Fn(usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let (mut begun, mut done, mut changes) = (0, 0, FuturesUnordered::new());
            loop {
                tokio::select! {
                    _ = ticks.tick(), if changes.len() < CONCURRENCY => {
                        changes.push(change(begun));
                        begun += 1;
                    }
                    Some(changed) = changes.next() => {
                        changed?;
                        done += 1;
                    }
                    _ = &mut stopped => return Ok(done),
                }
            }
        });
        Self {
            task,
            stop,
            begun: Instant::now(),
            rate,
        }
    }

    /// Starts to change the pods' statuses, one pod after the other.
    pub(super) fn of_pods(client: &Client, pods: Vec<String>, rate: u32, change: Change) -> Self {
        let (client, begun) = (client.clone(), Timestamp::now());
        Self::start(rate, move |number| {
            let path = format!(
                "/api/v1/namespaces/{NAMESPACE}/pods/{}/status",
                pods[number % pods.len()]
            );
            let status = match change {
                Change::Message => json!({"message": format!("change {number} since {begun}")}),
                Change::Readiness => {
                    let is_ready = if (number / pods.len()).is_multiple_of(2) {
                        "True"
                    } else {
                        "False"
                    };
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]})
                }
            };
            let client = client.clone();
            async move {
                api::send(&client, "PATCH", &path, Some(&json!({"status": status})))
                    .await
                    .map(drop)
            }
        })
    }

    /// Stops the changes.
    ///
    /// # Errors
    /// A change was refused, or less than 90 % of the changes were done in time: `TooSlow`.
    pub(super) async fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        let done = self.task.await??;
        let wanted = self.begun.elapsed().as_secs_f64() * f64::from(self.rate);
        ensure!(done as f64 >= 0.9 * wanted, TooSlow { done, wanted });
        Ok(())
    }
}
