//! The errors of pushes and pulls.

use std::path::PathBuf;

use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::reference::{AddressError, PackageReference};

/// Why a package can't be pushed or pulled. [`RegistryError::can_retry`] says whether a retry may help.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The registry can't be reached, or the request failed.
    #[error("can't {doing} {package}: {cause}")]
    Registry {
        /// The operation, as a verb: `push` or `pull`.
        doing: &'static str,
        package: PackageReference,
        #[source]
        cause: Box<OciDistributionError>,
    },
    #[error("can't {doing} {package}: the registry took longer than {seconds} s")]
    Slow {
        doing: &'static str,
        package: PackageReference,
        /// The timeout.
        seconds: u64,
    },
    #[error(
        "can't find {0}: check the name and the tag of the repository, and that this user may read it"
    )]
    NotFound(PackageReference),
    /// The registry requires other credentials.
    #[error(
        "the registry refuses access to {0}: log in with `docker login`, as a user with access"
    )]
    Refused(PackageReference),
    /// Data does not match its digest.
    #[error(
        "the {what} of {package} does not match its digest {expected}: it was changed in the registry or in transit"
    )]
    Digest {
        package: PackageReference,
        /// `manifest`, `layer`, `signature`.
        what: &'static str,
        expected: String,
    },
    #[error("{package} is not the package of a plugin: {problem}; push one with `flyball push`")]
    NotAPlugin {
        package: PackageReference,
        problem: String,
    },
    #[error("the {what} of {package} is larger than the limit of {limit} bytes")]
    TooLarge {
        package: PackageReference,
        /// `manifest`, `layer`, `signature`, `token`.
        what: &'static str,
        /// In bytes.
        limit: usize,
    },
    #[error(
        "{package} ({digest}) is not signed, and a signature is required: sign it with `cosign sign --key`"
    )]
    Unsigned {
        package: PackageReference,
        /// The digest of its manifest.
        digest: String,
    },
    #[error("{package} ({digest}) is signed, but not with the required key")]
    WrongSignature {
        package: PackageReference,
        /// The digest of its manifest.
        digest: String,
    },
    /// A text is not a supported public key.
    #[error(
        "can't use the public key: {0}; a supported one is an ECDSA key on P-256, as `cosign public-key` prints it"
    )]
    Key(String),
    /// A pulled blob can't be cached.
    #[error("can't write the pulled package to {}", .path.display())]
    Cache {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}

impl RegistryError {
    pub(crate) fn from_client(
        package: &PackageReference,
        doing: &'static str,
        cause: OciDistributionError,
    ) -> Self {
        let is_missing = match &cause {
            OciDistributionError::ImageManifestNotFoundError(_) => true,
            OciDistributionError::ServerError { code, .. } => *code == 404,
            OciDistributionError::RegistryError { envelope, .. } => {
                envelope.errors.iter().any(|error| {
                    matches!(
                        error.code,
                        OciErrorCode::ManifestUnknown
                            | OciErrorCode::NameUnknown
                            | OciErrorCode::NotFound
                            | OciErrorCode::BlobUnknown
                    )
                })
            }
            _ => false,
        };
        match cause {
            _ if is_missing => Self::NotFound(package.clone()),
            OciDistributionError::UnauthorizedError { .. }
            | OciDistributionError::AuthenticationFailure(_) => Self::Refused(package.clone()),
            OciDistributionError::DigestError(_) => {
                Self::tampered(package, "manifest", package.digest().unwrap_or_default())
            }
            cause => Self::Registry {
                doing,
                package: package.clone(),
                cause: Box::new(cause),
            },
        }
    }

    /// The error for data that does not match its digest.
    pub(crate) fn tampered(package: &PackageReference, what: &'static str, expected: &str) -> Self {
        Self::Digest {
            package: package.clone(),
            what,
            expected: expected.into(),
        }
    }

    /// Whether a retry may help: the registry was unreachable, slow, or had an internal error.
    pub fn can_retry(&self) -> bool {
        match self {
            Self::Registry { cause, .. } => match &**cause {
                OciDistributionError::RequestError(error) => !error.is_redirect(),
                OciDistributionError::IoError(_) => true,
                OciDistributionError::ServerError { code, .. } => *code >= 500 || *code == 429,
                _ => false,
            },
            Self::Slow { .. } | Self::Cache { .. } => true,
            _ => false,
        }
    }
}
