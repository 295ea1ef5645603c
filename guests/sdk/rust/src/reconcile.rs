//! The argument and the result of [`Controller::reconcile`](crate::Controller::reconcile).

use std::time::Duration;

use flyball_types::{Reference, ReferenceError};

use crate::error::Error;
use crate::key::Key;

/// A key to reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The queue that the key came from.
    pub queue: String,
    pub key: Key,
    /// Number of failures of this key since it last succeeded.
    pub attempt: u32,
}

impl Request {
    /// A first attempt.
    pub fn new(queue: &str, key: &str) -> Self {
        Self {
            queue: queue.into(),
            key: Key::parse(key),
            attempt: 0,
        }
    }

    /// Parses the key as a reference to an object of any kind, for mappings that enqueue [references](Reference).
    ///
    /// # Errors
    /// The key is not a reference. The error is terminal.
    pub fn reference(&self) -> Result<Reference, Error> {
        self.key
            .to_string()
            .parse()
            .map_err(|error: ReferenceError| Error::Terminal(error.to_string()))
    }
}

/// The result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do. Resets the key's backoff.
    Done,
    /// Like `Done`, and reconciles the key again after this time.
    RequeueAfter(Duration),
}
