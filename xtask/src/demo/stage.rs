//! Plays the steps of the demo: each acts on the cluster, and then waits for a condition while it shows the host's reconciles.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::host::Host;
use super::since;
use super::table::{Played, Table};

/// How long a step may take. The longest waits for the next minute.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often the condition is checked.
const POLL: Duration = Duration::from_millis(50);

/// Where the steps are played.
pub(super) struct Stage<'a> {
    client: Client,
    host: &'a mut Host,
    table: Table,
    played: Vec<Played>,
}

/// What a step sees of the cluster.
pub(super) struct Seen {
    /// Whether the step's condition holds.
    pub(super) done: bool,
    pub(super) description: String,
}

impl<'a> Stage<'a> {
    pub(super) fn new(client: Client, host: &'a mut Host) -> Self {
        Self {
            client,
            host,
            table: Table::new(),
            played: Vec::new(),
        }
    }

    /// Plays a step: acts once, and waits for the condition.
    pub(super) async fn step(
        &mut self,
        title: &str,
        act: impl AsyncFnOnce(&Client) -> Result<()>,
        look: impl AsyncFn(&Client) -> Result<Seen>,
    ) -> Result<()> {
        self.host.reconciled()?;
        let start = Timestamp::now();
        self.table.title(title);
        act(&self.client)
            .await
            .with_context(|| format!("can't begin the step \"{title}\""))?;
        let mut controllers = BTreeSet::new();
        loop {
            let seen = look(&self.client).await?;
            let reconciled = self.host.reconciled()?;
            let wrote = reconciled.iter().filter(|row| !row.wrote.is_empty());
            controllers.extend(wrote.map(|row| row.controller.clone()));
            self.table.rows(start, &reconciled);
            let took = since(start);
            if seen.done {
                self.table.end(start, &seen.description);
                self.played.push(Played {
                    title: title.into(),
                    controllers,
                    took,
                });
                return Ok(());
            }
            if took > PATIENCE {
                bail!(
                    "\"{title}\" did not succeed within {} s: {}",
                    PATIENCE.as_secs(),
                    seen.description
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Shows all steps with the controllers that wrote something, and how long each took.
    pub(super) fn summarise(&self) {
        self.table.summary(&self.played);
    }
}
