//! The events that controllers record. They are kept as lines, and are no part of what a plan finds.

use flyball_testserver::api::request::Call;
use flyball_types::ApiError;
use http::Method;

use crate::server::{Reply, Shared};

pub(crate) const KINDS: [&str; 2] = ["v1/Event", "events.k8s.io/v1/Event"];
/// The most distinct lines that are kept.
const MAX_LINES: usize = 1000;

impl Shared {
    /// Keeps the line of an event. Events are no part of the outcome.
    pub(crate) fn record(&self, call: &Call<'_>) -> Result<Reply, ApiError> {
        let mut event = call.json()?;
        let text = |pointers: [&str; 2]| {
            let found = pointers
                .iter()
                .find_map(|pointer| event.pointer(pointer)?.as_str());
            found.unwrap_or_default().to_owned()
        };
        let about = |field: &str| {
            let [old, new] =
                ["involvedObject", "regarding"].map(|object| format!("/{object}/{field}"));
            text([&old, &new])
        };
        let about = ["kind", "namespace", "name"].map(about);
        let about: Vec<&str> = about
            .iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        let line = format!(
            "{} {} {}: {}",
            text(["/type", "/type"]),
            text(["/reason", "/reason"]),
            about.join("/"),
            text(["/message", "/note"])
        );
        let state = &mut *self.state.borrow_mut();
        if *call.method == Method::POST
            && (state.events.len() < MAX_LINES || state.events.contains_key(&line))
        {
            *state.events.entry(line).or_default() += 1;
        }
        event["metadata"]["resourceVersion"] = state.overlay.watches.version().to_string().into();
        let status = if *call.method == Method::POST {
            201
        } else {
            200
        };
        Ok(Reply::Json(status, event))
    }
}
