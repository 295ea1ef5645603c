//! Decides how many replicas the target should have, and the reason.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: reconcileAutoscaler, computeReplicasForMetrics,
//! getUnableComputeReplicaCountCondition.

use flyball_scale::Scale;
use flyball_sdk::prelude::*;

use crate::evaluate::{Inputs, Invalid, Proposal, tolerances};
use crate::monitor::{Action, Fault};
use crate::views::MetricStatus;
use crate::{Run, limits, monitor, selectors, status, zero};

/// The replicas that the target should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposed {
    pub replicas: i32,
    /// Whether the target is to be updated.
    pub rescale: bool,
    /// The reason, for the event.
    pub reason: String,
    pub statuses: Vec<MetricStatus>,
    /// The error of metrics that did not matter.
    pub error: Option<String>,
}

/// The failure to make a proposal: the values that were read nevertheless, and the error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failed {
    pub statuses: Vec<MetricStatus>,
    pub error: String,
}

/// The replicas that the metrics ask for together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Total {
    replicas: i32,
    /// The metric that asks for the most.
    metric: String,
    statuses: Vec<MetricStatus>,
    error: Option<String>,
    /// Whether no metric yields anything.
    is_void: bool,
}

const BELOW: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE: &str = "Current number of replicas above Spec.MaxReplicas";

/// Decides how many replicas the target should have. If it is outside of the autoscaler's bounds, metrics don't matter.
///
/// # Errors
/// The metrics yield no number.
pub(crate) fn propose(run: &mut Run<'_>, scale: &Scale) -> Result<Proposed, Failed> {
    let spec = &run.autoscaler.spec;
    let (current, least) = (scale.spec.replicas, spec.min_replicas());
    let beyond = |replicas, reason: &str| Proposed {
        replicas,
        rescale: true,
        reason: reason.into(),
        ..Proposed::default()
    };
    if current == 0 {
        if !zero::goes_on(run.autoscaler, run.settings) {
            let message = "scaling is disabled since the replica count of the target is zero";
            let why = ("ScalingDisabled", message);
            status::set_active(&mut run.status, false, why, run.now);
            if !run.settings.scale_to_zero {
                run.forget_zero();
            }
            return Ok(Proposed::default());
        }
    } else if current > spec.max_replicas {
        return Ok(beyond(spec.max_replicas, ABOVE));
    } else if current < least {
        return Ok(beyond(least, BELOW));
    }
    let total = by_metrics(run, scale)?;
    let desired = total.replicas.max(0);
    let mut reason = match Action::of(current, desired) {
        Action::Up => format!("{} above target", total.metric),
        Action::Down => "All metrics below target".to_owned(),
        Action::None => String::new(),
    };
    let limited = limits::limit(
        spec,
        current,
        desired,
        &mut run.history,
        run.settings,
        run.now,
    );
    status::put(&mut run.status, limited.able, run.now);
    status::put(&mut run.status, limited.limited, run.now);
    let mut replicas = limited.replicas;
    // The target was scaled to zero, and the autoscaler does not allow that any more.
    if current == 0 && replicas < least && zero::has_scaled(run.autoscaler, run.settings) {
        replicas = least;
        if reason.is_empty() {
            reason = BELOW.to_owned();
        }
    }
    Ok(Proposed {
        replicas,
        rescale: replicas != current,
        reason,
        statuses: total.statuses,
        error: total.error,
    })
}

/// Computes the replicas that the metrics ask for. Metrics that yield nothing don't prevent the others from scaling up.
fn by_metrics(run: &mut Run<'_>, scale: &Scale) -> Result<Total, Failed> {
    let failed = |error: String| Failed {
        statuses: Vec::new(),
        error,
    };
    let found = selectors::pods(
        run.host,
        run.settings,
        run.autoscaler,
        &scale.status.selector,
    );
    let (selector, pods) = match found.map_err(|error| failed(error.to_string()))? {
        Ok(found) => found,
        Err(refused) => {
            run.warn(refused.event, &refused.message);
            let why = (refused.reason, &*refused.condition);
            status::set_active(&mut run.status, false, why, run.now);
            return Err(failed(refused.message));
        }
    };
    let inputs = Inputs {
        host: run.host,
        settings: run.settings,
        namespace: &run.autoscaler.meta.namespace,
        wanted: scale.spec.replicas,
        existing: scale.status.replicas,
        selector: &selector,
        pods: &pods,
        tolerances: tolerances(run.autoscaler, run.settings),
        now: run.now,
    };
    let metrics = &run.autoscaler.spec.metrics;
    let results: Vec<_> = metrics
        .iter()
        .map(|metric| {
            let start = run.host.now();
            let result = inputs.evaluate(metric);
            observe(run, &result, start, &metric.source);
            if let Err(invalid) = &result {
                run.warn(invalid.reason, &invalid.message);
            }
            result
        })
        .collect();
    let (total, invalid) = greatest(results);
    if let Some(invalid) = invalid
        && (total.is_void || total.replicas < scale.spec.replicas)
    {
        let message = format!(
            "the HPA was unable to compute the replica count: {}",
            invalid.message
        );
        let why = (invalid.reason, &*message);
        status::set_active(&mut run.status, false, why, run.now);
        return Err(Failed {
            statuses: total.statuses,
            error: total.error.unwrap_or_default(),
        });
    }
    let message = format!(
        "the HPA was able to successfully calculate a replica count from {}",
        total.metric
    );
    status::set_active(
        &mut run.status,
        true,
        ("ValidMetricFound", &message),
        run.now,
    );
    Ok(total)
}

/// Returns the greatest proposal with the values of all metrics, and the first metric that yields nothing.
fn greatest(results: Vec<Result<Proposal, Invalid>>) -> (Total, Option<Invalid>) {
    let count = results.len();
    let (mut total, mut first, mut invalid) = (Total::default(), None, 0);
    for result in results {
        let proposal = match result {
            Ok(proposal) => proposal,
            Err(error) => {
                total.statuses.push(MetricStatus::default());
                first.get_or_insert(error);
                invalid += 1;
                continue;
            }
        };
        total.statuses.push(proposal.status);
        if total.replicas == 0 || proposal.replicas > total.replicas {
            total.replicas = proposal.replicas;
            total.metric = proposal.metric;
        }
    }
    total.error = first.as_ref().map(|first: &Invalid| {
        format!(
            "invalid metrics ({invalid} invalid out of {count}), first error is: {}",
            first.error
        )
    });
    total.is_void = invalid >= count;
    (total, first)
}

fn observe(run: &Run<'_>, result: &Result<Proposal, Invalid>, start: Time, source: &str) {
    let (action, fault) = match result {
        Ok(proposal) => {
            let before = run.autoscaler.status.current_replicas;
            (Action::of(before, proposal.replicas), Fault::None)
        }
        Err(invalid) if invalid.is_spec => (Action::None, Fault::Spec),
        Err(_) => (Action::None, Fault::Internal),
    };
    let took = run.host.now().since(start);
    monitor::computed(run.host, action, fault, took, source);
}
