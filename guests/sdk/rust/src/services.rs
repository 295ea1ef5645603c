//! Handles of [`Host`](crate::Host) for the plugin's queues, metrics and memo.

use std::time::Duration;

use flyball_types::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::controller::{Key, Outcome};
use crate::error::Error;
use crate::host::millis;
use crate::imports::{Imports, MetricOperation};
use crate::time::Time;

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

    /// The outcome of a reconcile whose key is due again after `delay`. A failed key is retried after the queue's backoff,
    /// which can be longer; so the earlier time is enqueued separately.
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

/// The plugin's metrics: [`Host::metrics`](crate::Host::metrics). `labels` are the label values, in the order of the
/// declared names.
#[derive(Clone, Copy)]
pub struct Metrics<'a> {
    pub(crate) imports: &'a dyn Imports,
}

impl Metrics<'_> {
    /// Adds to a counter.
    pub fn add(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Add, metric, labels, value);
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Set, metric, labels, value);
    }

    /// Counts a sync that began at `start`, and observes its duration in seconds. Both metrics have the label `code`: the
    /// status code of the API server's error, 500 of other errors, and 200 of a success.
    pub fn sync<T>(&self, counter: &str, histogram: &str, start: Time, result: &Result<T, Error>) {
        let status = |error: &Error| error.api().map_or(0, |error| error.status);
        let code = match result.as_ref().map_or_else(status, |_| 200) {
            0 => "500".to_owned(),
            status => status.to_string(),
        };
        let seconds = self.imports.clock_now().since(start).as_secs_f64();
        self.add(counter, &[&code], 1.0);
        self.observe(histogram, &[&code], seconds);
    }

    /// Observes a value in a histogram.
    pub fn observe(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Observe, metric, labels, value);
    }
}

/// The plugin's memo: [`Host::memo`](crate::Host::memo). The host may empty it between any two calls, so it must hold
/// only what can be computed again or is dispensable.
#[derive(Clone, Copy)]
pub struct Memo<'a> {
    pub(crate) imports: &'a dyn Imports,
}

impl Memo<'_> {
    /// Returns the value of a key; `None` if there is none or it is not a valid `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (value, _) = self.imports.memo_get(key)?;
        flyball_types::read(&value).ok()
    }

    /// Stores a value until the object with this UID is deleted (empty: no object) or this time has passed (zero: no
    /// limit).
    ///
    /// # Errors
    /// The memo is full, or another instance has changed the entry in the meantime.
    pub fn put(
        &self,
        key: &str,
        value: &impl Serialize,
        object_uid: &str,
        ttl: Duration,
    ) -> Result<(), ApiError> {
        let version = self.imports.memo_get(key).map_or(0, |(_, version)| version);
        let value = serde_json::to_vec(value).expect("a map with string keys is valid JSON");
        self.imports
            .memo_put(key, version, &value, object_uid, millis(ttl))
            .map(drop)
    }

    /// Changes the value of a key, which is the default if there is none, and returns the new value. The change is repeated if
    /// another instance changes the entry in the meantime. Options as for [`put`](Self::put).
    ///
    /// # Errors
    /// The memo is full.
    pub fn update<T: Default + DeserializeOwned + Serialize>(
        &self,
        key: &str,
        object_uid: &str,
        ttl: Duration,
        mut change: impl FnMut(&mut T),
    ) -> Result<T, ApiError> {
        loop {
            let (mut value, version) = match self.imports.memo_get(key) {
                Some((value, version)) => (
                    flyball_types::read::<T>(&value).unwrap_or_default(),
                    version,
                ),
                None => (T::default(), 0),
            };
            change(&mut value);
            let bytes = serde_json::to_vec(&value).expect("a map with string keys is valid JSON");
            let put = self
                .imports
                .memo_put(key, version, &bytes, object_uid, millis(ttl));
            match put {
                Ok(_) => return Ok(value),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the value of a key.
    pub fn remove(&self, key: &str) {
        self.imports.memo_remove(key);
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

    #[test]
    fn a_change_of_the_memo_is_made_to_the_latest_value() {
        let cluster = Cluster::new();
        let (host, mut tries) = (cluster.host(), 0);
        let mut append = |letter: &'static str, other: Option<&str>| {
            host.memo()
                .update("a", "", Duration::ZERO, |text: &mut String| {
                    tries += 1;
                    if let (1, Some(other)) = (tries, other) {
                        host.memo().put("a", &other, "", Duration::ZERO).unwrap();
                    }
                    text.push_str(letter);
                })
        };
        // Another instance puts a value between the read and the write of the first try.
        assert_eq!(append("c", Some("b")).unwrap(), "bc");
        assert_eq!(append("d", None).unwrap(), "bcd");
        assert_eq!(host.memo().get::<String>("a").unwrap(), "bcd");
        assert_eq!(tries, 3);
    }

    #[test]
    fn a_sync_is_counted_and_timed_by_the_status_of_its_error() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let start = host.now();
        for result in [
            Ok(()),
            Err(ApiError::denied("no").into()),
            Err(Error::failed("no")),
        ] {
            host.metrics().sync("syncs", "seconds", start, &result);
        }
        let metrics = cluster.metrics().into_iter();
        let labels: Vec<_> = metrics
            .map(|(_, name, labels, value)| (name, labels.join(","), value))
            .collect();
        let of = |name: &str, code: &str, value| (name.to_owned(), code.to_owned(), value);
        let code = |code| [of("syncs", code, 1.0), of("seconds", code, 0.0)];
        assert_eq!(labels, [code("200"), code("403"), code("500")].concat());
    }

    #[test]
    fn a_memo_entry_is_kept_until_it_is_replaced_or_removed() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let memo = host.memo();
        assert_eq!(memo.get::<u32>("a"), None);
        memo.put("a", &1, "", Duration::ZERO).unwrap();
        memo.put("a", &2, "uid-1", Duration::ZERO).unwrap();
        assert_eq!(
            (memo.get("a"), memo.get::<String>("a"), memo.get::<u32>("b")),
            (Some(2), None, None)
        );
        memo.remove("a");
        assert_eq!(memo.get::<u32>("a"), None);
    }
}
