//! Plugins as packages in OCI registries, in the artifact format of the CNCF's WebAssembly working group: a manifest
//! with one layer of type `application/wasm`, and a config that lists the component's exports and imports.
//!
//! In the order of a pull: a [`PackageReference`] is the address of a package; [`pull`] gets its manifest and its layer
//! from the cache or from the registry and verifies both by their digests; if a [`PublicKey`] is required, cosign's
//! signature of the package is verified before the layer is pulled. [`push`] uploads a package.
//!
//! A registry is not trusted: the size of its responses is limited, and no content is used before it is verified.

mod cache;
mod credentials;
mod error;
mod fetch;
mod package;
mod reference;
mod signature;

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

pub use error::RegistryError;
pub use package::{Package, Pulled, pull, push};
pub use reference::{AddressError, PackageReference};
pub use signature::{PublicKey, SIGNATURE_ANNOTATION, SIGNATURE_MEDIA_TYPE, signature_tag};

/// The settings for access to registries.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of pulled packages, so that a pinned package needs the registry only once. Its content is not
    /// trusted, but verified by digest again. `None` for no cache.
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

/// The User-Agent of the host's requests.
const USER_AGENT: &str = concat!("flyball/", env!("CARGO_PKG_VERSION"));

/// Chooses the process's provider of cryptography for TLS, which the clients use, unless there is one already.
fn install_tls_provider() {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

/// The digest of bytes in the form of registries.
fn digest(bytes: &[u8]) -> String {
    digest_of(Sha256::new_with_prefix(bytes))
}

/// The digest of the bytes that were hashed.
fn digest_of(hash: Sha256) -> String {
    let hex: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}
