//! Plays the steps of the demo: each acts on the cluster, and then waits for a condition while it shows the host's
//! reconciles.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::host::Host;
use super::table::{Played, Table, since};

/// How long a step's condition is waited for. The longest waits for the next minute.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often the condition is checked.
const POLL: Duration = Duration::from_millis(50);

/// Plays the steps of the demo and prints them.
pub(super) struct Stage<'a> {
    client: Client,
    host: &'a mut Host,
    table: Table,
    played: Vec<Played>,
    /// The prefix of the keys of a step that was begun, and the step.
    begun: Option<(&'static str, Step)>,
}

/// A step whose condition does not hold yet.
struct Step {
    title: String,
    start: Timestamp,
    /// The controllers that wrote something.
    controllers: BTreeSet<String>,
}

/// The state of the cluster as a step sees it.
pub(super) struct Observation {
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
            begun: None,
        }
    }

    /// Plays a step: acts once, and waits for the condition.
    pub(super) async fn step(
        &mut self,
        title: &str,
        act: impl AsyncFnOnce(&Client) -> Result<()>,
        look: impl AsyncFn(&Client) -> Result<Observation>,
    ) -> Result<()> {
        let step = self.act(title, act).await?;
        self.wait(step, look).await
    }

    /// Begins a step that takes long: acts once. The reconciles of keys with this prefix belong to the step, also those
    /// during the following steps. [`finish`](Self::finish) waits for its condition.
    pub(super) async fn begin(
        &mut self,
        title: &str,
        prefix: &'static str,
        act: impl AsyncFnOnce(&Client) -> Result<()>,
    ) -> Result<()> {
        let step = self.act(title, act).await?;
        self.begun = Some((prefix, step));
        Ok(())
    }

    /// Waits for the condition of the step that was begun.
    pub(super) async fn finish(
        &mut self,
        title: &str,
        look: impl AsyncFn(&Client) -> Result<Observation>,
    ) -> Result<()> {
        let (_, step) = self.begun.take().context("no step was begun")?;
        self.table.title(title);
        self.wait(step, look).await
    }

    async fn act(
        &mut self,
        title: &str,
        act: impl AsyncFnOnce(&Client) -> Result<()>,
    ) -> Result<Step> {
        self.host.reconciled()?;
        let start = Timestamp::now();
        self.table.title(title);
        act(&self.client)
            .await
            .with_context(|| format!("can't begin the step \"{title}\""))?;
        Ok(Step {
            title: title.into(),
            start,
            controllers: BTreeSet::new(),
        })
    }

    async fn wait(
        &mut self,
        mut step: Step,
        look: impl AsyncFn(&Client) -> Result<Observation>,
    ) -> Result<()> {
        let waits_since = Timestamp::now();
        loop {
            let observed = look(&self.client).await?;
            self.credit(step.start, &mut step.controllers)?;
            if observed.done {
                self.table.end(step.start, &observed.description);
                self.played.push(Played {
                    title: step.title,
                    controllers: step.controllers,
                    took: since(step.start),
                });
                return Ok(());
            }
            if since(waits_since) > PATIENCE {
                bail!(
                    "\"{}\" did not succeed within {} s: {}",
                    step.title,
                    PATIENCE.as_secs(),
                    observed.description
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Shows the new reconciles. Adds the controllers that wrote something to `controllers`, or to the controllers of
    /// the step that was begun.
    fn credit(&mut self, start: Timestamp, controllers: &mut BTreeSet<String>) -> Result<()> {
        let reconciled = self.host.reconciled()?;
        self.table.rows(start, &reconciled);
        for row in reconciled.iter().filter(|row| !row.wrote.is_empty()) {
            let credited = match &mut self.begun {
                Some((prefix, step)) if row.key.starts_with(*prefix) => &mut step.controllers,
                _ => &mut *controllers,
            };
            credited.insert(row.controller.clone());
        }
        Ok(())
    }

    /// Shows all steps with the controllers that wrote something, and how long each took.
    pub(super) fn summarise(&self) {
        self.table.summary(&self.played);
    }
}
