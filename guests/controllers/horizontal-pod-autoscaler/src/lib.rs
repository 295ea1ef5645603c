//! horizontal-pod-autoscaler-controller: scales workloads by their metrics.
//!
//! Each autoscaler is reconciled once in a period. `reconcile` names the steps:
//!
//! 1. [`target`] reads the Scale of the workload, which may be of any kind.
//! 2. [`selectors`] lists its pods. No two autoscalers may scale the same pods: [`rivals`] finds the ones that do.
//! 3. [`evaluate`] computes the replicas that each metric asks for: [`sources`] reads its values, [`pods`] tells which
//!    pods count, and [`calculator`] computes. The greatest number wins.
//! 4. [`limits`] narrows the number by the autoscaler's rules and the recent changes in [`history`].
//! 5. [`target`] updates the Scale, and [`status`] reports the change and its reason.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: reconcileKey, reconcileAutoscaler, updateStatusIfNeeded,
//! updateStatus.

pub mod calculator;
pub mod describe;
pub mod evaluate;
pub mod failure;
pub mod history;
pub mod limits;
pub mod monitor;
pub mod pods;
pub mod propose;
pub mod resources;
pub mod rivals;
pub mod selectors;
pub mod settings;
pub mod sources;
pub mod status;
pub mod target;
pub mod views;
pub mod zero;

#[cfg(test)]
mod tests;

use flyball_sdk::error;
use flyball_sdk::prelude::*;

use history::History;
use monitor::{Action, Fault};
use propose::Proposed;
use settings::Settings;
use target::Scaled;
use views::{ABLE_TO_SCALE, Autoscaler, SCALED_TO_ZERO, Status};

/// The controller. Keys are autoscalers.
pub struct HorizontalPodAutoscaler;

export!(HorizontalPodAutoscaler);

impl Controller for HorizontalPodAutoscaler {
    fn describe() -> Description {
        describe::describe(&Settings::default())
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports invalid settings.
        describe::describe(&Settings::read(host).unwrap_or_default())
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        let start = host.now();
        monitor::count(host)?;
        let Some(autoscaler) = host.get_by_key::<Autoscaler>(&request.key)? else {
            history::forget(host, &request.key);
            rivals::forget(host, &request.key);
            return Ok(Outcome::Done);
        };
        let mut run = Run {
            host,
            settings: &settings,
            autoscaler: &autoscaler,
            history: History::recall(host, &request.key),
            status: autoscaler.status.clone(),
            now: start,
        };
        let before = run.history.clone();
        let done = run.autoscale();
        if run.history != before {
            run.history.remember(host, &autoscaler);
        }
        // An error doesn't cause an earlier retry: the period is kept, and the autoscaler's conditions show the error.
        if let Some((_, error)) = &done.error {
            error!(host, "{}: {error}", request.key);
        }
        let fault = done.error.map_or(Fault::None, |(fault, _)| fault);
        monitor::reconciled(host, done.action, fault, host.now().since(start));
        Ok(Outcome::RequeueAfter(settings.sync_period))
    }
}

/// The result of a reconcile.
#[derive(Debug, Default)]
struct Reconciled {
    action: Action,
    error: Option<(Fault, String)>,
}

impl Reconciled {
    fn failed(error: String) -> Self {
        Self {
            action: Action::None,
            error: Some((Fault::Internal, error)),
        }
    }
}

/// A reconcile of one autoscaler.
struct Run<'a> {
    host: &'a Host<'a>,
    settings: &'a Settings,
    autoscaler: &'a Autoscaler,
    history: History,
    /// The next status.
    status: Status,
    now: Time,
}

impl Run<'_> {
    fn autoscale(&mut self) -> Reconciled {
        let scaled = match target::read(self.host, self.autoscaler) {
            Ok(scaled) => scaled,
            Err(error) => return self.unscalable(&error),
        };
        let got = "the HPA controller was able to get the target's current scale";
        self.able(true, ("SucceededGetScale", got));
        let current = scaled.scale.spec.replicas;
        self.history.begin(current, self.now);
        let proposed = match propose::propose(self, &scaled.scale) {
            Ok(proposed) => proposed,
            Err(failed) => {
                let desired = self.status.desired_replicas;
                self.set_replicas(current, desired, failed.statuses, None);
                let _ = self.write_status();
                self.warn("FailedComputeMetricsReplicas", &failed.error);
                return Reconciled::failed(failed.error);
            }
        };
        let mut done = Reconciled::default();
        let mut rescaled = None;
        if proposed.rescale {
            if let Err(error) = self.rescale(scaled, &proposed) {
                return error;
            }
            done.action = match Action::of(current, proposed.replicas) {
                Action::Up => Action::Up,
                _ => Action::Down,
            };
            rescaled = Some(self.now);
        }
        let wanted = proposed.replicas;
        self.set_replicas(current, wanted, proposed.statuses, rescaled);
        monitor::wants(self.host, self.autoscaler, wanted);
        let errors = [self.write_status().err(), proposed.error];
        done.error = errors
            .into_iter()
            .flatten()
            .next()
            .map(|error| (Fault::Internal, error));
        done
    }

    /// Reports that the target has no Scale. The numbers of the status stay.
    fn unscalable(&mut self, error: &target::Unscalable) -> Reconciled {
        self.warn("FailedGetScale", &error.message);
        let message = format!(
            "the HPA controller was unable to get the target's current scale: {}",
            error.message
        );
        self.able(false, ("FailedGetScale", &message));
        let _ = self.write_status();
        let fault = if error.is_spec {
            Fault::Spec
        } else {
            Fault::Internal
        };
        Reconciled {
            action: Action::None,
            error: Some((fault, error.error.clone())),
        }
    }

    /// Updates the Scale, and reports it.
    fn rescale(&mut self, scaled: Scaled, proposed: &Proposed) -> Result<(), Reconciled> {
        let (current, replicas) = (scaled.scale.spec.replicas, proposed.replicas);
        let size = format!("New size: {replicas}; reason: {}", proposed.reason);
        if let Err(error) = target::update(self.host, scaled, replicas) {
            let error = error.message;
            self.warn("FailedRescale", &format!("{size}; error: {error}"));
            let message =
                format!("the HPA controller was unable to update the target scale: {error}");
            self.able(false, ("FailedUpdateScale", &message));
            let desired = self.status.desired_replicas;
            self.set_replicas(current, desired, proposed.statuses.clone(), None);
            let _ = self.write_status();
            let spec = &self.autoscaler.spec.target;
            let namespace = &self.autoscaler.meta.namespace;
            let what = format!("{}/{namespace}/{}", spec.kind, spec.name);
            return Err(Reconciled::failed(format!(
                "failed to rescale {what}: {error}"
            )));
        }
        let message =
            format!("the HPA controller was able to update the target scale to {replicas}");
        self.able(true, ("SucceededRescale", &message));
        let about = self.autoscaler.meta.reference(Autoscaler::KIND);
        self.host
            .emit(Event::normal(&about, "SuccessfulRescale", &size));
        if let Some(behavior) = &self.autoscaler.spec.behavior {
            let rules = if replicas > current {
                &behavior.scale_up
            } else {
                &behavior.scale_down
            };
            self.history.changed(rules, current, replicas, self.now);
        }
        zero::record(self, current, replicas);
        Ok(())
    }

    /// Writes the status if it has changed. A failure is reported, too.
    fn write_status(&self) -> Result<(), String> {
        if self.status == self.autoscaler.status {
            return Ok(());
        }
        let meta = &self.autoscaler.meta;
        let written = self
            .host
            .update_status(Autoscaler::KIND, meta, &self.status);
        written.map(drop).map_err(|error| {
            self.warn("FailedUpdateStatus", &error.message);
            format!(
                "failed to update status for {}: {}",
                meta.name, error.message
            )
        })
    }

    fn warn(&self, reason: &str, message: &str) {
        let about = self.autoscaler.meta.reference(Autoscaler::KIND);
        self.host.emit(Event::warning(&about, reason, message));
    }

    fn able(&mut self, is_able: bool, why: (&str, &str)) {
        status::set(&mut self.status, ABLE_TO_SCALE, is_able, why, self.now);
    }

    fn set_replicas(
        &mut self,
        current: i32,
        desired: i32,
        metrics: Vec<views::MetricStatus>,
        rescaled: Option<Time>,
    ) {
        let generation = self.autoscaler.meta.generation;
        let generation = self.settings.generation.then_some(generation);
        status::set_replicas(
            &mut self.status,
            generation,
            current,
            desired,
            metrics,
            rescaled,
        );
    }

    /// Removes the condition of a target that was scaled to zero.
    fn forget_zero(&mut self) {
        flyball_sdk::condition::remove(&mut self.status.conditions, SCALED_TO_ZERO);
    }
}
