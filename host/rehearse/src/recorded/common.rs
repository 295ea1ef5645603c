//! What several imports have in common.

use flyball_plugin::{CloudError, Metered, ObjectReference};
use flyball_recording::answer::{self, Answer};
use flyball_recording::{Asked, Document, asked};
use flyball_types::ApiError;
use futures::future::BoxFuture;

use super::Recorded;
use crate::convert;
use crate::notes::Place;

/// About how many bytes a signature, a certificate or the like has.
pub(super) const MANY: usize = 2048;

impl Recorded {
    /// Awaits an answer, and notes it at the place of its question.
    pub(super) async fn metered<T: Clone + Send + 'static, D: serde::Serialize>(
        &self,
        place: Place,
        work: BoxFuture<'_, Metered<T>>,
        document: impl FnOnce(T) -> D + Send + 'static,
    ) -> Metered<T> {
        let done = work.await;
        self.notes.answer(place, MANY, || {
            let result = done.result.clone();
            move || {
                answer::write(&Answer::from(
                    result
                        .map(document)
                        .map_err(|error| answer::Error::from(&error)),
                ))
            }
        });
        done
    }

    pub(super) fn note_queue<T: Clone + serde::Serialize + Send + 'static>(
        &self,
        queue: &str,
        key: &str,
        result: &Result<T, ApiError>,
        question: impl FnOnce(&str, &str) -> Asked + Send + 'static,
    ) {
        self.notes.add(
            queue.len() + key.len(),
            || {
                let (queue, key) = (queue.to_owned(), key.to_owned());
                move || question(&queue, &key)
            },
            || {
                let result = result.clone();
                move || answer::write_result(result.as_ref())
            },
        );
    }

    pub(super) fn note_metric(
        &self,
        operation: &'static str,
        name: &str,
        labels: &[String],
        value: f64,
    ) {
        self.notes.add(
            name.len() + convert::size_of_texts(labels),
            || {
                let (name, labels) = (name.to_owned(), labels.to_vec());
                move || asked::metrics_record(operation, &name, &labels, value)
            },
            || || answer::write_ok(()),
        );
    }

    /// Awaits an answer of a cloud, and notes it at the place of its question.
    pub(super) async fn of_cloud(
        &self,
        place: Place,
        work: BoxFuture<'_, Result<Vec<u8>, CloudError>>,
    ) -> Result<Vec<u8>, CloudError> {
        let result = work.await;
        let size = result.as_ref().map_or(MANY, Vec::len);
        self.notes.answer(place, size, || {
            let result = result.clone();
            move || {
                let result = result
                    .map(Document)
                    .map_err(|error| convert::cloud_error(&error));
                answer::write(&Answer::from(result))
            }
        });
        result
    }
}

pub(super) fn size_of_reference(object: &ObjectReference) -> usize {
    let ObjectReference {
        kind,
        namespace,
        name,
        uid,
    } = object;
    kind.len() + namespace.len() + name.len() + uid.len()
}
