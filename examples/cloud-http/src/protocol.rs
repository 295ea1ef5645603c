//! The documents of the protocol, from those of the world and back.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_cloud::provider::RawCall;
use flyball_cloud::{CloudError, ErrorKind, HttpResponse};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Numbers from here on are nanoseconds, as Go writes durations, and smaller ones seconds.
const NANOSECONDS: f64 = 1_000_000.0;
/// The most bytes of an unexpected response that an error quotes.
const QUOTED: usize = 200;

/// The body of a request: the arguments with the nodes. Objects of the API stay text.
///
/// # Errors
/// The arguments are not a document.
pub(crate) fn arguments(
    method: &str,
    call: &RawCall,
) -> Result<BTreeMap<String, Box<RawValue>>, CloudError> {
    let malformed = |error: serde_json::Error| {
        CloudError::other(format!("the arguments of {method} are malformed: {error}"))
    };
    let empty: &[u8] = b"{}";
    let arguments = if call.arguments.is_empty() {
        empty
    } else {
        call.arguments
    };
    let mut body: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(arguments).map_err(malformed)?;
    let mut nodes: Vec<Box<RawValue>> = match call.nodes {
        [] => Vec::new(),
        nodes => serde_json::from_slice(nodes).map_err(malformed)?,
    };
    if method.starts_with("Instance") {
        body.extend(nodes.pop().map(|node| ("node".to_owned(), node)));
    } else if matches!(method, "EnsureLoadBalancer" | "UpdateLoadBalancer") {
        let nodes = serde_json::value::to_raw_value(&nodes).map_err(malformed)?;
        body.insert("nodes".into(), nodes);
    }
    Ok(body)
}

/// The result of a method: the document of a response.
///
/// # Errors
/// The response has an error, another status than 200, or is malformed.
pub(crate) fn result(method: &str, response: &HttpResponse) -> Result<Vec<u8>, CloudError> {
    if !response.is_success() {
        return Err(unexpected(method, response));
    }
    let mut result: Map<String, Value> = match response.body[..] {
        [] => Map::new(),
        _ => response.parse()?,
    };
    if let Some(error) = result.remove("error").filter(|error| !error.is_null()) {
        return Err(of_protocol(&error));
    }
    for key in ["metadata", "zone"] {
        result.entry(key).and_modify(respell);
    }
    if let Some(Value::Array(routes)) = result.get_mut("routes") {
        routes.iter_mut().for_each(respell);
    }
    Ok(Value::Object(result).to_string().into_bytes())
}

/// The error of a response with another status than 200.
pub(crate) fn unexpected(method: &str, response: &HttpResponse) -> CloudError {
    let quoted = &response.body[..response.body.len().min(QUOTED)];
    let text = String::from_utf8_lossy(quoted);
    let status = response.status;
    CloudError::other(format!(
        "the cloud responded to {method} with status {status}: {}",
        text.trim()
    ))
}

/// An error of the protocol: `{"kind", "message", "retryAfter"}`.
fn of_protocol(error: &Value) -> CloudError {
    let text = |key: &str| error[key].as_str().unwrap_or_default();
    let message = match (text("message"), error) {
        ("", Value::String(error)) => error.as_str(),
        (message, _) => message,
    };
    let sentinel = match text("kind") {
        "ImplementedElsewhere" => CloudError::implemented_elsewhere(),
        "InstanceNotFound" => CloudError::instance_not_found(),
        "NotImplemented" => CloudError::not_implemented(),
        "Retry" => CloudError::retry(message, duration(&error["retryAfter"])),
        _ => return CloudError::other(message),
    };
    // Any other text means that the error wraps one of this kind.
    let wrapped = sentinel.kind != ErrorKind::Retry && message != sentinel.message;
    match (message, wrapped) {
        ("", _) => sentinel,
        (_, wrapped) => CloudError {
            message: message.into(),
            wrapped,
            ..sentinel
        },
    }
}

/// Seconds, nanoseconds, or a text such as `10s`.
fn duration(value: &Value) -> Duration {
    let of_seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match value {
        Value::String(text) => flyball_sdk::duration::parse(text).unwrap_or_default(),
        value => match value.as_f64().unwrap_or_default() {
            number if number >= NANOSECONDS => of_seconds(number / 1e9),
            number => of_seconds(number),
        },
    }
}

/// Writes the first letters of an object's keys in lower case: a cloud in Go may serialize the structs of its library,
/// whose keys are `ProviderID` or `DestinationCIDR`.
fn respell(value: &mut Value) {
    if let Value::Object(fields) = value {
        let all = std::mem::take(fields).into_iter();
        *fields = all
            .map(|(mut key, value)| {
                if let Some(first) = key.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                (key, value)
            })
            .collect();
    }
}
