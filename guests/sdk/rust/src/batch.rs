//! Batches of writes that the host runs concurrently.
//!
//! A [tagged batch](TaggedBatch) carries a value with each write and returns it with the write's result, so that a
//! controller need not match results with its writes by position:
//!
//! ```
//! use flyball_sdk::prelude::*;
//!
//! /// Deletes pods, and returns the names of those that could not be deleted.
//! fn delete<'p>(host: &Host, pods: &'p [Meta]) -> Vec<&'p str> {
//!     let deletions = pods.iter().map(|pod| (pod, Write::delete_exactly("v1/Pod", pod)));
//!     let mut failed = Vec::new();
//!     for (pod, result) in host.tagged_batch().extend(deletions).run() {
//!         if result.is_err() {
//!             failed.push(pod.name.as_str());
//!         }
//!     }
//!     failed
//! }
//! ```

use flyball_types::ApiError;
use serde::Serialize;

use crate::imports::Imports;
use crate::meta::Meta;
use crate::write::{Answer, Batch, MAX_BATCH, Write};

/// A batch of writes: [`Host::batch`](crate::Host::batch).
#[must_use = "a batch does nothing until it is run"]
pub struct BatchBuilder<'a> {
    imports: &'a dyn Imports,
    batch: Batch,
}

impl<'a> BatchBuilder<'a> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        Self {
            imports,
            batch: Batch::default(),
        }
    }

    pub fn with(mut self, write: Write) -> Self {
        self.batch.writes.push(write);
        self
    }

    pub fn extend(mut self, writes: impl IntoIterator<Item = Write>) -> Self {
        self.batch.writes.extend(writes);
        self
    }

    /// Adds [`Write::create`].
    pub fn create(self, kind: &str, namespace: &str, object: &impl Serialize) -> Self {
        self.with(Write::create(kind, namespace, object))
    }

    /// Adds [`Write::delete_exactly`].
    pub fn delete(self, kind: &str, meta: &Meta) -> Self {
        self.with(Write::delete_exactly(kind, meta))
    }

    /// Starts with this many writes at once, and doubles the number after each round without an error. After a round
    /// with an error no further round is started; the remaining writes fail with `Skipped`.
    pub fn slow_start(mut self, initial: u32) -> Self {
        self.batch.slow_start = Some(initial);
        self
    }

    /// Starts no write after one has failed. The remaining writes fail with `Skipped`.
    pub fn stop_on_error(mut self) -> Self {
        self.batch.stop_on_error = true;
        self
    }

    /// Runs the writes. Returns one result per write, in the order in which they were added. An empty batch makes no
    /// host call. More than 1,000 writes, the host's limit, are run as several batches, one after the other.
    pub fn run(self) -> Vec<Result<Answer, ApiError>> {
        let Self { imports, batch } = self;
        let ends_on_error = batch.stop_on_error || batch.slow_start.is_some();
        let mut slow_start = batch.slow_start;
        let mut writes = batch.writes.into_iter();
        let mut results = Vec::with_capacity(writes.len());
        let mut is_over = false;
        while writes.len() > 0 {
            let next: Vec<Write> = writes.by_ref().take(MAX_BATCH).collect();
            if is_over {
                results.extend(next.iter().map(|_| Err(ApiError::skipped())));
                continue;
            }
            let done = imports.writer_run(Batch {
                writes: next,
                slow_start,
                stop_on_error: batch.stop_on_error,
            });
            is_over = ends_on_error && done.iter().any(Result::is_err);
            // The rounds have reached the size of a batch by now.
            slow_start = slow_start.map(|_| MAX_BATCH as u32);
            results.extend(done.into_iter().map(|result| result.map(Answer)));
        }
        results
    }
}

/// A batch whose writes have tags: [`Host::tagged_batch`](crate::Host::tagged_batch). A tag is a value that a result is
/// about, such as the object that is written.
#[must_use = "a batch does nothing until it is run"]
pub struct TaggedBatch<'a, T> {
    batch: BatchBuilder<'a>,
    /// The tag of each write, in order.
    tags: Vec<T>,
}

impl<'a, T> TaggedBatch<'a, T> {
    pub(crate) fn new(batch: BatchBuilder<'a>) -> Self {
        Self {
            batch,
            tags: Vec::new(),
        }
    }

    pub fn with(mut self, tag: T, write: Write) -> Self {
        self.batch.batch.writes.push(write);
        self.tags.push(tag);
        self
    }

    pub fn extend(self, writes: impl IntoIterator<Item = (T, Write)>) -> Self {
        writes
            .into_iter()
            .fold(self, |batch, (tag, write)| batch.with(tag, write))
    }

    /// Does the same as [`BatchBuilder::slow_start`].
    pub fn slow_start(mut self, initial: u32) -> Self {
        self.batch = self.batch.slow_start(initial);
        self
    }

    /// Does the same as [`BatchBuilder::stop_on_error`].
    pub fn stop_on_error(mut self) -> Self {
        self.batch = self.batch.stop_on_error();
        self
    }

    /// Runs the writes as [`BatchBuilder::run`] does. Returns each tag with the result of its write, in the order in
    /// which they were added.
    pub fn run(self) -> Vec<(T, Result<Answer, ApiError>)> {
        self.tags.into_iter().zip(self.batch.run()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Cluster, refusal};

    const MAP: &str = "v1/ConfigMap";

    fn maps(count: usize) -> impl Iterator<Item = Write> {
        (0..count).map(|number| {
            let object = json!({"metadata": {"name": format!("map-{number:04}")}});
            Write::create(MAP, "a", &object)
        })
    }

    #[test]
    fn more_writes_than_a_batch_may_have_are_run_as_several_batches() {
        let cluster = Cluster::new();
        let results = cluster.host().batch().extend(maps(2500)).run();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2500);
        let names: Vec<String> = cluster.writes().into_iter().map(|one| one.name).collect();
        assert!(names.is_sorted() && names.len() == 2500);
    }

    #[test]
    fn an_error_ends_a_slow_start_and_a_batch_that_stops_on_error_but_no_other() {
        type Set = for<'a> fn(BatchBuilder<'a>) -> BatchBuilder<'a>;
        let cases: [(Set, usize); 3] = [
            (|batch| batch.slow_start(1), 1000),
            (|batch| batch.stop_on_error(), 600),
            (|batch| batch, 2500),
        ];
        for (set, written) in cases {
            let cluster = Cluster::new();
            cluster.fail_nth("create", MAP, 600, refusal(500, "InternalError"));
            let results = set(cluster.host().batch().extend(maps(2500))).run();
            assert_eq!(cluster.writes().len(), written);
            let is_skipped = |result: &Result<Answer, ApiError>| {
                result.as_ref().is_err_and(ApiError::is_skipped)
            };
            let skipped = results.iter().filter(|result| is_skipped(result)).count();
            assert_eq!((results.len(), skipped), (2500, 2500 - written));
        }
    }

    #[test]
    fn a_tagged_batch_returns_each_tag_with_the_result_of_its_write() {
        let cluster = Cluster::new();
        cluster.fail_nth("create", MAP, 2, refusal(500, "InternalError"));
        let writes = ["first", "second", "third"].into_iter().zip(maps(3));
        let results = cluster.host().tagged_batch().extend(writes).run();
        let results = results.into_iter();
        let results: Vec<_> = results.map(|(tag, one)| (tag, one.is_ok())).collect();
        assert_eq!(
            results,
            [("first", true), ("second", false), ("third", true)]
        );
    }

    #[test]
    fn a_tagged_batch_has_the_options_of_a_batch() {
        type Set = for<'a> fn(TaggedBatch<'a, usize>) -> TaggedBatch<'a, usize>;
        let options: [Set; 2] = [|batch| batch.slow_start(1), |batch| batch.stop_on_error()];
        for set in options {
            let cluster = Cluster::new();
            cluster.fail_nth("create", MAP, 1, refusal(500, "InternalError"));
            let writes = maps(3).enumerate();
            let results = set(cluster.host().tagged_batch().extend(writes)).run();
            let is_skipped = |(tag, result): &(usize, Result<Answer, ApiError>)| {
                let error = result.as_ref().err()?;
                error.is_skipped().then_some(*tag)
            };
            let skipped: Vec<usize> = results.iter().filter_map(is_skipped).collect();
            assert_eq!(skipped, [1, 2]);
        }
    }
}
