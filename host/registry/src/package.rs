//! A plugin's package: how it is laid out, pushed and pulled.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use oci_client::client::{Config, ImageLayer};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest};
use serde_json::json;

use crate::cache::Cache;
use crate::signature::Signed;
use crate::{
    IN_ALL, Options, PublicKey, Registry, RegistryError, SIGNATURE_ANNOTATION,
    SIGNATURE_MEDIA_TYPE, Source, digest, signature_tag,
};

/// The media type of the config of a package of WebAssembly.
const CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The media type of its one layer.
const LAYER_MEDIA_TYPE: &str = "application/wasm";
/// Bytes that a plugin may have: as many as the host loads by default.
const MAX_LAYER: usize = 64 * 1024 * 1024;
/// Bytes that a signed document may have, and how many signatures are looked at.
const MAX_DOCUMENT: usize = 64 * 1024;
const MAX_SIGNATURES: usize = 32;

/// What is pushed.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// The component.
    pub wasm: Bytes,
    /// The names of what it exports and imports.
    pub exports: Vec<String>,
    /// See `exports`.
    pub imports: Vec<String>,
    /// Annotations of the manifest, as in `org.opencontainers.image.version`.
    pub annotations: BTreeMap<String, String>,
}

/// What was pulled, and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The component.
    pub wasm: Bytes,
    /// The digest of the package's manifest: what a reference is pinned to, and what is signed.
    pub digest: String,
    /// Where the component is kept, if there is a cache.
    pub path: Option<PathBuf>,
}

/// Pushes a package under the tag of `to`, and returns where it is, pinned to its digest. The same package has the same
/// digest wherever it is pushed from.
///
/// # Errors
/// `to` names no tag; the registry can't be reached or refuses it. See [`RegistryError::can_retry`].
pub async fn push(
    to: &Source,
    package: Package,
    options: &Options,
) -> Result<Source, RegistryError> {
    if to.tag().is_none() || to.digest().is_some() {
        let problem =
            "a package is pushed under a tag, and gets its digest from what is pushed".into();
        return Err(RegistryError::Address {
            text: to.to_string(),
            problem,
        });
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
    let body = serde_json::to_vec(&manifest)
        .map_err(|error| RegistryError::of(to, "push", OciDistributionError::from(error)))?;
    let pinned = to.pinned(&digest(&body));

    let registry = Registry::open(to, options)?;
    let failed = |error| RegistryError::of(to, "push", error);
    let sending = async {
        let (client, at) = (&registry.client, to.reference());
        client
            .store_auth_if_needed(to.registry(), &registry.auth)
            .await;
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
    within(to, "push", sending).await?.map_err(failed)?;
    Ok(pinned)
}

/// Pulls a package. Where `from` is pinned to a digest and the cache holds that, no registry is asked.
///
/// Everything is held against its digest, and a `key` against the package's signatures, before anything is returned.
///
/// # Errors
/// The registry can't be reached or has no such package; the package is none of a plugin, is not what its digest says, or is
/// not signed by the key that is demanded. See [`RegistryError::can_retry`].
pub async fn pull(
    from: &Source,
    key: Option<&PublicKey>,
    options: &Options,
) -> Result<Pulled, RegistryError> {
    within(from, "pull", Pull::new(from, options)?.run(key)).await?
}

/// A pull under way.
struct Pull<'a> {
    from: &'a Source,
    registry: Registry,
    cache: Option<Cache>,
}

impl<'a> Pull<'a> {
    fn new(from: &'a Source, options: &Options) -> Result<Self, RegistryError> {
        let cache = options.cache.clone().map(Cache::new);
        Ok(Self {
            from,
            registry: Registry::open(from, options)?,
            cache,
        })
    }

    async fn run(&self, key: Option<&PublicKey>) -> Result<Pulled, RegistryError> {
        let kept = self
            .from
            .digest()
            .and_then(|of| Some((self.kept(of)?, of.to_owned())));
        let (body, digest) = match kept {
            Some((body, digest)) => (body.into(), digest),
            None => self.registry.manifest(self.from.reference()).await?,
        };
        let layer = {
            let manifest: OciImageManifest = serde_json::from_slice(&body)
                .map_err(|error| self.no_plugin(format!("its manifest can't be read: {error}")))?;
            let [layer] = manifest.layers.as_slice() else {
                return Err(
                    self.no_plugin(format!("it has {} layers, not one", manifest.layers.len()))
                );
            };
            if layer.media_type != LAYER_MEDIA_TYPE {
                return Err(self.no_plugin(format!("its layer is of type {}", layer.media_type)));
            }
            layer.clone()
        };
        if let Some(key) = key {
            self.check_signature(key, &digest).await?;
        }
        let wasm = match self.kept(&layer.digest) {
            Some(wasm) => wasm,
            None => self.registry.blob(&layer, "layer", MAX_LAYER).await?,
        };
        let path = self.cache.as_ref().map(|cache| {
            cache.put(&digest, &body)?;
            cache.put(&layer.digest, &wasm)?;
            Ok(cache.path(&layer.digest))
        });
        Ok(Pulled {
            wasm: wasm.into(),
            digest,
            path: path.transpose()?,
        })
    }

    fn kept(&self, of: &str) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get(of)
    }

    fn no_plugin(&self, problem: String) -> RegistryError {
        RegistryError::NoPlugin {
            package: self.from.clone(),
            problem,
        }
    }

    /// Whether one of the signatures that are known, or else of those that lie in the registry, is by the key.
    async fn check_signature(&self, key: &PublicKey, digest: &str) -> Result<(), RegistryError> {
        let kept = self
            .cache
            .as_ref()
            .map(|cache| cache.signatures(digest))
            .unwrap_or_default();
        if kept.iter().any(|signed| key.accepts(signed, digest)) {
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

    /// The signatures that lie beside the package.
    async fn signatures(&self, digest: &str) -> Result<Vec<Signed>, RegistryError> {
        let (body, _) = match self
            .registry
            .manifest(&self.from.beside(signature_tag(digest)))
            .await
        {
            Err(RegistryError::NotFound(_)) => return Ok(Vec::new()),
            found => found?,
        };
        let manifest: OciImageManifest = serde_json::from_slice(&body).map_err(|error| {
            self.no_plugin(format!(
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

/// Ends what takes too long in all.
async fn within<T>(
    source: &Source,
    doing: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, RegistryError> {
    let slow = |_| RegistryError::Slow {
        doing,
        package: source.clone(),
        seconds: IN_ALL.as_secs(),
    };
    tokio::time::timeout(IN_ALL, work).await.map_err(slow)
}

fn http_type(text: &'static str) -> http::HeaderValue {
    http::HeaderValue::from_static(text)
}
