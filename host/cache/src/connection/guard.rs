//! A condition under which a request may be sent, checked as late as possible. A request waits for a connection and then
//! for the task that writes to it, and the process may be suspended meanwhile.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use hyper::body::{Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

/// The condition of a request, in its extensions. It is checked before the request starts, and again before its body is
/// sent: a server that does not get the complete body does nothing.
#[derive(Clone)]
pub struct SendGuard(Arc<dyn Fn() -> bool + Send + Sync>);

/// A request was not sent, or not completely, because its [`SendGuard`] did not allow it any more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request may no longer be sent")]
pub struct NotAllowed;

impl SendGuard {
    /// A guard that lets a request through while `is_allowed` returns true.
    pub fn new(is_allowed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_allowed))
    }

    fn check(&self) -> Result<(), NotAllowed> {
        if (self.0)() { Ok(()) } else { Err(NotAllowed) }
    }
}

impl fmt::Debug for SendGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SendGuard").finish_non_exhaustive()
    }
}

/// The body of a request. hyper polls it where it writes to the connection.
#[derive(Debug)]
pub(super) struct GuardedBody {
    body: Body,
    guard: Option<SendGuard>,
}

/// Moves the guard from the request's extensions to its body.
pub(super) fn guarded(mut request: Request<Body>) -> Request<GuardedBody> {
    let guard = request.extensions_mut().remove();
    request.map(|body| GuardedBody { body, guard })
}

impl GuardedBody {
    pub(super) fn check(&self) -> Result<(), NotAllowed> {
        self.guard.as_ref().map_or(Ok(()), SendGuard::check)
    }

    /// Returns the same body for another attempt; `None` if it is a stream.
    pub(super) fn try_clone(&self) -> Option<Self> {
        let guard = self.guard.clone();
        self.body.try_clone().map(|body| Self { body, guard })
    }
}

impl hyper::body::Body for GuardedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Err(error) = self.check() {
            return Poll::Ready(Some(Err(error.into())));
        }
        Pin::new(&mut self.body)
            .poll_frame(context)
            .map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
