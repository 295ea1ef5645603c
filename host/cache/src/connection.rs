//! Connections to the API server: kube's layers for the address and the credentials, directly on a connection pool.
//!
//! kube's own client is not used, since it passes each request and response through an extra task.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

/// The size of a connection's read buffer, in bytes.
const BUFFER: usize = 64 * 1024;

/// Sends requests whose URI is a path. Clones share the connections.
pub type Connection = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Connects with kube's configuration. The caller sets the timeouts of its requests.
///
/// # Errors
/// The configuration has unusable credentials or certificate authorities, or a proxy, which is not supported.
pub fn connect(config: &Config) -> kube::Result<Connection> {
    if let Some(proxy) = &config.proxy_url {
        return Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy.clone()),
        });
    }
    let mut tcp = HttpConnector::new();
    // Off, since the TLS connector on top of it passes `https` URIs.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let client = Client::builder(TokioExecutor::new())
        .http1_max_buf_size(BUFFER)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_refused() {
        let mut config = Config::new("https://10.0.0.1:6443".parse().expect("an address"));
        config.proxy_url = Some("http://proxy:3128".parse().expect("an address"));
        let error = connect(&config)
            .expect_err("proxies are not supported")
            .to_string();
        assert!(error.contains("proxy:3128"), "{error}");
    }
}
