//! The world's side of the sandbox.

mod http;

use std::marker::PhantomData;
use std::time::Duration;

use flyball_sdk::Host;

use crate::call::{Answer, Call};
use crate::error::{CloudError, ErrorKind};
use crate::http::{HttpRequest, HttpResponse};
use crate::provider::{Context, Outside, Provider, RawCall};

use bindings::exports::flyball::cloud::provider;
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

/// Implements the WIT exports for a provider.
pub struct Exported<P>(PhantomData<P>);

impl<P: Provider> provider::Guest for Exported<P> {
    fn capabilities() -> Result<Vec<u8>, provider::Error> {
        with_context(|cloud| crate::provider::capabilities::<P>(cloud))
    }

    fn call(
        method: String,
        arguments: Vec<u8>,
        nodes: Vec<u8>,
    ) -> Result<Vec<u8>, provider::Error> {
        let call = RawCall {
            arguments: &arguments,
            nodes: &nodes,
        };
        with_context(|cloud| P::call(cloud, &method, &call))
    }
}

fn with_context(
    run: impl FnOnce(&Context) -> Result<Vec<u8>, CloudError>,
) -> Result<Vec<u8>, provider::Error> {
    let result = flyball_sdk::wasm::with_host(|host: Host| run(&Context::new(host, &Sandbox)));
    result.map_err(lower)
}

/// The imports of a provider.
struct Sandbox;

impl Outside for Sandbox {
    fn credential(&self, name: &str) -> Option<Vec<u8>> {
        wit::credentials::get(name)
    }

    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, CloudError> {
        http::send(request)
    }
}

fn lower(error: CloudError) -> provider::Error {
    let millis = |after: Duration| after.as_millis().try_into().unwrap_or(u32::MAX);
    provider::Error {
        kind: error.kind.as_str().into(),
        message: error.message,
        wrapped: error.wrapped,
        retry_after_ms: error.retry_after.map(millis),
    }
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
