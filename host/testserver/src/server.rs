//! Keeps the clusters, and replies to calls.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::calls::Open;
use crate::protocol::{Call, Reply, Request};
use crate::recordings;
use crate::result::{Failure, Result, ok};

/// All clusters of a test program.
#[derive(Default)]
pub(crate) struct Server {
    clusters: Vec<Open>,
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
        let open = match &call {
            Call::New => Some(Open::default()),
            Call::Replay { file, line } => Some(Open::recorded(recordings::open(file, *line)?)),
            Call::Recording { file, fixed } => return recordings::list(file, *fixed),
            _ => None,
        };
        if let Some(open) = open {
            self.clusters.push(open);
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
