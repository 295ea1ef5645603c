//! An admission webhook that is called for each write of the controllers before the API server
//! persists it.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The webhook's match condition: requests of controllers' service accounts, except for events and
/// leases.
const CONDITION: &str = "request.userInfo.username.startsWith('system:serviceaccount:kube-system:') \
                    && !(request.resource.resource in ['events', 'leases'])";

/// A running webhook that allows every request. Dropping it stops the webhook.
pub struct Interceptor(JoinHandle<()>);

impl Interceptor {
    /// Calls `before` with a description of each write, such as `create pods`. The API server
    /// continues with the write when `before` returns.
    pub async fn start<F>(
        client: &Client,
        before: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("can't listen on 127.0.0.1")?;
        let url = format!("https://{}/", listener.local_addr()?);
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .context("can't generate a certificate")?;
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())
            .map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let (acceptor, before) = (TlsAcceptor::from(Arc::new(config)), Arc::new(before));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, before) = (acceptor.clone(), before.clone());
                // The API server retries if a connection fails.
                tokio::spawn(async move { serve(stream, &acceptor, before).await.ok() });
            }
        });
        let this = Self(task);
        register(client, &url, certified.cert.pem()).await?;
        Ok(this)
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn register(client: &Client, url: &str, certificate: String) -> Result<()> {
    let webhook: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "interceptor"},
        "webhooks": [{
            "name": "interceptor.flyball.dev",
            "clientConfig": {"url": url, "caBundle": ByteString(certificate.into_bytes())},
            "rules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
            "matchConditions": [{"name": "controllers", "expression": CONDITION}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
        }],
    }))?;
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &webhook)
        .await;
    created.map(drop).context("can't register the webhook")
}

async fn serve<B, F>(stream: TcpStream, acceptor: &TlsAcceptor, before: Arc<B>) -> Result<()>
where
    B: Fn(String) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let before = before.clone();
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let request = &review["request"];
            before(describe(request)).await;
            let response = json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": request["uid"], "allowed": true},
            });
            Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(response.to_string()))))
        }
    });
    let served = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    served.map_err(anyhow::Error::from_boxed)
}

/// The description of a write, such as `update pods/status`.
fn describe(request: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let description = format!(
        "{} {}",
        text(&request["operation"]).to_lowercase(),
        text(&request["resource"]["resource"])
    );
    match request["subResource"].as_str() {
        Some(part) if !part.is_empty() => format!("{description}/{part}"),
        _ => description,
    }
}
