//! Plugins as packages in OCI registries, in the artifact format of the CNCF's WebAssembly working
//! group: a manifest with one layer of type `application/wasm`, and a config that lists the
//! component's exports and imports.
//!
//! In the order of a pull: a [`PackageReference`] is the address of a package; [`pull`] gets its
//! manifest and its layer from the cache or from the registry and verifies both by their digests;
//! if a [`PublicKey`] is required, cosign's signature of the package is verified before the layer
//! is pulled. [`push`] uploads a package.
//!
//! A registry is not trusted: the size of what it sends is limited, and nothing is used before it
//! is verified.

mod cache;
mod credentials;
mod error;
mod package;
mod reference;
mod signature;

use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor};
use oci_client::{Client, Reference};
use sha2::{Digest, Sha256};

pub use error::RegistryError;
pub use package::{Package, Pulled, pull, push};
pub use reference::PackageReference;
pub use signature::{PublicKey, SIGNATURE_ANNOTATION, SIGNATURE_MEDIA_TYPE, signature_tag};

/// The settings for access to registries.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of pulled packages, so that a pinned package needs the registry only once. Its
    /// content is not trusted, but verified by digest again. `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Whether to use HTTP instead of HTTPS. Registries on loopback addresses always use HTTP.
    pub plain_http: bool,
    /// The folder of Docker's configuration, for its credentials. `None` for Docker's default.
    pub docker_config: Option<PathBuf>,
}

/// The timeout of a connection, and of the next bytes of a response.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a whole push or pull.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(600);

/// A client of the registry of a package.
struct Registry {
    client: Client,
    auth: oci_client::secrets::RegistryAuth,
    source: PackageReference,
}

impl Registry {
    fn open(source: &PackageReference, options: &Options) -> Result<Self, RegistryError> {
        // The client uses the process's provider. If one is installed already, it is used.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let plain = options.plain_http || source.is_loopback();
        let config = ClientConfig {
            protocol: if plain {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            connect_timeout: Some(IDLE_TIMEOUT),
            read_timeout: Some(IDLE_TIMEOUT),
            user_agent: concat!("flyball/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let failed = |error| RegistryError::from_client(source, "reach", error);
        let client = Client::try_from(config).map_err(failed)?;
        let auth = credentials::for_registry(source.registry(), options.docker_config.as_deref());
        Ok(Self {
            client,
            auth,
            source: source.clone(),
        })
    }

    /// Pulls a manifest by its tag or digest, and returns it with its digest.
    async fn manifest(&self, at: &Reference) -> Result<(bytes::Bytes, String), RegistryError> {
        let pulled = self
            .client
            .pull_manifest_raw(at, &self.auth, &[OCI_IMAGE_MEDIA_TYPE])
            .await;
        let (bytes, _) =
            pulled.map_err(|error| RegistryError::from_client(&self.source, "pull", error))?;
        let digest = digest(&bytes);
        match at.digest() {
            Some(expected) if expected != digest => Err(self.source.tampered("manifest", expected)),
            _ => Ok((bytes, digest)),
        }
    }

    /// Pulls a blob of at most `limit` bytes, and verifies its digest.
    async fn blob(
        &self,
        blob: &OciDescriptor,
        what: &'static str,
        limit: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        let size = usize::try_from(blob.size)
            .ok()
            .filter(|size| *size <= limit);
        let size = size.ok_or_else(|| RegistryError::TooLarge {
            package: self.source.clone(),
            what,
            limit,
        })?;
        let failed = |error| RegistryError::from_client(&self.source, "pull", error);
        let mut stream = self
            .client
            .pull_blob_stream(self.source.reference(), blob)
            .await
            .map_err(failed)?
            .stream;
        let mut bytes = Vec::new();
        loop {
            match stream.try_next().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= size => {
                    bytes.extend_from_slice(&chunk)
                }
                // The stream verifies the digest too, and fails at its end.
                Ok(Some(_)) => return Err(self.source.tampered(what, &blob.digest)),
                Err(_) if bytes.len() == size => {
                    return Err(self.source.tampered(what, &blob.digest));
                }
                Err(error) => return Err(failed(error.into())),
                Ok(None) => break,
            }
        }
        if digest(&bytes) != blob.digest {
            return Err(self.source.tampered(what, &blob.digest));
        }
        Ok(bytes)
    }
}

/// The digest of bytes in the form of registries.
fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}
