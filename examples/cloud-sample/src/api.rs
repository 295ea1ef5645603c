//! Requests to the sample cloud.

use std::time::Duration;

use flyball_cloud::provider::Context;
use flyball_cloud::{CloudError, HttpRequest, HttpResponse};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The file of `--cloud-config`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    /// The address of the cloud.
    url: String,
    /// Whether routes lead to the addresses of nodes, so that they are replaced when these change.
    #[serde(default)]
    pub(crate) node_addresses: bool,
}

#[derive(Deserialize)]
struct Refusal {
    error: Explanation,
}

#[derive(Deserialize)]
struct Explanation {
    code: String,
    message: String,
}

/// Sends a request. Returns the body of the response; `None` if the cloud has no such object.
///
/// # Errors
/// The cloud does not respond, throttles, or refuses the request.
pub(crate) fn send<T: DeserializeOwned>(
    cloud: &Context,
    method: &str,
    path: &str,
) -> Result<Option<T>, CloudError> {
    let response = exchange(cloud, request(cloud, method, path)?)?;
    response.map(|response| response.parse()).transpose()
}

/// Does the same as [`send`], with a body.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_body<T: DeserializeOwned>(
    cloud: &Context,
    method: &str,
    path: &str,
    body: &impl Serialize,
) -> Result<Option<T>, CloudError> {
    let response = exchange(cloud, request(cloud, method, path)?.json(body))?;
    response.map(|response| response.parse()).transpose()
}

/// Deletes an object. It is no error if the cloud does not have it.
///
/// # Errors
/// As [`send`].
pub(crate) fn delete(cloud: &Context, path: &str) -> Result<(), CloudError> {
    exchange(cloud, request(cloud, "DELETE", path)?).map(drop)
}

fn request(cloud: &Context, method: &str, path: &str) -> Result<HttpRequest, CloudError> {
    let config: Config = cloud.cloud_config()?;
    let url = config.url.trim_end_matches('/');
    Ok(HttpRequest::new(method, format!("{url}/v1/{path}")))
}

/// Returns a successful response; `None` if the cloud has no such object.
fn exchange(cloud: &Context, request: HttpRequest) -> Result<Option<HttpResponse>, CloudError> {
    let response = cloud.send(&request).map_err(|error| {
        flyball_sdk::warning!(cloud.host(), "{} {}: {error}", request.method, request.url);
        CloudError::other("the sample cloud does not respond")
    })?;
    match response.status {
        404 => Ok(None),
        _ if response.is_success() => Ok(Some(response)),
        429 => {
            let seconds = response.header("retry-after");
            let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(1);
            let after = Duration::from_secs(seconds);
            Err(CloudError::retry(refusal(&response), after))
        }
        _ => Err(CloudError::other(refusal(&response))),
    }
}

/// The text of an error: its code and its message.
fn refusal(response: &HttpResponse) -> String {
    match response.parse::<Refusal>() {
        Ok(Refusal { error }) => format!("{}: {}", error.code, error.message),
        Err(_) => format!("the sample cloud responds with status {}", response.status),
    }
}
