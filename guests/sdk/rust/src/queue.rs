//! The plugin's workqueues.

use std::time::Duration;

use flyball_types::ApiError;

use crate::error::Error;
use crate::imports::Imports;
use crate::key::Key;
use crate::reconcile::Outcome;
use crate::time::millis;

/// The plugin's workqueues: [`Host::queue`](crate::Host::queue). An empty name means the primary queue.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    pub(crate) imports: &'a dyn Imports,
}

impl Queue<'_> {
    /// Enqueues a key.
    ///
    /// # Errors
    /// The plugin has no such queue, or the queue is full.
    pub fn add(&self, queue: &str, key: &Key) -> Result<(), ApiError> {
        self.imports.queue_add(queue, &key.to_string())
    }

    /// Enqueues a key after a delay. If it is pending several times, the earliest time applies.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_after(&self, queue: &str, key: &Key, delay: Duration) -> Result<(), ApiError> {
        self.imports
            .queue_add_after(queue, &key.to_string(), millis(delay))
    }

    /// The outcome of a reconcile whose key is due again after `delay`. A failed key is retried after the queue's
    /// backoff, which can be longer; so the earlier time is enqueued separately.
    ///
    /// # Errors
    /// The error of the reconcile, or as [`add`](Self::add).
    pub fn due_after(
        &self,
        queue: &str,
        key: &Key,
        delay: Option<Duration>,
        result: Result<(), Error>,
    ) -> Result<Outcome, Error> {
        match (result, delay) {
            (Ok(()), delay) => Ok(delay.map_or(Outcome::Done, Outcome::RequeueAfter)),
            (Err(error), None) => Err(error),
            (Err(error), Some(delay)) => {
                self.add_after(queue, key, delay)?;
                Err(error)
            }
        }
    }

    /// Resets the backoff of a key.
    ///
    /// # Errors
    /// The plugin has no such queue.
    pub fn forget(&self, queue: &str, key: &Key) -> Result<(), ApiError> {
        self.imports.queue_forget(queue, &key.to_string())
    }

    /// Number of retries of a key since it last succeeded.
    ///
    /// # Errors
    /// The plugin has no such queue.
    pub fn requeues(&self, queue: &str, key: &Key) -> Result<u32, ApiError> {
        self.imports.queue_requeues(queue, &key.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn a_failed_key_is_enqueued_for_the_time_at_which_it_is_due() {
        let cluster = Cluster::new();
        let (host, key) = (cluster.host(), Key::new("a", "b"));
        let due = |delay, result| host.queue().due_after("", &key, delay, result);
        let second = Duration::from_secs(1);
        assert_eq!(due(None, Ok(())).unwrap(), Outcome::Done);
        assert_eq!(
            due(Some(second), Ok(())).unwrap(),
            Outcome::RequeueAfter(second)
        );
        due(None, Err(Error::failed("no"))).unwrap_err();
        assert!(cluster.enqueued().is_empty());
        due(Some(second), Err(Error::failed("no"))).unwrap_err();
        assert_eq!(cluster.enqueued().len(), 1);
    }
}
