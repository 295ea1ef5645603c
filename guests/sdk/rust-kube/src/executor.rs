//! Runs futures. Calls of the host return when they are done, so that a reconciler's future rarely waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future to its end; `None` if it waits for something that nothing in a plugin can wake, such as a timer or a
/// thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        if !woken.0.swap(false, Ordering::Relaxed) {
            return None;
        }
    }
}

/// Whether the future has been woken since it was polled.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[test]
    fn a_future_runs_to_its_end_if_it_wakes_itself() {
        assert_eq!(run(async { future::ready(1).await + 1 }), Some(2));
        let mut polls = 0;
        let yields = future::poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 3 {
                Poll::Pending
            } else {
                Poll::Ready(polls)
            }
        });
        assert_eq!(run(yields), Some(3));
    }

    #[test]
    fn a_future_that_nothing_wakes_is_given_up() {
        assert_eq!(run(future::pending::<()>()), None);
    }
}
