//! Connections to the API server: kube's layers for the address and the credentials, directly on a connection pool.
//!
//! kube's own client is not used, since it passes each request and response through an extra task, and opens a
//! connection for each watch.

mod guard;
mod pool;

use std::sync::Arc;

use http::{Request, Response};
use hyper_rustls::{
    DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName,
};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::{Body, ConfigExt, RustlsTlsError};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, service_fn};

pub use self::guard::{NotAllowed, SendGuard};
use self::pool::Pool;
pub use self::pool::ResponseBody;

/// HTTP/2 first: the server chooses the first protocol that it speaks.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Sends requests whose URI is a path. Clones share the connections.
pub type Connection = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

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
    let pool = Pool::new(
        connector(config)?,
        config.cluster_url.clone(),
        config.connect_timeout,
    );
    let pool = Arc::new(pool);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(service_fn(move |request| pool.clone().send(request)));
    Ok(BoxCloneSyncService::new(service))
}

/// Returns a connector like kube's, which also offers HTTP/2.
fn connector(config: &Config) -> kube::Result<HttpsConnector<HttpConnector>> {
    let mut tcp = HttpConnector::new();
    // Off, since the TLS connector on top of it passes `https` URIs.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    let names: Arc<dyn ResolveServerName + Send + Sync> = match &config.tls_server_name {
        Some(name) => {
            let name = name.clone().try_into();
            let name = name.map_err(RustlsTlsError::InvalidServerName);
            let name = name.map_err(kube::Error::RustlsTls)?;
            Arc::new(FixedServerNameResolver::new(name))
        }
        None => Arc::new(DefaultServerNameResolver::default()),
    };
    Ok(HttpsConnector::new(tcp, tls, false, names))
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
