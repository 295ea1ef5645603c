//! The authorities that are trusted now, read from files or, where no file is given, from the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderMap;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::certificate::{Authorities, subject};
use super::{AuthenticationOptions, Unauthorized};
use crate::User;
use crate::review::TrustLookup;

/// The proxies that may set users, and the headers they use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaderOptions {
    /// The file of the authorities of the proxies' certificates. `None` for the authorities that the cluster
    /// configures.
    pub client_ca_file: Option<PathBuf>,
    /// The allowed common names of the proxies; empty for any.
    pub allowed_names: Vec<String>,
    /// The headers with the user's name. The first one in the request counts.
    pub username_headers: Vec<String>,
    /// The headers with the user's unique id. The first one in the request counts.
    pub uid_headers: Vec<String>,
    /// The headers with a group each.
    pub group_headers: Vec<String>,
    /// The prefixes of the headers with further attributes.
    pub extra_headers_prefix: Vec<String>,
}

/// The authorities that are trusted at present.
#[derive(Clone, Default)]
pub(super) struct Trust {
    clients: Option<Authorities>,
    proxies: Option<(Authorities, RequestHeaderOptions)>,
}

impl Default for RequestHeaderOptions {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".to_owned()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".to_owned()],
            extra_headers_prefix: vec!["x-remote-extra-".to_owned()],
        }
    }
}

impl Trust {
    /// Reads the trusted authorities, and returns them with whether all could be read. An authority that can't be read
    /// is taken from `old`.
    pub(super) async fn read(
        options: &AuthenticationOptions,
        lookup: Option<&dyn TrustLookup>,
        old: &Self,
    ) -> (Self, bool) {
        let mut complete = true;
        let mut trust = old.clone();
        let proxies = &options.request_header;
        let both_files = options.client_ca_file.is_some() && proxies.client_ca_file.is_some();
        let cluster = match lookup {
            Some(lookup) if !both_files => match lookup.trust().await {
                Ok(data) => Some(data),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::info!(
                        error,
                        "can't read the ConfigMap kube-system/extension-apiserver-authentication"
                    );
                    complete = false;
                    None
                }
            },
            _ => None,
        };
        let bundles = [
            (&options.client_ca_file, "client-ca-file"),
            (&proxies.client_ca_file, "requestheader-client-ca-file"),
        ];
        let [clients, proxy] =
            bundles.map(
                async |(file, key): (&Option<PathBuf>, &str)| match (file, &cluster) {
                    (Some(file), _) => (file.display().to_string(), read_file(file).await),
                    (None, Some(data)) => (key.to_owned(), Ok(data.get(key).cloned())),
                    (None, None) => (key.to_owned(), Err("the ConfigMap was not read".to_owned())),
                },
            );
        let (clients, proxy) = (clients.await, proxy.await);
        let nothing_to_read = |file: &Option<PathBuf>| file.is_none() && cluster.is_none();
        if !nothing_to_read(&options.client_ca_file) {
            complete &= update(&mut trust.clients, clients);
        }
        if !nothing_to_read(&proxies.client_ca_file) {
            let mut authorities = trust.proxies.take().map(|(authorities, _)| authorities);
            complete &= update(&mut authorities, proxy);
            let headers = match &cluster {
                Some(data) if proxies.client_ca_file.is_none() => from_cluster(data),
                _ => Some(proxies.clone()),
            };
            trust.proxies = authorities.zip(headers);
        }
        (trust, complete)
    }

    /// The user that a trusted proxy sets. `None` if the headers set no user.
    pub(super) fn proxied_user(
        &self,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<Option<User>, Unauthorized> {
        let (Some((authorities, options)), Some(leaf)) = (&self.proxies, chain.first()) else {
            return Ok(None);
        };
        let text = |name: &String| {
            let value = headers.get(name.as_str())?.to_str().ok()?;
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        let Some(name) = options.username_headers.iter().find_map(text) else {
            return Ok(None);
        };
        if !authorities.verify(chain) {
            return Err(Unauthorized);
        }
        let proxy = subject(leaf).map(|user| user.name).unwrap_or_default();
        if !options.allowed_names.is_empty() && !options.allowed_names.contains(&proxy) {
            return Err(Unauthorized);
        }
        let groups = options
            .group_headers
            .iter()
            .flat_map(|name| headers.get_all(name.as_str()));
        let groups = groups
            .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
            .collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            let key = |prefix: &String| {
                header
                    .as_str()
                    .strip_prefix(prefix.to_ascii_lowercase().as_str())
            };
            if let (Some(key), Ok(value)) = (
                options.extra_headers_prefix.iter().find_map(key),
                value.to_str(),
            ) {
                extra
                    .entry(key.to_owned())
                    .or_default()
                    .push(value.to_owned());
            }
        }
        Ok(Some(User {
            name,
            uid: options.uid_headers.iter().find_map(text),
            groups,
            extra,
        }))
    }

    /// The user of the client certificate. `None` if the client sent none, or if no authority is known.
    pub(super) fn certificate_user(
        &self,
        chain: &[CertificateDer<'static>],
    ) -> Result<Option<User>, Unauthorized> {
        let (Some(authorities), Some(leaf)) = (&self.clients, chain.first()) else {
            return Ok(None);
        };
        if !authorities.verify(chain) {
            return Err(Unauthorized);
        }
        subject(leaf).map(Some).ok_or(Unauthorized)
    }
}

/// Fails with the reason if a file holds no authorities.
pub(super) async fn check_file(path: &PathBuf) -> Result<(), String> {
    let pem = read_file(path).await?.unwrap_or_default();
    let authorities = Authorities::new(&pem);
    authorities.map(drop).map_err(|error| error.to_string())
}

async fn read_file(path: &PathBuf) -> Result<Option<String>, String> {
    tokio::fs::read_to_string(path)
        .await
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Replaces the authorities by the authorities of a new bundle. If the bundle is not usable, keeps the old ones and
/// returns false.
fn update(
    authorities: &mut Option<Authorities>,
    (source, bundle): (String, Result<Option<String>, String>),
) -> bool {
    let reason = match bundle {
        Ok(None) => {
            *authorities = None;
            return true;
        }
        Ok(Some(pem)) if authorities.as_ref().is_some_and(|old| old.pem() == pem) => return true,
        Ok(Some(pem)) => match Authorities::new(&pem) {
            Ok(new) => {
                *authorities = Some(new);
                return true;
            }
            Err(error) => error.to_string(),
        },
        Err(reason) => reason,
    };
    tracing::warn!(
        reason,
        "can't use the authorities of client certificates in {source}; the old ones stay"
    );
    false
}

/// The headers that the cluster configures. `None` if they can't be parsed, so that no proxy is trusted.
fn from_cluster(data: &BTreeMap<String, String>) -> Option<RequestHeaderOptions> {
    let list = |key: &str| match data.get(key) {
        Some(text) => serde_json::from_str(text).ok(),
        None => Some(Vec::new()),
    };
    Some(RequestHeaderOptions {
        client_ca_file: None,
        allowed_names: list("requestheader-allowed-names")?,
        username_headers: list("requestheader-username-headers")?,
        uid_headers: list("requestheader-uid-headers")?,
        group_headers: list("requestheader-group-headers")?,
        extra_headers_prefix: list("requestheader-extra-headers-prefix")?,
    })
}
