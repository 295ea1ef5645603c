//! Clients of the API server and of etcd.

use anyhow::Context;
use http::Request;
use kube::{Client, Config};

use crate::pki::{CertificateFiles, Pki};

pub(super) fn client_config(
    url: &str,
    pki: &Pki,
    files: &CertificateFiles,
) -> anyhow::Result<Config> {
    let mut config = Config::new(
        url.parse()
            .with_context(|| format!("{url} is not a valid URL of a server"))?,
    );
    config.root_cert = Some(vec![pki.ca_der()]);
    config.auth_info.client_certificate = Some(files.certificate.display().to_string());
    config.auth_info.client_key = Some(files.key.display().to_string());
    Ok(config)
}

pub(super) fn client(config: Config) -> anyhow::Result<Client> {
    let url = config.cluster_url.clone();
    Client::try_from(config).with_context(|| format!("can't create a client for {url}"))
}

/// A client that doesn't retry, since its caller does.
pub(super) fn without_retry(mut config: Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    client(config)
}

pub(super) fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path)
        .body(Vec::new())
        .expect("the path is a constant")
}

pub(super) fn post(path: &str, json: &str) -> Request<Vec<u8>> {
    Request::post(path)
        .body(json.as_bytes().to_vec())
        .expect("the path is a constant")
}
