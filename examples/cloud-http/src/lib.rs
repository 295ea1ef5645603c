//! A provider for any cloud that answers the methods of cloud providers over HTTP: one POST per method. `README.md`
//! describes the protocol.
//!
//! The provider passes documents on as they are: those of the protocol have the keys of the world's. Only the errors, the
//! place of a single node and the spelling of some keys differ ([`protocol`]).

use flyball_cloud::provider::{Context, RawCall, describe_provider};
use flyball_cloud::{Capabilities, CloudError, HttpRequest, Provider, export_provider};
use flyball_sdk::prelude::*;
use serde::Deserialize;

mod protocol;
#[cfg(test)]
mod tests;

/// The provider.
pub struct CloudHttp;

export_provider!(CloudHttp);

/// The file of `--cloud-config`.
#[derive(Deserialize)]
struct Config {
    /// The address of the cloud, to which the paths are appended.
    url: String,
    /// Sent as `Authorization: Bearer TOKEN`, if it is set.
    #[serde(default)]
    token: String,
}

impl Provider for CloudHttp {
    fn describe() -> Description {
        describe_provider("cloud-http", env!("CARGO_PKG_VERSION"))
            // Without a mapping. The host then gives whole Nodes to calls.
            .watch(watch_kind("v1/Node").fields(&["."]))
    }

    fn capabilities(cloud: &Context) -> Result<Capabilities, CloudError> {
        let request = request(cloud, "GET", "capabilities")?;
        let response = cloud.send(&request)?;
        if !response.is_success() {
            return Err(protocol::unexpected("capabilities", &response));
        }
        response.parse()
    }

    fn call(cloud: &Context, method: &str, call: &RawCall) -> Result<Vec<u8>, CloudError> {
        let body = protocol::arguments(method, call)?;
        let request = request(cloud, "POST", method)?.json(&body);
        protocol::result(method, &cloud.send(&request)?)
    }
}

/// A request for a path of the protocol.
fn request(cloud: &Context, method: &str, path: &str) -> Result<HttpRequest, CloudError> {
    let Config { url, token } = cloud.cloud_config()?;
    let url = url.trim_end_matches('/');
    let request = HttpRequest::new(method, format!("{url}/v1/{path}"));
    Ok(match token.as_str() {
        "" => request,
        token => request.header("authorization", format!("Bearer {token}")),
    })
}
