//! Where guests run. Calls of a plugin without a share of its own, such as a built-in, begin on the thread that asks for them,
//! which is a hand-over less; one that computes for long moves to threads for guests. Those of a plugin with a share are
//! there from the first; and one that has used up half of what its share lets it save up goes on at a lower priority until it
//! has saved that up again: a call of another plugin then takes the core from it at once, where it would otherwise wait for
//! the next tick.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::error::CallFailure;
use crate::priority;
use crate::share::Share;

/// For how long a call may compute in one go on the thread that asked for it. Others who wait for that thread go to another
/// one; so long it may take until they do.
const SHORT: Duration = Duration::from_millis(1);

/// What a call returns, or why it failed and what it had used by then.
pub(crate) type Answer<T> = Result<T, (CallFailure, Duration)>;

/// The threads of all guests.
pub(crate) struct Threads {
    usual: Runtime,
    low: Runtime,
}

/// A call that runs elsewhere. Stopped when this is dropped.
struct Task<T>(JoinHandle<Answer<T>>);

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Threads {
    /// Starts so many threads of each kind.
    pub(crate) fn start(count: usize) -> std::io::Result<Self> {
        let usual = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("flyball-guest")
            // Only for loading: what is compiled uses all cores by itself.
            .max_blocking_threads(2)
            .enable_time()
            .build()?;
        let low = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("flyball-guest-low")
            .on_thread_start(priority::lower)
            .enable_time()
            .build()?;
        Ok(Self { usual, low })
    }

    /// Runs a call of the plugin that has this share to its end.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        share: &Arc<Share>,
        call: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Answer<T> {
        if !share.is_limited() {
            let call = AssertUnwindSafe(call)
                .catch_unwind()
                .map(|ended| ended.unwrap_or_else(|panic| host(&*panic)));
            let here = Leaving {
                call: Some(Box::pin(call)),
                leaves: |computed| computed > SHORT,
            };
            return match here.await {
                Ok(answer) => answer,
                Err(call) => Task(self.usual.spawn(call)).join().await,
            };
        }
        if share.is_low() {
            return Task(self.low.spawn(call)).join().await;
        }
        let (share, low): (_, Handle) = (share.clone(), self.low.handle().clone());
        let task = self.usual.spawn(async move {
            match (Leaving {
                call: Some(Box::pin(call)),
                leaves: |_| share.is_low(),
            })
            .await
            {
                Ok(answer) => answer,
                Err(call) => Task(low.spawn(call)).join().await,
            }
        });
        Task(task).join().await
    }

    /// Runs what blocks, on a thread for that.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.usual.spawn_blocking(work).await
    }

    /// Ends the threads without waiting for them: who does may itself be a task.
    pub(crate) fn end(self) {
        self.usual.shutdown_background();
        self.low.shutdown_background();
    }
}

impl<T> Task<T> {
    /// Waits for the call's end.
    async fn join(mut self) -> Answer<T> {
        (&mut self.0)
            .await
            .unwrap_or_else(|error| Err((end_of_task(error), Duration::ZERO)))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls a call until it returns, or gives it back once it has to leave this thread.
struct Leaving<T, F> {
    /// None once it was given back.
    call: Option<Call<T>>,
    /// Whether it leaves, after it has computed for so long and has not yet ended.
    leaves: F,
}

impl<T, F: Fn(Duration) -> bool + Unpin> Future for Leaving<T, F> {
    type Output = Result<T, Call<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        let start = Instant::now();
        if let Poll::Ready(answer) = call.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        match (self.leaves)(start.elapsed()) {
            true => self
                .call
                .take()
                .map_or(Poll::Pending, |call| Poll::Ready(Err(call))),
            false => Poll::Pending,
        }
    }
}

/// How a call ended that did not return.
fn end_of_task(error: JoinError) -> CallFailure {
    match error.try_into_panic() {
        Ok(panic) => CallFailure::Host(message(&*panic)),
        Err(_) => CallFailure::Shutdown,
    }
}

/// The result of a call in which the host panicked.
fn host<T>(panic: &(dyn Any + Send)) -> Answer<T> {
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

    /// The name of this thread.
    fn thread() -> String {
        std::thread::current()
            .name()
            .unwrap_or_default()
            .to_string()
    }

    fn share(cpu_share: Option<u32>) -> Arc<Share> {
        Arc::new(Share::new(&Limits {
            cpu_share,
            cpu_burst: Duration::from_secs(1),
            ..Limits::default()
        }))
    }

    /// Where a call runs that takes so many milliseconds of the share, before and after it has.
    async fn ran_on(threads: &Threads, share: &Arc<Share>, milliseconds: u64) -> [String; 2] {
        let used = share.clone();
        let call = async move {
            let before = thread();
            used.charge(Duration::from_millis(milliseconds));
            tokio::task::yield_now().await;
            Ok([before, thread()])
        };
        threads.call(share, call).await.unwrap()
    }

    #[tokio::test]
    async fn a_plugin_that_has_used_half_of_its_burst_goes_on_at_a_lower_priority() {
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
    async fn a_plugin_without_a_share_stays_where_it_was_asked_until_it_computes_for_long() {
        let (threads, share) = (Threads::start(2).unwrap(), share(None));
        assert_eq!(
            ran_on(&threads, &share, 100_000).await,
            [thread(), thread()]
        );
        let call = async {
            std::thread::sleep(2 * SHORT);
            tokio::task::yield_now().await;
            Ok(thread())
        };
        assert_eq!(threads.call(&share, call).await.unwrap(), "flyball-guest");
        threads.end();
    }

    #[tokio::test]
    async fn a_panic_of_the_host_ends_the_call_wherever_it_runs() {
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
    async fn a_call_that_went_over_is_stopped_with_the_future_that_waits_for_it() {
        /// Says when it is dropped.
        struct Told(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                if let Some(told) = self.0.take() {
                    let _ = told.send(());
                }
            }
        }
        let (threads, share) = (Threads::start(2).unwrap(), share(Some(1)));
        let ((began, begins), (told, dropped)) = (
            tokio::sync::oneshot::channel(),
            tokio::sync::oneshot::channel(),
        );
        let used = share.clone();
        let call = async move {
            let _told = Told(Some(told));
            used.charge(Duration::from_secs(1));
            tokio::task::yield_now().await;
            let _ = began.send(thread());
            std::future::pending::<Answer<()>>().await
        };
        {
            let call = threads.call(&share, call);
            let began = tokio::select! {
                _ = call => None,
                began = begins => began.ok(),
            };
            assert_eq!(began.unwrap(), "flyball-guest-low");
        }
        dropped.await.unwrap();
        threads.end();
    }
}
