//! Runs the calls of a plugin's `route` one after another, in the order in which they are asked for, over all versions
//! of the plugin. One task owns the turn, so that no lock is held while a guest runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

type Turn = BoxFuture<'static, ()>;

/// The turns of one plugin.
pub struct RouteTurns {
    calls: mpsc::Sender<Turn>,
    _task: AbortOnDropHandle<()>,
}

impl RouteTurns {
    /// Starts the task that runs the calls. It ends when the last version of the plugin is dropped.
    pub fn start() -> Arc<Self> {
        let (calls, mut waiting) = mpsc::channel::<Turn>(1);
        let task = tokio::spawn(async move {
            while let Some(call) = waiting.recv().await {
                // A panic is logged by its hook, and its caller gets no result.
                let _ = AssertUnwindSafe(call).catch_unwind().await;
            }
        });
        Arc::new(Self {
            calls,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Runs a call when its turn comes, and returns its result; none if it panicked. A caller that stops waiting
    /// cancels the call.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (mut sender, result) = oneshot::channel();
        let turn = async move {
            tokio::select! {
                output = call => {
                    // Fails if the caller has just stopped waiting.
                    let _ = sender.send(output);
                }
                () = sender.closed() => {}
            }
        };
        self.calls.send(turn.boxed()).await.ok()?;
        result.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_run_one_after_another_in_their_order() {
        let (turns, log) = (RouteTurns::start(), Arc::new(Mutex::new(Vec::new())));
        let call = |number: u32| {
            let log = log.clone();
            turns.run(async move {
                log.lock().push(("begin", number));
                sleep(Duration::from_secs(1)).await;
                log.lock().push(("end", number));
                number
            })
        };
        let results = futures::join!(call(1), call(2), call(3));
        assert_eq!(results, (Some(1), Some(2), Some(3)));
        let expected = [1, 2, 3].map(|number| [("begin", number), ("end", number)]);
        assert_eq!(*log.lock(), expected.concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_stops_waiting_cancels_its_call_and_frees_the_turn() {
        let (turns, start) = (RouteTurns::start(), Instant::now());
        let endless = turns.run(std::future::pending::<()>());
        let given_up = tokio::time::timeout(Duration::from_secs(1), endless).await;
        assert!(given_up.is_err());
        assert_eq!(turns.run(async { 1 }).await, Some(1));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_call_that_panics_has_no_result_and_the_next_one_runs() {
        let turns = RouteTurns::start();
        let panics = async { panic!("the guest's host code is wrong") };
        assert_eq!(turns.run::<()>(panics).await, None);
        assert_eq!(turns.run(async { 2 }).await, Some(2));
    }
}
