//! The requests of a pull. A registry is not trusted, so each of its responses is read up to a limit, and few redirects
//! are followed. (oci-client, which pushes, reads responses of any size.)

use std::sync::OnceLock;

use oci_client::Reference;
use oci_client::errors::{OciDistributionError, OciEnvelope};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor};
use oci_client::secrets::RegistryAuth;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    IDLE_TIMEOUT, Options, PackageReference, RegistryError, USER_AGENT, credentials, digest_of,
};

/// The maximum size of a manifest in bytes: OCI's specification requires registries to accept at least this much.
const MAX_MANIFEST: usize = 4 * 1024 * 1024;
/// The maximum size of a response with a token in bytes. A token has a few kilobytes.
const MAX_TOKEN: usize = 1024 * 1024;
/// How much of an error's body is read, in bytes.
const MAX_ERROR: usize = 64 * 1024;
/// How many redirects of one request are followed. Registries redirect to their storage.
const MAX_REDIRECTS: usize = 5;

/// Pulls manifests and blobs from one repository.
pub(crate) struct Fetcher {
    client: Client,
    credentials: RegistryAuth,
    source: PackageReference,
    /// The repository's URL, for example `https://registry.example.com/v2/team/greeter`.
    base: String,
    /// The `Authorization` header, once the registry has demanded one.
    authorization: OnceLock<HeaderValue>,
}

/// The response of the server that issues tokens. One of the fields is set.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Fetcher {
    pub(crate) fn new(source: &PackageReference, options: &Options) -> Result<Self, RegistryError> {
        crate::install_tls_provider();
        let plain = source.is_plain_http(options);
        let client = Client::builder()
            .https_only(!plain)
            .redirect(redirect::Policy::limited(MAX_REDIRECTS))
            .connect_timeout(IDLE_TIMEOUT)
            .read_timeout(IDLE_TIMEOUT)
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| RegistryError::from_client(source, "reach", error.into()))?;
        let registry = source.reference().resolve_registry();
        let scheme = if plain { "http" } else { "https" };
        Ok(Self {
            client,
            credentials: credentials::for_registry(
                source.registry(),
                options.docker_config.as_deref(),
            ),
            base: format!("{scheme}://{registry}/v2/{}", source.repository()),
            source: source.clone(),
            authorization: OnceLock::new(),
        })
    }

    /// Pulls a manifest by its tag or digest, and returns it with its digest.
    pub(crate) async fn manifest(
        &self,
        at: &Reference,
    ) -> Result<(Vec<u8>, String), RegistryError> {
        let name = at.digest().or(at.tag()).unwrap_or_default();
        let response = self.get(&format!("manifests/{name}")).await?;
        let (bytes, digest) = self.read(response, "manifest", MAX_MANIFEST).await?;
        match at.digest() {
            Some(expected) if expected != digest => {
                Err(RegistryError::tampered(&self.source, "manifest", expected))
            }
            _ => Ok((bytes, digest)),
        }
    }

    /// Pulls a blob of at most `limit` bytes, and verifies its digest.
    pub(crate) async fn blob(
        &self,
        blob: &OciDescriptor,
        what: &'static str,
        limit: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        let size = usize::try_from(blob.size)
            .ok()
            .filter(|size| *size <= limit)
            .ok_or_else(|| self.too_large(what, limit))?;
        let response = self.get(&format!("blobs/{}", blob.digest)).await?;
        let tampered = || RegistryError::tampered(&self.source, what, &blob.digest);
        match self.read(response, what, size).await {
            Ok((bytes, digest)) if digest == blob.digest => Ok(bytes),
            Ok(_) | Err(RegistryError::TooLarge { .. }) => Err(tampered()),
            Err(error) => Err(error),
        }
    }

    /// Gets a path below the repository. Logs in if the registry demands it.
    async fn get(&self, path: &str) -> Result<Response, RegistryError> {
        let url = format!("{}/{path}", self.base);
        let mut response = self.send(&url).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && self.authorization.get().is_none()
            && let Some(authorization) = self.authorize(response.headers()).await?
        {
            let _ = self.authorization.set(authorization);
            response = self.send(&url).await?;
        }
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.failed(refusal(response).await))
    }

    async fn send(&self, url: &str) -> Result<Response, RegistryError> {
        let mut request = self.client.get(url).header(ACCEPT, OCI_IMAGE_MEDIA_TYPE);
        if let Some(authorization) = self.authorization.get() {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
            .send()
            .await
            .map_err(|error| self.failed(error.into()))
    }

    /// Returns the header that the registry demands; none if there is no way to get it.
    async fn authorize(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, RegistryError> {
        for header in headers.get_all(WWW_AUTHENTICATE) {
            let challenges = header.to_str().map(http_auth::parse_challenges);
            for challenge in challenges.into_iter().flatten().flatten() {
                let parameter = |name: &str| {
                    let mut parameters = challenge.params.iter();
                    let found = parameters.find(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.map(|(_, value)| value.to_unescaped())
                };
                match &self.credentials {
                    _ if challenge.scheme.eq_ignore_ascii_case("bearer") => {
                        let realm = parameter("realm").unwrap_or_default();
                        return self.token(&realm, parameter("service")).await.map(Some);
                    }
                    RegistryAuth::Basic(user, password)
                        if challenge.scheme.eq_ignore_ascii_case("basic") =>
                    {
                        let request = self.client.get(&self.base);
                        let request = request.basic_auth(user, Some(password)).build();
                        let mut request = request.map_err(|error| self.failed(error.into()))?;
                        return Ok(request.headers_mut().remove(AUTHORIZATION));
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// Gets a token for pulls from the server that the registry names.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
    ) -> Result<HeaderValue, RegistryError> {
        let failed = |error| self.failed(error);
        let decode = |error: String| failed(OciDistributionError::RegistryTokenDecodeError(error));
        let mut url = Url::parse(realm)
            .map_err(|error| failed(OciDistributionError::UrlParseError(error.to_string())))?;
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", &service);
        }
        let scope = format!("repository:{}:pull", self.source.repository());
        url.query_pairs_mut().append_pair("scope", &scope);
        let mut request = self.client.get(url);
        if let RegistryAuth::Basic(user, password) = &self.credentials {
            request = request.basic_auth(user, Some(password));
        }
        let response = request.send().await.map_err(|error| failed(error.into()))?;
        if !response.status().is_success() {
            let reason = text_of(response).await;
            return Err(failed(OciDistributionError::AuthenticationFailure(reason)));
        }
        let (bytes, _) = self.read(response, "token", MAX_TOKEN).await?;
        let token: Token =
            serde_json::from_slice(&bytes).map_err(|error| decode(error.to_string()))?;
        let token = token.token.or(token.access_token).unwrap_or_default();
        let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|error| decode(error.to_string()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Reads a body of at most `limit` bytes, and returns it with its digest. The digest is computed as the bytes arrive,
    /// because a large body at once would delay other tasks.
    async fn read(
        &self,
        mut response: Response,
        what: &'static str,
        limit: usize,
    ) -> Result<(Vec<u8>, String), RegistryError> {
        let (mut bytes, mut hash) = (Vec::new(), Sha256::new());
        let failed = |error: reqwest::Error| self.failed(error.into());
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > limit {
                return Err(self.too_large(what, limit));
            }
            hash.update(&chunk);
            bytes.extend_from_slice(&chunk);
        }
        Ok((bytes, digest_of(hash)))
    }

    fn too_large(&self, what: &'static str, limit: usize) -> RegistryError {
        RegistryError::TooLarge {
            package: self.source.clone(),
            what,
            limit,
        }
    }

    fn failed(&self, cause: OciDistributionError) -> RegistryError {
        RegistryError::from_client(&self.source, "pull", cause)
    }
}

/// The error that a response reports.
async fn refusal(response: Response) -> OciDistributionError {
    let (status, url) = (response.status(), response.url().to_string());
    if status == StatusCode::UNAUTHORIZED {
        return OciDistributionError::UnauthorizedError { url };
    }
    let message = text_of(response).await;
    match serde_json::from_str::<OciEnvelope>(&message) {
        Ok(envelope) if status.is_client_error() => {
            OciDistributionError::RegistryError { envelope, url }
        }
        _ => OciDistributionError::ServerError {
            code: status.as_u16(),
            url,
            message,
        },
    }
}

/// The beginning of a body, or as much of it as can be read.
async fn text_of(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR - bytes.len())]);
        if bytes.len() == MAX_ERROR {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
