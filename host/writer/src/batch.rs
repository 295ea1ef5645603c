//! The order in which the writes of a batch start: all at once up to the host's bound, or in rounds that double.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_types::ApiError;
use futures::StreamExt;

/// Runs the writes, at most `in_flight` at once, and returns their results in the order of the writes. A write that is
/// not started is `Skipped`.
pub(super) async fn run<W, T, F>(
    writes: Vec<W>,
    slow_start: Option<u32>,
    stop_on_error: bool,
    in_flight: usize,
    write: impl Fn(W) -> F,
) -> Vec<Result<T, ApiError>>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let failed = Arc::new(AtomicBool::new(false));
    let mut results = Vec::with_capacity(writes.len());
    let mut round = slow_start.map_or(usize::MAX, |initial| initial.max(1) as usize);
    let mut writes = writes.into_iter();
    while writes.len() > 0 {
        let skip_rest = slow_start.is_some() && failed.load(Ordering::Relaxed);
        let started = writes.by_ref().take(round).map(|next| {
            let failed = failed.clone();
            let result = write(next);
            // Boxed: its kilobytes would be copied into the collection, and out of it.
            Box::pin(async move {
                if skip_rest || (stop_on_error && failed.load(Ordering::Relaxed)) {
                    return Err(ApiError::skipped());
                }
                let result = result.await;
                if result.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                result
            })
        });
        let concurrency = if stop_on_error { 1 } else { in_flight };
        // Collected first: the stream would otherwise borrow the iterator across its awaits.
        let mut started: Vec<_> = started.collect();
        // Most batches have one write, which needs no stream.
        if started.len() == 1
            && let Some(only) = started.pop()
        {
            results.push(only.await);
        } else {
            results.extend(
                futures::stream::iter(started)
                    .buffered(concurrency)
                    .collect::<Vec<_>>()
                    .await,
            );
        }
        round = round.saturating_mul(2);
    }
    results
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use flyball_plugin::{Operation, Target, Write};
    use parking_lot::Mutex;

    use super::*;

    fn writes(count: usize) -> Vec<Write> {
        let target = |n: usize| Target {
            kind: "v1/Pod".into(),
            namespace: "demo".into(),
            name: n.to_string(),
            subresource: String::new(),
        };
        let write = |n| Write {
            target: target(n),
            operation: Operation::Delete,
            options: Bytes::new(),
            returns: Vec::new(),
        };
        (0..count).map(write).collect()
    }

    /// Runs a batch whose write number `fails` fails, and returns the names in the order of their starts, with the
    /// results.
    async fn run_failing(
        count: usize,
        slow_start: Option<u32>,
        stop_on_error: bool,
        fails: usize,
    ) -> (Vec<String>, Vec<Result<Bytes, ApiError>>) {
        let started = Arc::new(Mutex::new(Vec::new()));
        let results = run(writes(count), slow_start, stop_on_error, 16, |write| {
            let started = started.clone();
            async move {
                started.lock().push(write.target.name.clone());
                tokio::time::sleep(Duration::from_millis(10)).await;
                if write.target.name == fails.to_string() {
                    return Err(ApiError::of_server(500, "InternalError", "no"));
                }
                Ok(Bytes::from(write.target.name))
            }
        })
        .await;
        let started = started.lock().clone();
        (started, results)
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_in_the_order_of_the_writes() {
        let (_, results) = run_failing(100, None, false, 7).await;
        assert_eq!(results.len(), 100);
        for (n, result) in results.iter().enumerate() {
            assert_eq!(result.is_ok(), n != 7);
        }
        assert_eq!(results[99], Ok(Bytes::from("99")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_ends_with_the_round_of_the_first_error() {
        // Rounds of 1, 2, 4: the error in the second lets its neighbour finish and skips the third.
        let (started, results) = run_failing(7, Some(1), false, 1).await;
        assert_eq!(started, ["0", "1", "2"]);
        assert!(results[2].is_ok());
        assert!(
            results[3..]
                .iter()
                .all(|result| *result == Err(ApiError::skipped()))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stop_on_error_starts_nothing_after_an_error() {
        let (started, results) = run_failing(5, None, true, 2).await;
        assert_eq!(started, ["0", "1", "2"]);
        assert!(
            results[3..]
                .iter()
                .all(|result| *result == Err(ApiError::skipped()))
        );
    }
}
