//! The package of a plugin: its layout, pushes and pulls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest};
use serde_json::json;

use crate::cache::Cache;
use crate::fetch::Fetcher;
use crate::signature::Signed;
use crate::{
    AddressError, IDLE_TIMEOUT, Options, PackageReference, PublicKey, RegistryError,
    SIGNATURE_ANNOTATION, SIGNATURE_MEDIA_TYPE, TOTAL_TIMEOUT, USER_AGENT, credentials, digest,
    signature_tag,
};

/// The media type of the config of a WebAssembly package.
const CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The media type of the package's layer.
const LAYER_MEDIA_TYPE: &str = "application/wasm";
/// The maximum size of a plugin in bytes: the default limit of the host.
const MAX_LAYER: usize = 64 * 1024 * 1024;
/// The maximum size of a signed document in bytes.
const MAX_DOCUMENT: usize = 64 * 1024;
/// The maximum number of signatures that are verified.
const MAX_SIGNATURES: usize = 32;

/// A package to push.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// The component.
    pub wasm: Bytes,
    /// The names of the component's exports.
    pub exports: Vec<String>,
    /// The names of the component's imports.
    pub imports: Vec<String>,
    /// The annotations of the manifest, as in `org.opencontainers.image.version`.
    pub annotations: BTreeMap<String, String>,
}

/// A pulled and verified package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The component.
    pub wasm: Bytes,
    /// The digest of the package's manifest, which addresses are pinned to and signatures sign.
    pub digest: String,
    /// The SHA-256 of the component, in hex.
    pub component_digest: String,
    /// The path of the component in the cache, if there is one.
    pub path: Option<PathBuf>,
}

/// Pushes a package under the tag of `to`, and returns its address, pinned to the digest. Equal packages have equal
/// digests.
///
/// # Errors
/// `to` has no tag or has a digest, or the registry is unreachable or refuses the push. See
/// [`RegistryError::can_retry`].
pub async fn push(
    to: &PackageReference,
    package: Package,
    options: &Options,
) -> Result<PackageReference, RegistryError> {
    if to.tag().is_none() || to.digest().is_some() {
        let error = AddressError {
            text: to.to_string(),
            problem: "a package is pushed under a tag, without a digest",
        };
        return Err(error.into());
    }
    let config = json!({
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest(&package.wasm)],
        "component": {"exports": package.exports, "imports": package.imports},
    });
    let config = Config::new(config.to_string(), CONFIG_MEDIA_TYPE.into(), None);
    let layers = [ImageLayer::new(package.wasm, LAYER_MEDIA_TYPE.into(), None)];
    let annotations = Some(package.annotations).filter(|annotations| !annotations.is_empty());
    let mut manifest = OciImageManifest::build(&layers, &config, annotations);
    manifest.media_type = Some(OCI_IMAGE_MEDIA_TYPE.into());
    let body = serde_json::to_vec(&manifest).map_err(|error| {
        RegistryError::from_client(to, "push", OciDistributionError::from(error))
    })?;
    let pinned = to.pinned(&digest(&body));

    let client = push_client(to, options)?;
    let auth = credentials::for_registry(to.registry(), options.docker_config.as_deref());
    let failed = |error| RegistryError::from_client(to, "push", error);
    let sending = async {
        let at = to.reference();
        client.store_auth_if_needed(to.registry(), &auth).await;
        let [layer] = layers;
        for (blob, descriptor) in [
            (layer.data, &manifest.layers[0]),
            (config.data, &manifest.config),
        ] {
            if !client
                .blob_exists(at, &descriptor.digest)
                .await
                .unwrap_or(false)
            {
                client.push_blob(at, blob, &descriptor.digest).await?;
            }
        }
        client
            .push_manifest_raw(at, body, http_type(OCI_IMAGE_MEDIA_TYPE))
            .await
    };
    with_timeout(to, "push", sending).await?.map_err(failed)?;
    Ok(pinned)
}

fn push_client(to: &PackageReference, options: &Options) -> Result<Client, RegistryError> {
    crate::install_tls_provider();
    let protocol = if to.is_plain_http(options) {
        ClientProtocol::Http
    } else {
        ClientProtocol::Https
    };
    let config = ClientConfig {
        protocol,
        connect_timeout: Some(IDLE_TIMEOUT),
        read_timeout: Some(IDLE_TIMEOUT),
        user_agent: USER_AGENT,
        ..ClientConfig::default()
    };
    Client::try_from(config).map_err(|error| RegistryError::from_client(to, "reach", error))
}

/// Pulls a package. Sends no request if `from` is pinned to a digest that is in the cache.
///
/// Everything is verified by its digest, and the package by its signatures if there is a `key`, before it is returned.
///
/// # Errors
/// The registry is unreachable or does not have the package, or the package is not a plugin's, does not match its
/// digest, or is not signed with the key. See [`RegistryError::can_retry`].
pub async fn pull(
    from: &PackageReference,
    key: Option<&PublicKey>,
    options: &Options,
) -> Result<Pulled, RegistryError> {
    with_timeout(from, "pull", Pull::new(from, options)?.run(key)).await?
}

/// A pull in progress.
struct Pull<'a> {
    from: &'a PackageReference,
    registry: Fetcher,
    cache: Option<Cache>,
}

impl<'a> Pull<'a> {
    fn new(from: &'a PackageReference, options: &Options) -> Result<Self, RegistryError> {
        let cache = options.cache.clone().map(Cache::new);
        Ok(Self {
            from,
            registry: Fetcher::new(from, options)?,
            cache,
        })
    }

    async fn run(&self, key: Option<&PublicKey>) -> Result<Pulled, RegistryError> {
        let cached = match self.from.digest() {
            Some(of) => self.cached(of).await.map(|body| (body, of.to_owned())),
            None => None,
        };
        let (body, digest) = match cached {
            Some((body, digest)) => (body, digest),
            None => self.registry.manifest(self.from.reference()).await?,
        };
        let layer = {
            let manifest: OciImageManifest = serde_json::from_slice(&body).map_err(|error| {
                self.not_a_plugin(format!("its manifest can't be read: {error}"))
            })?;
            let [layer] = manifest.layers.as_slice() else {
                return Err(
                    self.not_a_plugin(format!("it has {} layers, not one", manifest.layers.len()))
                );
            };
            if layer.media_type != LAYER_MEDIA_TYPE {
                return Err(self.not_a_plugin(format!("its layer is of type {}", layer.media_type)));
            }
            layer.clone()
        };
        if let Some(key) = key {
            self.check_signature(key, &digest).await?;
        }
        let wasm: Bytes = match self.cached(&layer.digest).await {
            Some(wasm) => wasm.into(),
            None => {
                let wasm = self.registry.blob(&layer, "layer", MAX_LAYER).await?;
                wasm.into()
            }
        };
        let path = match self.cache.clone() {
            Some(cache) => {
                let path = cache.path(&layer.digest);
                let (of, layer, wasm) = (digest.clone(), layer.digest.clone(), wasm.clone());
                let store = move || {
                    cache.put(&of, &body)?;
                    cache.put(&layer, &wasm)
                };
                let stored = tokio::task::spawn_blocking(store).await;
                stored.unwrap_or_else(|error| {
                    let (path, cause) = (path.clone(), std::io::Error::other(error));
                    Err(RegistryError::Cache { path, cause })
                })?;
                Some(path)
            }
            None => None,
        };
        Ok(Pulled {
            wasm,
            digest,
            component_digest: layer.digest.trim_start_matches("sha256:").to_owned(),
            path,
        })
    }

    async fn cached(&self, of: &str) -> Option<Vec<u8>> {
        let (cache, of) = (self.cache.clone()?, of.to_owned());
        let get = move || cache.get(&of, MAX_LAYER);
        tokio::task::spawn_blocking(get).await.ok().flatten()
    }

    fn not_a_plugin(&self, problem: String) -> RegistryError {
        RegistryError::NotAPlugin {
            package: self.from.clone(),
            problem,
        }
    }

    /// Verifies that one of the package's signatures is by the key: one in the cache, or else one in the registry.
    async fn check_signature(&self, key: &PublicKey, digest: &str) -> Result<(), RegistryError> {
        let cached = self
            .cache
            .as_ref()
            .map(|cache| cache.signatures(digest))
            .unwrap_or_default();
        if cached.iter().any(|signed| key.accepts(signed, digest)) {
            return Ok(());
        }
        let signatures = self.signatures(digest).await?;
        let (package, digest) = (self.from.clone(), digest.to_owned());
        if signatures.is_empty() {
            return Err(RegistryError::Unsigned { package, digest });
        }
        let Some(signed) = signatures
            .into_iter()
            .find(|signed| key.accepts(signed, &digest))
        else {
            return Err(RegistryError::WrongSignature { package, digest });
        };
        match &self.cache {
            Some(cache) => cache.put_signatures(&digest, &[signed]),
            None => Ok(()),
        }
    }

    /// Pulls the signatures of the package.
    async fn signatures(&self, digest: &str) -> Result<Vec<Signed>, RegistryError> {
        let (body, _) = match self
            .registry
            .manifest(&self.from.with_tag(signature_tag(digest)))
            .await
        {
            Err(RegistryError::NotFound(_)) => return Ok(Vec::new()),
            found => found?,
        };
        let manifest: OciImageManifest = serde_json::from_slice(&body).map_err(|error| {
            self.not_a_plugin(format!(
                "the manifest of its signatures can't be read: {error}"
            ))
        })?;
        let mut signatures = Vec::new();
        for layer in manifest
            .layers
            .iter()
            .filter(|layer| layer.media_type == SIGNATURE_MEDIA_TYPE)
            .take(MAX_SIGNATURES)
        {
            let annotation = layer
                .annotations
                .as_ref()
                .and_then(|all| all.get(SIGNATURE_ANNOTATION));
            let Some(signature) = annotation else {
                continue;
            };
            let document = self.registry.blob(layer, "signature", MAX_DOCUMENT).await?;
            if let Ok(document) = String::from_utf8(document) {
                signatures.push(Signed {
                    document,
                    signature: signature.clone(),
                });
            }
        }
        Ok(signatures)
    }
}

/// Limits how long a push or pull may take.
async fn with_timeout<T>(
    source: &PackageReference,
    doing: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, RegistryError> {
    let slow = |_| RegistryError::Slow {
        doing,
        package: source.clone(),
        seconds: TOTAL_TIMEOUT.as_secs(),
    };
    tokio::time::timeout(TOTAL_TIMEOUT, work)
        .await
        .map_err(slow)
}

fn http_type(text: &'static str) -> http::HeaderValue {
    http::HeaderValue::from_static(text)
}
