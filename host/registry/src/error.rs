//! Why a package could not be pushed or pulled.

use std::path::PathBuf;

use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::Source;

/// A package could not be pushed or pulled. [`RegistryError::can_retry`] says whether another try may help.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A text that is not the address of a package.
    #[error(
        "`{text}` is not the address of a package: {problem}; write it as `oci://registry.example.com/team/name:tag`"
    )]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The registry can't be reached, or did not do what was asked for.
    #[error("can't {doing} {package}: {cause}")]
    Registry {
        /// What was tried: `push`, `pull`.
        doing: &'static str,
        /// The package.
        package: Source,
        /// Why.
        #[source]
        cause: Box<OciDistributionError>,
    },
    /// It took too long.
    #[error("can't {doing} {package}: the registry took longer than {seconds} s")]
    Slow {
        /// What was tried.
        doing: &'static str,
        /// The package.
        package: Source,
        /// How long it may take.
        seconds: u64,
    },
    /// There is no such package.
    #[error(
        "there is no {0}: look at the repository's name and tag, and whether this user may see it"
    )]
    NotFound(Source),
    /// The registry wants other credentials.
    #[error("the registry refuses {0}: log in with `docker login`, as a user who may do this")]
    Refused(Source),
    /// Something is not what its digest says.
    #[error(
        "the {what} of {package} is not what its digest {expected} says: the registry holds something else, or it was changed on the way"
    )]
    Digest {
        /// The package.
        package: Source,
        /// `manifest`, `layer`, `signature`.
        what: &'static str,
        /// The digest.
        expected: String,
    },
    /// The package holds no plugin.
    #[error("{package} is no plugin's package: {problem}; push one with `flyball push`")]
    NoPlugin {
        /// The package.
        package: Source,
        /// What is wrong.
        problem: String,
    },
    /// Something is larger than the host takes.
    #[error("the {what} of {package} has more than {limit} bytes")]
    TooLarge {
        /// The package.
        package: Source,
        /// `layer`, `signature`.
        what: &'static str,
        /// How many it may have.
        limit: usize,
    },
    /// A signature is demanded, and there is none.
    #[error(
        "{package} ({digest}) is not signed, and a signature is demanded: sign it with `cosign sign --key`"
    )]
    Unsigned {
        /// The package.
        package: Source,
        /// The digest of its manifest.
        digest: String,
    },
    /// It is signed, but not with the key that is demanded.
    #[error("no signature of {package} ({digest}) is by the key that is demanded")]
    WrongSignature {
        /// The package.
        package: Source,
        /// The digest of its manifest.
        digest: String,
    },
    /// A text that is not the public key of a signer.
    #[error(
        "the public key can't be used: {0}; it is what `cosign public-key` prints, of an ECDSA key on P-256"
    )]
    Key(String),
    /// What is pulled can't be kept.
    #[error("can't keep what was pulled in {}", .path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}

impl RegistryError {
    pub(crate) fn of(source: &Source, doing: &'static str, cause: OciDistributionError) -> Self {
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
            _ if is_missing => Self::NotFound(source.clone()),
            OciDistributionError::UnauthorizedError { .. }
            | OciDistributionError::AuthenticationFailure(_) => Self::Refused(source.clone()),
            OciDistributionError::DigestError(_) => {
                source.tampered("manifest", source.digest().unwrap_or_default())
            }
            cause => Self::Registry {
                doing,
                package: source.clone(),
                cause: Box::new(cause),
            },
        }
    }

    /// Whether another try may help: the registry could not be reached, was slow, or failed by itself.
    pub fn can_retry(&self) -> bool {
        match self {
            Self::Registry { cause, .. } => match &**cause {
                OciDistributionError::RequestError(_) | OciDistributionError::IoError(_) => true,
                OciDistributionError::ServerError { code, .. } => *code >= 500 || *code == 429,
                _ => false,
            },
            Self::Slow { .. } | Self::Cache { .. } => true,
            _ => false,
        }
    }
}
