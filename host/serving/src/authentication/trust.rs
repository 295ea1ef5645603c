//! The authorities that are trusted now, read from files or, where no file is given, from the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderMap;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::certificate::{Authorities, subject};
use super::{AuthenticationOptions, Unauthorized, User};
use crate::review::TrustLookup;

/// Which proxies may name users, and in which headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaderOptions {
    /// The authorities of the proxies' certificates.
    pub client_ca_file: Option<PathBuf>,
    /// The common names of the proxies; empty: any.
    pub allowed_names: Vec<String>,
    /// The headers that may hold the user's name, in order.
    pub username_headers: Vec<String>,
    /// The headers that may hold the user's unique id, in order.
    pub uid_headers: Vec<String>,
    /// The headers that hold a group each.
    pub group_headers: Vec<String>,
    /// How the headers start that hold what else is known.
    pub extra_headers_prefix: Vec<String>,
}

/// What is trusted now.
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
    /// What is to be trusted, and whether all of it could be read; what could not is taken from `old`.
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
                        "kube-system/extension-apiserver-authentication can't be read"
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
                    (None, None) => (key.to_owned(), Err("it was not read".to_owned())),
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

    /// The user that a trusted proxy names. None if the caller is no proxy.
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
        if !authorities.signed(chain) {
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

    /// The user whom the client's certificate names. None if it gave no certificate, or no authority is known.
    pub(super) fn certificate_user(
        &self,
        chain: &[CertificateDer<'static>],
    ) -> Result<Option<User>, Unauthorized> {
        let (Some(authorities), Some(leaf)) = (&self.clients, chain.first()) else {
            return Ok(None);
        };
        if !authorities.signed(chain) {
            return Err(Unauthorized);
        }
        subject(leaf).map(Some).ok_or(Unauthorized)
    }
}

async fn read_file(path: &PathBuf) -> Result<Option<String>, String> {
    tokio::fs::read_to_string(path)
        .await
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Takes the new bundle in, if there is one that can be used; else the old one stays, and this is false.
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
        "the authorities of client certificates in {source} can't be used"
    );
    false
}

/// The headers that the cluster names; none if they can't be read, so that no proxy is trusted.
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
