//! daemonset-controller: runs one pod on each node that suits it.
//!
//! `reconcile` names the steps, and the decision of each step is a pure function:
//!
//! 1. [`history`] finds or creates the revision of the current template.
//! 2. [`placement`] judges all nodes, by their labels ([`affinity`]) and [`taints`].
//! 3. [`ownership`] lists the pods, adopts orphans and releases pods that no longer match. [`observed`] holds
//!    everything that the decisions depend on.
//! 4. [`manage`] chooses the pods to create and delete so that each node has the pods that it should have, with
//!    [`backoff`]. If there is nothing to do, [`rollout`] chooses the pods that a rolling update replaces. [`act`]
//!    writes them, with [`template`].
//! 5. [`status`] counts the nodes.
//!
//! Changed nodes have a queue of their own ([`nodes`]), which enqueues only the DaemonSets that the nodes concern.
//!
//! There are no expectations: the host's cache shows this plugin all of its own writes that the API
//! server acknowledged. The only state between two calls is the memo's backoff of failed pods.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: syncDaemonSet, updateDaemonSet, manage.
//! Upstream: pkg/controller/daemon/update.go: rollingUpdate.

pub mod act;
pub mod affinity;
pub mod backoff;
pub mod describe;
pub mod history;
pub mod manage;
pub mod nodes;
pub mod observed;
pub mod ownership;
pub mod placement;
pub mod plan;
pub mod rollout;
pub mod settings;
pub mod status;
pub mod taints;
pub mod template;
#[cfg(test)]
mod tests;
pub mod views;

use std::time::Duration;

use flyball_sdk::error;
use flyball_sdk::prelude::*;

use act::Progress;
use backoff::Backoffs;
use history::History;
use observed::{ByNode, Observed, by_node};
use placement::{COMPARISON_OPERATORS, Requirements, judge_all};
use settings::Settings;
use views::{DaemonSet, Pod, Template};

pub struct DaemonSetController;

export!(DaemonSetController);

impl Controller for DaemonSetController {
    fn describe() -> Description {
        describe::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == describe::NODE_QUEUE {
            return nodes::reconcile(host, &request.key.name);
        }
        let Some(set) = host.get_by_key::<DaemonSet>(&request.key)? else {
            // The DaemonSet was deleted. The garbage collector deletes its pods.
            return Ok(Outcome::Done);
        };
        if set.selects_everything() {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            let about = set.meta.reference(DaemonSet::KIND);
            host.emit(Event::warning(&about, "SelectingAll", message));
            return Ok(Outcome::Done);
        }
        if set.meta.is_deleting() {
            // Its revisions may be deleted or orphaned before its pods, so that its status can't be
            // computed.
            return Ok(Outcome::Done);
        }
        sync(host, &set)
    }
}

/// Creates or deletes pods as the DaemonSet requires, and writes its status.
fn sync(host: &Host, set: &DaemonSet) -> Result<Outcome, Error> {
    let settings = Settings::read(host)?;
    let template: Template = set.template.parse()?.unwrap_or_default();
    let selector = set.selector()?;
    let history = history::history(host, set, &template.metadata, &selector)
        .doing(|| "failed to construct revisions of DaemonSet".into())?;
    let compares = host.feature_enabled(COMPARISON_OPERATORS);
    let fits = judge_all(host, &Requirements::of(&template.spec, compares))?;
    let mut pods = ownership::pods(host, set, &selector)?;
    let observed = Observed {
        set,
        fits: &fits,
        hash: &history.hash,
        now: host.now(),
    };

    let updated = update(host, &observed, &history, &pods, &settings);
    if updated.created {
        pods = ownership::listed_pods(host, set, &selector)?;
    }
    let by_node = by_node(&pods);
    let written = status::write(host, set, &status::status(&observed, &by_node))
        .doing(|| format!("error storing status for daemon set {}", set.meta.key()));
    let availability = status::next_availability(&observed, &by_node, host.now());

    let requeue_after = [updated.requeue_after, availability];
    let result = match (updated.failure, written) {
        (None, written) => written,
        (Some(failure), written) => {
            if let Err(error) = written {
                error!(host, "failed to update status: {error}");
            }
            Err(failure)
        }
    };
    let delay = requeue_after.into_iter().flatten().min();
    host.queue()
        .due_after(describe::QUEUE, &set.meta.key(), delay, result)
}

/// The result of [`update`].
struct Updated {
    created: bool,
    failure: Option<Error>,
    requeue_after: Option<Duration>,
}

/// Creates and deletes pods, and deletes old revisions. An update proceeds only if each node has the
/// pods that it should have. Otherwise the changes of pods cause the next reconcile.
fn update(
    host: &Host,
    observed: &Observed,
    history: &History,
    pods: &[Pod],
    settings: &Settings,
) -> Updated {
    let set = observed.set;
    let by_node = by_node(pods);
    let known = Backoffs::recall(host, set, settings, observed.now);
    let mut backoffs = known.clone();
    let managed = manage::plan(observed, &by_node, &mut backoffs, settings);
    if backoffs != known {
        backoffs.remember(host, set, settings);
    }
    let mut done = act::carry_out(host, observed, &managed, settings);
    if managed.is_empty() && set.is_rolling() {
        done = roll(host, observed, &by_node, settings);
    }
    let failure = done.failure.or_else(|| {
        history::clean_up(host, set, &history.old, pods)
            .doing(|| "failed to clean up revisions of DaemonSet".into())
            .err()
    });
    Updated {
        created: done.created,
        failure,
        requeue_after: managed.requeue_after,
    }
}

/// Replaces pods of old revisions.
fn roll(host: &Host, observed: &Observed, by_node: &ByNode, settings: &Settings) -> Progress {
    match rollout::plan(observed, by_node) {
        Ok(plan) => act::carry_out(host, observed, &plan, settings),
        Err(failure) => Progress {
            created: false,
            failure: Some(failure),
        },
    }
}
