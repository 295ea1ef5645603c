//! Plugins as packages in OCI registries, in the artifact format that the CNCF's WebAssembly working group has written down:
//! a manifest with one layer of type `application/wasm` and a config that tells what the component exports and imports.
//!
//! In the order of a pull: a [`Source`] says where a package is; [`pull`] takes its manifest and its layer from the cache or
//! from the registry and holds both against their digests; where a [`PublicKey`] is demanded, the signature that cosign laid
//! beside the package is checked before the layer is taken. [`push`] is the way there.
//!
//! A registry is not trusted: what it sends is bounded, and nothing is used before it has been checked.

mod cache;
mod credentials;
mod error;
mod package;
mod signature;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor};
use oci_client::{Client, Reference};
use sha2::{Digest, Sha256};

pub use error::RegistryError;
pub use package::{Package, Pulled, pull, push};
pub use signature::{PublicKey, SIGNATURE_ANNOTATION, SIGNATURE_MEDIA_TYPE, signature_tag};
pub use source::Source;

/// How a registry is talked to.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where what was pulled is kept, so that a pinned package needs no registry the second time. Nothing there is trusted:
    /// it is held against its digests again. None to keep nothing.
    pub cache: Option<PathBuf>,
    /// Without TLS, whatever the registry's address. Registries on loopback are spoken to without it in any case.
    pub plain_http: bool,
    /// The folder of Docker's configuration, for the credentials in it; none for the one that Docker would use.
    pub docker_config: Option<PathBuf>,
}

/// How long a registry may take to accept a connection, and to send the next bytes of an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a whole exchange may take.
const IN_ALL: Duration = Duration::from_secs(600);

/// A connection to the registry of a source.
struct Registry {
    client: Client,
    auth: oci_client::secrets::RegistryAuth,
    source: Source,
}

impl Registry {
    fn open(source: &Source, options: &Options) -> Result<Self, RegistryError> {
        // The client takes the process's choice; another one that was made before is as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let plain = options.plain_http || source.is_loopback();
        let config = ClientConfig {
            protocol: if plain {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            connect_timeout: Some(PATIENCE),
            read_timeout: Some(PATIENCE),
            user_agent: concat!("flyball/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let failed = |error| RegistryError::of(source, "reach", error);
        let client = Client::try_from(config).map_err(failed)?;
        let auth = credentials::of(source.registry(), options.docker_config.as_deref());
        Ok(Self {
            client,
            auth,
            source: source.clone(),
        })
    }

    /// A manifest by its tag or digest, and its digest.
    async fn manifest(&self, at: &Reference) -> Result<(bytes::Bytes, String), RegistryError> {
        let pulled = self
            .client
            .pull_manifest_raw(at, &self.auth, &[OCI_IMAGE_MEDIA_TYPE])
            .await;
        let (bytes, _) = pulled.map_err(|error| RegistryError::of(&self.source, "pull", error))?;
        let digest = digest(&bytes);
        match at.digest() {
            Some(expected) if expected != digest => Err(self.source.tampered("manifest", expected)),
            _ => Ok((bytes, digest)),
        }
    }

    /// A blob, held against its digest, if it has no more bytes than `limit`.
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
        let failed = |error| RegistryError::of(&self.source, "pull", error);
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
                // The stream checks the digest too, and fails at its end.
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

/// The digest of bytes, as registries write it.
fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}
