//! The imports of clouds: the calls by a controller, and the credentials of a provider.

use std::time::Instant;

use flyball_types::printable;
use futures::StreamExt;

use super::{InstanceState, arguments, owned};
use crate::bindings::cloud::flyball::cloud::calls::{self, Answer};
use crate::bindings::cloud::flyball::cloud::credentials;
use crate::bindings::cloud::flyball::cloud::types::{self, Call, Error};
use crate::cloud::{CloudCall, CloudError};
use crate::hits::Limit;
use crate::imports::Imports;

/// The most calls of one batch. Further calls are not made.
const MAX_CALLS: usize = 1000;
/// The most calls of one batch at once. Kubernetes' route controller makes 200.
const CONCURRENCY: usize = 256;

impl types::Host for InstanceState {}

impl calls::Host for InstanceState {
    async fn capabilities(&mut self) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let imports = self.imports_without_texts()?.clone();
        let meter = self.meter.clone();
        let result = meter.elsewhere(imports.cloud_capabilities()).await;
        let result = result.and_then(|document| self.counted(document, 0));
        Ok(result.map_err(Error::from))
    }

    async fn run(&mut self, calls: Vec<Call>, concurrency: u32) -> wasmtime::Result<Vec<Answer>> {
        let imports = self.imports_without_texts()?.clone();
        let meter = self.meter.clone();
        let at_once = match usize::try_from(concurrency).unwrap_or(CONCURRENCY) {
            0 => CONCURRENCY,
            some => some.min(CONCURRENCY),
        };
        let count = calls.len();
        let running = calls.into_iter().take(MAX_CALLS).enumerate();
        let running = running.map(|(number, call)| {
            let imports = imports.clone();
            async move {
                let begun = Instant::now();
                (number, make(&*imports, call).await, begun.elapsed())
            }
        });
        let running = futures::stream::iter(running).buffer_unordered(at_once);
        let mut ended: Vec<_> = meter.elsewhere(running.collect::<Vec<_>>()).await;
        ended.sort_by_key(|(number, ..)| *number);
        let mut total = 0;
        let mut answers = Vec::with_capacity(count);
        for (_, outcome, took) in ended {
            let outcome = outcome.and_then(|document| {
                let document = self.counted(document, total)?;
                total += document.len();
                Ok(document)
            });
            answers.push(Answer {
                outcome: outcome.map_err(Error::from),
                took_us: took.as_micros().try_into().unwrap_or(u32::MAX),
            });
        }
        let skipped = || Answer {
            outcome: Err(CloudError::full(format!("a batch has at most {MAX_CALLS} calls")).into()),
            took_us: 0,
        };
        answers.resize_with(count, skipped);
        Ok(answers)
    }
}

impl credentials::Host for InstanceState {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<Vec<u8>>> {
        // There is no credential of such a name.
        let Ok(imports) = self.imports(arguments::name("the name", &name))? else {
            return Ok(None);
        };
        Ok(imports.credential(&name).map(owned))
    }
}

async fn make(imports: &dyn Imports, call: Call) -> Result<Vec<u8>, CloudError> {
    let Call {
        method,
        arguments,
        nodes,
    } = call;
    arguments::name("the method", &method).map_err(|error| CloudError::full(error.to_string()))?;
    let (arguments, nodes) = (arguments.into(), nodes.into());
    let call = CloudCall {
        method,
        arguments,
        nodes,
    };
    imports.cloud_call(call).await
}

impl InstanceState {
    /// Counts a document for the guest, which has been given `before` bytes in this batch. Fails beyond the plugin's
    /// limit.
    fn counted(&mut self, document: Vec<u8>, before: usize) -> Result<Vec<u8>, CloudError> {
        let (size, limit) = (document.len(), self.limits.answer_bytes);
        if before + size > limit {
            self.hit(Limit::Answer);
            return Err(CloudError::full(format!(
                "with this result of {size} bytes, the results of the cloud exceed the plugin's limit of {limit} bytes"
            )));
        }
        let counted = self.count_answer(size);
        counted.map_err(|error| CloudError::full(error.message))?;
        Ok(document)
    }
}

impl From<CloudError> for Error {
    fn from(error: CloudError) -> Self {
        let CloudError {
            kind,
            message,
            wrapped,
            retry_after_ms,
        } = error;
        Self {
            kind,
            message: printable(&message),
            wrapped,
            retry_after_ms,
        }
    }
}
