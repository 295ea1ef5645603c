//! Requests over `wasi:http`.

use std::time::Duration;

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::streams::StreamError;

use crate::error::CloudError;
use crate::http::{HttpRequest, HttpResponse};

/// The most bytes that a stream of `wasi:io` accepts at once, and that are read at once.
const WRITTEN_AT_ONCE: usize = 4096;
const READ_AT_ONCE: u64 = 64 * 1024;

pub(super) fn send(request: &HttpRequest) -> Result<HttpResponse, CloudError> {
    let (_, server, _) = request.parts()?;
    let failed = |problem: String| {
        let method = &request.method;
        CloudError::other(format!(
            "the request {method} to {server} failed: {problem}"
        ))
    };
    exchange(request).map_err(failed)
}

fn exchange(request: &HttpRequest) -> Result<HttpResponse, String> {
    let (outgoing, options) = outgoing(request)?;
    let body = outgoing.body().map_err(|()| "it has a body already")?;
    let response = outgoing_handler::handle(outgoing, Some(options)).map_err(text)?;
    write(body, &request.body)?;
    response.subscribe().block();
    let response = response.get().ok_or("the host has no response")?;
    let response = response
        .map_err(|()| "the response was taken")?
        .map_err(text)?;
    read(response)
}

fn outgoing(request: &HttpRequest) -> Result<(OutgoingRequest, RequestOptions), String> {
    let (scheme, server, path) = request.parts().map_err(|error| error.message)?;
    let header = |(name, value): &(String, String)| (name.clone(), value.as_bytes().to_vec());
    let mut headers: Vec<_> = request.headers.iter().map(header).collect();
    if !request.body.is_empty() {
        headers.push((
            "content-length".into(),
            request.body.len().to_string().into(),
        ));
    }
    let headers =
        Fields::from_list(&headers).map_err(|error| format!("a header is invalid: {error}"))?;
    let outgoing = OutgoingRequest::new(headers);
    let scheme = match scheme {
        "http" => Scheme::Http,
        _ => Scheme::Https,
    };
    let invalid = |what: &'static str| move |()| format!("the {what} is invalid");
    outgoing
        .set_method(&method(&request.method))
        .map_err(invalid("method"))?;
    outgoing
        .set_scheme(Some(&scheme))
        .map_err(invalid("scheme"))?;
    outgoing
        .set_authority(Some(server))
        .map_err(invalid("server"))?;
    outgoing
        .set_path_with_query(Some(path))
        .map_err(invalid("path"))?;
    let options = RequestOptions::new();
    let timeout = Some(nanos(request.timeout));
    options
        .set_connect_timeout(timeout)
        .map_err(invalid("timeout"))?;
    options
        .set_first_byte_timeout(timeout)
        .map_err(invalid("timeout"))?;
    options
        .set_between_bytes_timeout(timeout)
        .map_err(invalid("timeout"))?;
    Ok((outgoing, options))
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), String> {
    let stream = body.write().map_err(|()| "the body was taken")?;
    for part in bytes.chunks(WRITTEN_AT_ONCE) {
        match stream.blocking_write_and_flush(part) {
            Ok(()) => {}
            // The server has responded before it read all, or the connection failed: the response says which.
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(text)
}

fn read(response: IncomingResponse) -> Result<HttpResponse, String> {
    let status = response.status();
    let header = |(name, value): (String, Vec<u8>)| {
        (
            name.to_lowercase(),
            String::from_utf8_lossy(&value).into_owned(),
        )
    };
    let headers = response
        .headers()
        .entries()
        .into_iter()
        .map(header)
        .collect();
    let incoming = response
        .consume()
        .map_err(|()| "the response's body was taken")?;
    let stream = incoming
        .stream()
        .map_err(|()| "the response's body was taken")?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(READ_AT_ONCE) {
            Ok(part) => body.extend(part),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    Ok(HttpResponse {
        status,
        headers,
        body,
    })
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        other => Method::Other(other.into()),
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// The host's own reason where it gives one, such as that the policy names no such server.
fn text(error: ErrorCode) -> String {
    match error {
        ErrorCode::InternalError(Some(message)) => message,
        other => format!("{other:?}"),
    }
}
