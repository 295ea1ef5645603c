//! A worker: takes keys from one queue, one at a time, and calls the guest's `reconcile` for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use flyball_limits::quarantine::{Admission, Pass};
use flyball_plugin::{CallError, Outcome, Plugin};
use flyball_recording::Input;
use flyball_rehearse::of_reconcile;
use flyball_traces::Trace;
use flyball_types::LabelSelector;
use flyball_workqueue::{Item, Priority};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::context::PluginContext;
use crate::guest_call::GuestCall;
use crate::history::HistoryEntry;
use crate::queue::{Cause, Queue, Reason};
use crate::split::{AGAIN, Candidate, Ended, Turn};
use crate::telemetry::reconcile_span;
use crate::traces::ReconcileSpan;

/// Reconciles keys of one queue, one at a time.
#[derive(Clone)]
pub(super) struct Worker {
    plugin: Plugin,
    context: Arc<PluginContext>,
    /// The queue's number in the description.
    queue: usize,
}

/// Works on a queue with at most `most` workers until `stop`, or until the queue is shut down and empty.
pub(super) async fn work(worker: Worker, most: u32, stop: CancellationToken) {
    let run = |idle| worker.clone().run(idle, stop.clone());
    run_on_demand(most as usize, &stop, run).await;
}

/// Runs workers until all have ended. A worker is started when all others are busy, so that a plugin that may have many
/// costs only as much as it uses. None is started after `stop`.
async fn run_on_demand<F>(most: usize, stop: &CancellationToken, run: impl Fn(Arc<Idle>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let idle = Arc::<Idle>::default();
    let mut workers = JoinSet::new();
    workers.spawn(run(idle.clone()));
    loop {
        tokio::select! {
            // A worker that ends because of the stop notifies too.
            () = idle.none.notified(), if workers.len() < most => if !stop.is_cancelled() {
                workers.spawn(run(idle.clone()));
            },
            ended = workers.join_next() => if ended.is_none() { return },
        }
    }
}

/// The workers of a queue that wait for a key.
#[derive(Default)]
struct Idle {
    count: AtomicUsize,
    /// Notified when the last one begins to work.
    none: Notify,
}

/// A worker waits for a key while this lives.
struct Waiting<'a>(&'a Idle);

impl Idle {
    fn enter(&self) -> Waiting<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.none.notify_one();
        }
    }
}

impl Worker {
    pub(super) fn new(plugin: Plugin, context: Arc<PluginContext>, queue: usize) -> Self {
        Self {
            plugin,
            context,
            queue,
        }
    }

    /// Works until `stop`, or until the queue is shut down and empty.
    async fn run(self, idle: Arc<Idle>, stop: CancellationToken) {
        let queue = &self.context.queues[self.queue];
        loop {
            let item = {
                let _idle = idle.enter();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    item = queue.keys.get() => item,
                }
            };
            let Some(item) = item else { return };
            self.dispatch(queue, item).await;
        }
    }

    /// Lets the version reconcile a key whose turn it is.
    async fn dispatch(&self, queue: &Queue, item: Item<Arc<str>, Cause>) {
        let (split, own) = (&self.context.split, &self.context.settings.digest);
        let key = item.key().clone();
        let has_labels =
            |selector: &LabelSelector| self.context.has_labels(&queue.name, &key, selector);
        match split.turn(own, &key, has_labels) {
            Turn::Own => drop(self.admit(queue, item).await),
            Turn::Running(rule) => rule.count_running(self.admit(queue, item).await),
            Turn::Candidate(rule, candidate) => {
                let worker = self.of_candidate(&candidate);
                rule.count_candidate(worker.admit(queue, item).await);
            }
            Turn::Later => {
                let cause = item.causes().first.clone();
                queue.keys.add_after(key, AGAIN, item.priority(), cause);
            }
        }
    }

    /// A worker of the candidate on the same queue.
    fn of_candidate(&self, candidate: &Candidate) -> Self {
        let (plugin, context) = (candidate.plugin().clone(), candidate.context().clone());
        Self::new(plugin, context, self.queue)
    }

    /// Reconciles a key, unless the plugin is quarantined. Returns how that ended; none if it did not begin.
    async fn admit(&self, queue: &Queue, item: Item<Arc<str>, Cause>) -> Option<Ended> {
        let key = item.key().clone();
        let held_back = || Cause {
            reason: Reason::HeldBack,
            trace: item.causes().first.trace.clone(),
        };
        let pass = match self.context.limits.quarantine.admit(self.queue, &key).await {
            Admission::Go(pass) => pass,
            Admission::Later(delay) => {
                queue
                    .keys
                    .add_after(key, delay, Priority::Normal, held_back());
                return None;
            }
            // Another version may take the key.
            Admission::Closed => {
                queue.keys.add(key, Priority::Normal, held_back());
                return None;
            }
        };
        let attempt = queue.keys.num_requeues(&key);
        let span = reconcile_span(self.context.name(), &queue.name, &key, attempt);
        let reconcile = self.reconcile(queue, &item, attempt, pass);
        Some(reconcile.instrument(span).await)
    }

    async fn reconcile(
        &self,
        queue: &Queue,
        item: &Item<Arc<str>, Cause>,
        attempt: u32,
        pass: Pass<'_>,
    ) -> Ended {
        let key = item.key().clone();
        let started = Instant::now();
        let mut span = ReconcileSpan::begin(&self.context.telemetry.tracer, item);
        span.describe(self.context.name(), &queue.name, item, attempt);
        let requeued = |trace| Cause {
            reason: Reason::Requeued { by: key.clone() },
            trace,
        };
        let asked = requeued(span.trace());
        let call = GuestCall::new(self.context.clone(), key.clone(), asked);
        let session = self.context.recorder.begin(call.clone());
        let mut result = self
            .plugin
            .reconcile(session.imports(), &queue.name, &key, attempt)
            .await;
        if let Some(credentials) = &self.context.credentials {
            credentials.redact_outcome(&mut result);
        }
        if result.is_ok() {
            call.commit();
        }
        let input = || Input::Reconcile {
            queue: queue.name.to_string(),
            key: key.to_string(),
            attempt,
        };
        let digest = &self.context.settings.digest;
        session
            .end(digest, Some(&key), of_reconcile(&result), input)
            .await;
        call.wait_for_writes().await;
        let failed = match &result {
            Ok(Outcome::Done | Outcome::RequeueAfter(_)) => None,
            Ok(Outcome::Failed(message) | Outcome::Terminal(message)) => Some(message.clone()),
            Err(error) => Some(error.to_string()),
        };
        self.log(item, started, &call, &result, failed.as_deref());
        self.note_outcome(pass, &result);
        let telemetry = &self.context.telemetry;
        telemetry.counters.reconciled(result_label(&result));
        let error = failed.as_ref().map(|error| format!("{key}: {error}"));
        let ended = Ended::of(&result, error, call.writes(), started.elapsed());
        telemetry.history.add(HistoryEntry {
            at: SystemTime::now(),
            digest: self.context.settings.digest.clone(),
            queue: queue.name.clone(),
            key: key.clone(),
            why: item.causes().first.reason.clone(),
            coalesced: item.causes().coalesced,
            attempt,
            queued: item.queued(),
            took: started.elapsed(),
            failed,
            wrote: call.take_touched(),
            trace: span.trace().filter(Trace::is_recorded),
            cause: item.causes().first.trace.clone().filter(Trace::is_recorded),
        });
        let again = span.cause();
        span.end(call.host_calls(), result_label(&result), &result);
        match result {
            Ok(Outcome::Done) => queue.keys.forget(&key),
            Ok(Outcome::RequeueAfter(delay)) => {
                queue.keys.forget(&key);
                queue.add(key.clone(), delay, requeued(again));
            }
            Ok(Outcome::Terminal(_)) => queue.keys.forget(&key),
            Ok(Outcome::Failed(_)) | Err(_) => self.retry(queue, key, again),
        }
        ended
    }

    /// Tells the quarantine how a call ended.
    fn note_outcome(&self, pass: Pass<'_>, result: &Result<Outcome, CallError>) {
        match result {
            Ok(_) => {
                if pass.returned() {
                    tracing::info!("the quarantine has ended: a call returned");
                }
            }
            Err(error) if error.is_of_guest() => {
                if let Some(pause) = pass.failed(&error.to_string()) {
                    self.context.limits.stop.stop();
                    tracing::error!(
                        ?pause,
                        "quarantined the plugin: all of its keys fail, the last one with: {error}"
                    );
                }
            }
            // Not the guest's fault.
            Err(_) => {}
        }
    }

    fn retry(&self, queue: &Queue, key: Arc<str>, trace: Option<Trace>) {
        if queue
            .max_retries
            .is_some_and(|most| queue.keys.num_requeues(&key) >= most)
        {
            if self.context.limits.log_lines.pass() {
                tracing::warn!("gave up until something changes");
            }
            queue.keys.forget(&key);
        } else {
            let reason = Reason::Retry;
            let cause = Cause { reason, trace };
            queue.keys.add_rate_limited(key, Priority::Normal, cause);
        }
    }

    fn log(
        &self,
        item: &Item<Arc<str>, Cause>,
        started: Instant,
        call: &GuestCall,
        result: &Result<Outcome, CallError>,
        failed: Option<&str>,
    ) {
        // A server that can't be reached has one line for all keys of all plugins: see `Reachability`.
        let is_shared = matches!(result, Ok(Outcome::Failed(_))) && call.has_lost_server();
        if (failed.is_none() || is_shared)
            && !tracing::enabled!(target: "flyball::reconcile", tracing::Level::DEBUG)
        {
            return;
        }
        let backtrace = result.as_ref().err().and_then(CallError::backtrace);
        let text = [failed, backtrace].map(Option::unwrap_or_default).concat();
        if !self.context.limits.log_lines.pass_line(&text) {
            return;
        }
        let causes = item.causes();
        let why = causes.first.reason.to_string();
        let (coalesced, wrote) = (causes.coalesced, call.summary());
        let took_ms = (started.elapsed().as_secs_f64() * 1e5).round() / 1e2;
        let queued_ms = (item.queued().as_secs_f64() * 1e5).round() / 1e2;
        match result {
            Ok(Outcome::Done | Outcome::RequeueAfter(_)) => {
                tracing::debug!(
                    target: "flyball::reconcile",
                    why, coalesced, wrote, took_ms, queued_ms, "reconciled"
                );
            }
            Ok(Outcome::Failed(message)) if is_shared => {
                tracing::debug!(
                    target: "flyball::reconcile",
                    why, coalesced, wrote, took_ms, queued_ms, "failed: {message}"
                );
            }
            Ok(Outcome::Failed(message)) => {
                tracing::warn!(
                    target: "flyball::reconcile",
                    why, coalesced, wrote, took_ms, queued_ms, "failed: {message}"
                );
            }
            Ok(Outcome::Terminal(message)) => {
                tracing::error!(
                    target: "flyball::reconcile",
                    why, coalesced, wrote, took_ms, queued_ms, "failed for good: {message}"
                );
            }
            Err(error) => {
                tracing::error!(
                    target: "flyball::reconcile",
                    why, coalesced, wrote, took_ms, queued_ms, backtrace, "{error}"
                );
            }
        }
    }
}

/// The result of a reconcile, as a label of metrics.
fn result_label(result: &Result<Outcome, CallError>) -> &'static str {
    match result {
        Ok(Outcome::Done) => "success",
        Ok(Outcome::RequeueAfter(_)) => "requeue_after",
        Ok(Outcome::Failed(_)) => "error",
        Ok(Outcome::Terminal(_)) => "terminal_error",
        Err(_) => "call_failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs workers that take one of `keys` each, work on it until `done`, and wait for more until `stop`. Returns how
    /// many were started.
    async fn started(
        most: usize,
        keys: usize,
        ends: impl Fn(&CancellationToken, &CancellationToken),
    ) -> usize {
        let (stop, done) = (CancellationToken::new(), CancellationToken::new());
        let (count, keys) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(keys)));
        let worker = |idle: Arc<Idle>| {
            count.fetch_add(1, Ordering::SeqCst);
            let (stop, done, keys) = (stop.clone(), done.clone(), keys.clone());
            async move {
                let take = |keys: usize| keys.checked_sub(1);
                loop {
                    {
                        let _idle = idle.enter();
                        let is_over = stop.is_cancelled();
                        let has_key = keys.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
                        if is_over || has_key.is_err() {
                            return stop.cancelled().await;
                        }
                    }
                    done.cancelled().await;
                }
            }
        };
        let running = run_on_demand(most, &stop, worker);
        let ending = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            ends(&stop, &done);
        };
        tokio::join!(running, ending);
        count.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_workers_start_as_there_is_work_and_one_that_waits() {
        let both = |stop: &CancellationToken, done: &CancellationToken| {
            stop.cancel();
            done.cancel();
        };
        for (keys, expected) in [(0, 1), (1, 2), (3, 4), (100, 10)] {
            assert_eq!(started(10, keys, both).await, expected, "{keys} keys");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_stop_no_worker_starts_while_busy_ones_end() {
        let later = |stop: &CancellationToken, done: &CancellationToken| {
            stop.cancel();
            let done = done.clone();
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                done.cancel();
            });
        };
        assert_eq!(started(10, 3, later).await, 4);
    }
}
