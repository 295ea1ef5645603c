//! The threads that guests run on, and those of the requests that the host sends for them.
//!
//! A call of a built-in starts on the thread that makes the call, which saves a hand-over between threads. If it computes
//! for long, it moves to a guest thread.
//!
//! A call of any other plugin runs on guest threads from the start, with the host functions that it calls. The host's
//! tasks for such plugins that wait for connections (live reads, writes, events, requests of `wasi:http`) run on a thread
//! of their own. When a plugin with a CPU quota has used up half of its burst, its running calls move to threads of a lower
//! priority, and new calls start there until that half is earned again. A call of another plugin then preempts them at
//! once instead of waiting for the next tick.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument;

use crate::error::CallFailure;
use crate::priority;
use crate::share::Share;

/// The longest poll after which a call may stay on the thread that made it. Other tasks of that thread may have to wait
/// this long until another thread takes them over.
const MAX_INLINE_POLL: Duration = Duration::from_millis(1);

/// The most threads that load components. The caller limits how many components are loaded concurrently.
const LOADING_THREADS: usize = 64;

/// The result of a call, or the failure with the CPU time that the call had used by then.
pub(crate) type CallResult<T> = Result<T, (CallFailure, Duration)>;

/// The threads of all guests.
pub(crate) struct Threads {
    normal: Runtime,
    /// Its threads have a lower priority.
    low: Runtime,
    /// Drives connections. Its tasks take microseconds each, like those of the host's own threads.
    requests: Runtime,
}

/// A call that runs on another thread. Dropping it stops the call.
struct Task<T>(JoinHandle<CallResult<T>>);

type CallFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Threads {
    /// Starts `count` threads of each priority.
    pub(crate) fn start(count: usize) -> std::io::Result<Self> {
        let normal = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("flyball-guest")
            // Used only to load components. Most of them wait for child processes.
            .max_blocking_threads(LOADING_THREADS)
            .enable_time()
            .build()?;
        let low = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("flyball-guest-low")
            .on_thread_start(priority::lower)
            .enable_time()
            .build()?;
        let requests = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("flyball-guest-requests")
            .enable_all()
            .build()?;
        Ok(Self {
            normal,
            low,
            requests,
        })
    }

    /// The thread of the host's requests for plugins.
    pub(crate) fn requests(&self) -> Handle {
        self.requests.handle().clone()
    }

    /// The threads of normal priority.
    pub(crate) fn handle(&self) -> Handle {
        self.normal.handle().clone()
    }

    /// Runs a call of the plugin with this CPU quota to its end.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        share: &Arc<Share>,
        call: impl Future<Output = CallResult<T>> + Send + 'static,
    ) -> CallResult<T> {
        if share.runs_inline() {
            let call = AssertUnwindSafe(call)
                .catch_unwind()
                .map(|result| result.unwrap_or_else(|panic| host_panic(&*panic)));
            let here = Movable {
                call: Some(Box::pin(call)),
                must_move: |polled| polled > MAX_INLINE_POLL,
            };
            return match here.await {
                Ok(result) => result,
                Err(call) => Task::start(call, self.normal.handle()).join().await,
            };
        }
        if share.is_low() {
            return Task::start(call, self.low.handle()).join().await;
        }
        let (share, low): (_, Handle) = (share.clone(), self.low.handle().clone());
        let call = async move {
            match (Movable {
                call: Some(Box::pin(call)),
                must_move: |_| share.is_low(),
            })
            .await
            {
                Ok(result) => result,
                Err(call) => Task::start(call, &low).join().await,
            }
        };
        Task::start(call, self.normal.handle()).join().await
    }

    /// Runs blocking work on a thread for that.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.normal.spawn_blocking(work).await
    }

    /// Ends the threads without waiting for them, because the caller may run in a task.
    pub(crate) fn end(self) {
        self.normal.shutdown_background();
        self.low.shutdown_background();
        self.requests.shutdown_background();
    }
}

impl<T: Send + 'static> Task<T> {
    /// Starts a call on other threads. It stays in the caller's span.
    fn start(call: impl Future<Output = CallResult<T>> + Send + 'static, threads: &Handle) -> Self {
        Self(threads.spawn(call.in_current_span()))
    }
    async fn join(mut self) -> CallResult<T> {
        (&mut self.0)
            .await
            .unwrap_or_else(|error| Err((join_failure(error), Duration::ZERO)))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls a call until it returns. Returns the call itself as the error if it must move to another thread.
struct Movable<T, F> {
    /// None once the call was returned.
    call: Option<CallFuture<T>>,
    /// Decides from the duration of a poll after which the call is still pending.
    must_move: F,
}

impl<T, F: Fn(Duration) -> bool + Unpin> Future for Movable<T, F> {
    type Output = Result<T, CallFuture<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        let start = Instant::now();
        if let Poll::Ready(result) = call.as_mut().poll(context) {
            return Poll::Ready(Ok(result));
        }
        match (self.must_move)(start.elapsed()) {
            true => self
                .call
                .take()
                .map_or(Poll::Pending, |call| Poll::Ready(Err(call))),
            false => Poll::Pending,
        }
    }
}

fn join_failure(error: JoinError) -> CallFailure {
    match error.try_into_panic() {
        Ok(panic) => CallFailure::Host(message(&*panic)),
        Err(_) => CallFailure::Shutdown,
    }
}

/// The result of a call in which the host panicked.
fn host_panic<T>(panic: &(dyn Any + Send)) -> CallResult<T> {
    Err((CallFailure::Host(message(panic)), Duration::ZERO))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn thread_name() -> String {
        std::thread::current()
            .name()
            .unwrap_or_default()
            .to_string()
    }

    /// The share of a built-in, or of a plugin with a CPU quota.
    fn share(cpu_share: Option<u32>) -> Arc<Share> {
        Arc::new(Share::new(&Limits {
            cpu_share,
            is_reserved: cpu_share.is_none(),
            cpu_burst: Duration::from_secs(1),
            ..Limits::default()
        }))
    }

    /// Returns the names of the threads on which a call runs before and after it uses this much of the CPU quota.
    async fn ran_on(threads: &Threads, share: &Arc<Share>, milliseconds: u64) -> [String; 2] {
        let used = share.clone();
        let call = async move {
            let before = thread_name();
            used.charge(Duration::from_millis(milliseconds));
            tokio::task::yield_now().await;
            Ok([before, thread_name()])
        };
        threads.call(share, call).await.unwrap()
    }

    #[tokio::test]
    async fn a_call_moves_to_a_lower_priority_when_half_of_the_burst_is_used() {
        let (threads, share) = (Threads::start(2).unwrap(), share(Some(1)));
        assert_eq!(
            ran_on(&threads, &share, 400).await,
            ["flyball-guest", "flyball-guest"]
        );
        assert_eq!(
            ran_on(&threads, &share, 200).await,
            ["flyball-guest", "flyball-guest-low"]
        );
        assert_eq!(
            ran_on(&threads, &share, 0).await,
            ["flyball-guest-low", "flyball-guest-low"]
        );
        threads.end();
    }

    #[tokio::test]
    async fn a_call_of_a_dropped_in_plugin_runs_on_no_thread_of_the_host() {
        let threads = Threads::start(2).unwrap();
        let share = Arc::new(Share::new(&Limits::default()));
        assert_eq!(
            ran_on(&threads, &share, 0).await,
            ["flyball-guest", "flyball-guest"]
        );
        threads.end();
    }

    #[tokio::test]
    async fn a_call_of_a_built_in_stays_on_its_thread_until_it_computes_for_long() {
        let (threads, share) = (Threads::start(2).unwrap(), share(None));
        assert_eq!(
            ran_on(&threads, &share, 100_000).await,
            [thread_name(), thread_name()]
        );
        let call = async {
            std::thread::sleep(2 * MAX_INLINE_POLL);
            tokio::task::yield_now().await;
            Ok(thread_name())
        };
        assert_eq!(threads.call(&share, call).await.unwrap(), "flyball-guest");
        threads.end();
    }

    #[tokio::test]
    async fn a_panic_of_the_host_fails_the_call_on_any_thread() {
        let threads = Threads::start(2).unwrap();
        for cpu_share in [None, Some(1)] {
            let call = async { panic!("it is {}", "broken") };
            let (failure, _) = threads
                .call::<()>(&share(cpu_share), call)
                .await
                .unwrap_err();
            assert!(
                matches!(&failure, CallFailure::Host(message) if message == "it is broken"),
                "{failure:?}"
            );
        }
        threads.end();
    }

    #[tokio::test]
    async fn dropping_the_future_stops_a_call_that_has_moved() {
        /// Sends when it is dropped.
        struct SendOnDrop(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for SendOnDrop {
            fn drop(&mut self) {
                if let Some(sender) = self.0.take() {
                    let _ = sender.send(());
                }
            }
        }
        let (threads, share) = (Threads::start(2).unwrap(), share(Some(1)));
        let ((started_on, started), (drop_sender, dropped)) = (
            tokio::sync::oneshot::channel(),
            tokio::sync::oneshot::channel(),
        );
        let used = share.clone();
        let call = async move {
            let _guard = SendOnDrop(Some(drop_sender));
            used.charge(Duration::from_secs(1));
            tokio::task::yield_now().await;
            let _ = started_on.send(thread_name());
            std::future::pending::<CallResult<()>>().await
        };
        {
            let call = threads.call(&share, call);
            let thread = tokio::select! {
                _ = call => None,
                thread = started => thread.ok(),
            };
            assert_eq!(thread.unwrap(), "flyball-guest-low");
        }
        dropped.await.unwrap();
        threads.end();
    }
}
