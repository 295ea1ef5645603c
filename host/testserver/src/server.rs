//! The clusters, and the replies to calls.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flyball_sdk::ApiError;
use serde::Serialize;
use serde_json::Value;

use crate::calls::Open;
use crate::protocol::{Call, Reply, Request};

/// All clusters of a test program.
#[derive(Default)]
pub(crate) struct Server {
    clusters: Vec<Open>,
}

/// Why a call has no result.
pub(crate) enum Failure {
    /// The controller gets this error.
    Error(ApiError),
    /// The call is wrong.
    Mistake(String),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

impl From<String> for Failure {
    fn from(mistake: String) -> Self {
        Self::Mistake(mistake)
    }
}

pub(crate) type Result = std::result::Result<Value, Failure>;

/// A value as the result of a call.
pub(crate) fn ok(value: impl Serialize) -> Result {
    serde_json::to_value(value).map_err(|error| Failure::Mistake(error.to_string()))
}

impl Server {
    /// Returns the reply to a line.
    pub(crate) fn reply(&mut self, line: &str) -> Reply {
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => return Reply::Mistake(error.to_string()),
        };
        // A panic of the cluster says what is wrong with the test. It leaves the cluster whole.
        let called = catch_unwind(AssertUnwindSafe(|| self.run(request)));
        match called {
            Ok(Ok(value)) => Reply::Ok(value),
            Ok(Err(Failure::Error(error))) => Reply::Error(error.into()),
            Ok(Err(Failure::Mistake(mistake))) => Reply::Mistake(mistake),
            Err(panic) => Reply::Mistake(message(&*panic)),
        }
    }

    fn run(&mut self, Request { cluster, call }: Request) -> Result {
        if let Call::New = call {
            self.clusters.push(Open::default());
            return ok(self.clusters.len() - 1);
        }
        let missing = || format!("there is no cluster {cluster}");
        self.clusters
            .get_mut(cluster)
            .ok_or_else(missing)?
            .run(call)
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned())
        .unwrap_or_else(|| "the cluster panicked".into())
}
