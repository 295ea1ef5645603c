//! The world's side of the sandbox.

use std::time::Duration;

use crate::call::{Answer, Call};
use crate::error::{CloudError, ErrorKind};

use bindings::flyball::cloud as wit;

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated from wit/"
)]
#[rustfmt::skip]
pub mod bindings;

pub(crate) fn capabilities() -> Result<Vec<u8>, CloudError> {
    wit::calls::capabilities().map_err(lift)
}

pub(crate) fn run<T>(calls: Vec<Call<T>>, concurrency: u32) -> Vec<Answer<Vec<u8>>> {
    let lower = |call: Call<T>| wit::types::Call {
        method: call.method.into(),
        arguments: call.arguments,
        nodes: call.nodes.as_bytes().to_vec(),
    };
    let calls: Vec<_> = calls.into_iter().map(lower).collect();
    let answers = wit::calls::run(&calls, concurrency);
    let lift = |answer: wit::calls::Answer| Answer {
        outcome: answer.outcome.map_err(lift),
        took: Duration::from_micros(answer.took_us.into()),
    };
    answers.into_iter().map(lift).collect()
}

fn lift(error: wit::types::Error) -> CloudError {
    CloudError {
        kind: ErrorKind::of(&error.kind),
        message: error.message,
        wrapped: error.wrapped,
        retry_after: error
            .retry_after_ms
            .map(|millis| Duration::from_millis(millis.into())),
    }
}
