//! Reads the public keys of subjects, and checks the signatures of PKCS#10 requests, which prove that the requester
//! holds the private key.
//!
//! The algorithms are the ones that Go's `CheckSignature` accepts for requests, including RSA of 1024 bits and SHA-1,
//! but not the curve P-224.

use flyball_types::ApiError;
use p521::ecdsa::signature::hazmat::PrehashVerifier;
use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::{AnyRef, BitStringRef, UintRef};
use pkcs8::der::{self, Decode, Reader, SliceReader, TagMode, TagNumber};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use ring::digest::{self, digest};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ECDSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.1");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const RSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.5");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A public key of an algorithm that certificates may be about.
enum PublicKey<'a> {
    Rsa(&'a [u8]),
    /// With the encoded point.
    P256(p256::ecdsa::VerifyingKey, &'a [u8]),
    P384(p384::ecdsa::VerifyingKey, &'a [u8]),
    P521(p521::ecdsa::VerifyingKey),
    Ed25519(&'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// A request, with its parts as they were signed.
struct Request<'a> {
    info: &'a [u8],
    public_key: &'a [u8],
    algorithm: AlgorithmIdentifierRef<'a>,
    signature: BitStringRef<'a>,
}

/// Checks that a `SubjectPublicKeyInfo` in DER holds a key of an algorithm that certificates may be about.
///
/// # Errors
/// `Invalid`: it does not.
pub(super) fn check_public_key(spki: &[u8]) -> Result<(), ApiError> {
    PublicKey::read(spki).map(drop)
}

/// Returns the `SubjectPublicKeyInfo` of a request in DER.
///
/// # Errors
/// `Invalid`: it is malformed, its algorithm is not supported, or its key did not sign it.
pub(super) fn public_key(request: &[u8]) -> Result<&[u8], ApiError> {
    let request = Request::read(request)
        .map_err(|error| ApiError::invalid(format!("the request is not valid PKCS#10: {error}")))?;
    let key = PublicKey::read(request.public_key)?;
    let signature = request.signature.as_bytes().unwrap_or_default();
    match key.verifies(&request.algorithm, request.info, signature) {
        Some(true) => Ok(request.public_key),
        Some(false) => Err(ApiError::invalid(
            "the request was not signed by the key that it names",
        )),
        None => Err(ApiError::invalid(format!(
            "the request has a signature of the algorithm {}, which is not supported for its key",
            request.algorithm.oid
        ))),
    }
}

impl<'a> Request<'a> {
    fn read(bytes: &'a [u8]) -> der::Result<Self> {
        let mut reader = SliceReader::new(bytes)?;
        let (info, algorithm, signature) = reader.sequence(|parts| {
            let info = parts.tlv_bytes()?;
            let algorithm = AlgorithmIdentifierRef::decode(parts)?;
            let signature = BitStringRef::decode(parts)?;
            der::Result::Ok((info, algorithm, signature))
        })?;
        reader.finish()?;
        let mut reader = SliceReader::new(info)?;
        let public_key = reader.sequence(|parts| {
            let _version = parts.tlv_bytes()?;
            let _subject = parts.tlv_bytes()?;
            let public_key = parts.tlv_bytes()?;
            while !parts.is_finished() {
                parts.tlv_bytes()?;
            }
            der::Result::Ok(public_key)
        })?;
        reader.finish()?;
        Ok(Self {
            info,
            public_key,
            algorithm,
            signature,
        })
    }
}

impl<'a> PublicKey<'a> {
    fn read(spki: &'a [u8]) -> Result<Self, ApiError> {
        let malformed = || ApiError::invalid("the subject's public key is not valid");
        let info = SubjectPublicKeyInfoRef::from_der(spki).map_err(|_| malformed())?;
        let bytes = info.subject_public_key.as_bytes().ok_or_else(malformed)?;
        let algorithm = (info.algorithm.oid, info.algorithm.parameters_oid().ok());
        match algorithm {
            (RSA, _) => {
                let is_pair =
                    AnyRef::from_der(bytes).is_ok_and(|any| any.sequence(two_integers).is_ok());
                is_pair.then_some(Self::Rsa(bytes)).ok_or_else(malformed)
            }
            (EC, Some(P256)) => {
                let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(bytes);
                key.map(|key| Self::P256(key, bytes))
                    .map_err(|_| malformed())
            }
            (EC, Some(P384)) => {
                let key = p384::ecdsa::VerifyingKey::from_sec1_bytes(bytes);
                key.map(|key| Self::P384(key, bytes))
                    .map_err(|_| malformed())
            }
            (EC, Some(P521)) => {
                let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(bytes);
                key.map(Self::P521).map_err(|_| malformed())
            }
            (ED25519, _) if bytes.len() == 32 => Ok(Self::Ed25519(bytes)),
            _ => Err(ApiError::invalid(
                "the subject's public key is not supported: use RSA, the curves P-256, P-384 or P-521, or Ed25519",
            )),
        }
    }

    /// Whether the private half made this signature in X.509's form; none if the algorithm does not fit the key.
    fn verifies(
        &self,
        algorithm: &AlgorithmIdentifierRef<'_>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let ring = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            let key = UnparsedPublicKey::new(algorithm, key);
            key.verify(message, signature).is_ok()
        };
        match self {
            Self::Rsa(key) => Some(ring(rsa(algorithm)?, key)),
            Self::Ed25519(key) => {
                (algorithm.oid == ED25519).then(|| ring(&signature::ED25519, key))
            }
            Self::P256(key, point) => {
                let hash = Hash::of_ecdsa(algorithm.oid)?;
                if let Some(algorithm) = quick_ecdsa(P256, hash, point) {
                    return Some(ring(algorithm, point));
                }
                let signature = p256::ecdsa::Signature::from_der(signature);
                let hash = hash.of(message);
                Some(
                    signature.is_ok_and(|signature| {
                        key.verify_prehash(hash.as_ref(), &signature).is_ok()
                    }),
                )
            }
            Self::P384(key, point) => {
                let hash = Hash::of_ecdsa(algorithm.oid)?;
                if let Some(algorithm) = quick_ecdsa(P384, hash, point) {
                    return Some(ring(algorithm, point));
                }
                let signature = p384::ecdsa::Signature::from_der(signature);
                let hash = hash.of(message);
                Some(
                    signature.is_ok_and(|signature| {
                        key.verify_prehash(hash.as_ref(), &signature).is_ok()
                    }),
                )
            }
            Self::P521(key) => {
                let signature = p521::ecdsa::Signature::from_der(signature);
                let hash = Hash::of_ecdsa(algorithm.oid)?.of(message);
                Some(
                    signature.is_ok_and(|signature| {
                        key.verify_prehash(hash.as_ref(), &signature).is_ok()
                    }),
                )
            }
        }
    }
}

/// Returns a verifier that checks signatures of this curve and hash in a fraction of the time; none if ring does not
/// support them, or the form of the point.
fn quick_ecdsa(
    curve: ObjectIdentifier,
    hash: Hash,
    point: &[u8],
) -> Option<&'static dyn VerificationAlgorithm> {
    const UNCOMPRESSED: u8 = 4;
    if point.first() != Some(&UNCOMPRESSED) {
        return None;
    }
    match (curve, hash) {
        (P256, Hash::Sha256) => Some(&signature::ECDSA_P256_SHA256_ASN1),
        (P256, Hash::Sha384) => Some(&signature::ECDSA_P256_SHA384_ASN1),
        (P384, Hash::Sha256) => Some(&signature::ECDSA_P384_SHA256_ASN1),
        (P384, Hash::Sha384) => Some(&signature::ECDSA_P384_SHA384_ASN1),
        _ => None,
    }
}

impl Hash {
    fn of_ecdsa(oid: ObjectIdentifier) -> Option<Self> {
        match oid {
            ECDSA_SHA1 => Some(Self::Sha1),
            ECDSA_SHA256 => Some(Self::Sha256),
            ECDSA_SHA384 => Some(Self::Sha384),
            ECDSA_SHA512 => Some(Self::Sha512),
            _ => None,
        }
    }

    fn of(self, message: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        };
        digest(algorithm, message)
    }
}

/// Ring's algorithm for verifying RSA signatures of an algorithm; none if it is unknown.
fn rsa(algorithm: &AlgorithmIdentifierRef<'_>) -> Option<&'static dyn VerificationAlgorithm> {
    if algorithm.oid == RSA_PSS {
        return rsa_pss(algorithm.parameters?);
    }
    match algorithm.oid {
        RSA_SHA1 => Some(&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
        RSA_SHA256 => Some(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        RSA_SHA384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        RSA_SHA512 => Some(&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
        _ => None,
    }
}

/// ring takes one hash for the message and the mask, and a salt of its length, as Go does.
fn rsa_pss(parameters: AnyRef<'_>) -> Option<&'static dyn VerificationAlgorithm> {
    let hash = parameters.sequence(|parts| {
        let hash: Option<AlgorithmIdentifierRef<'_>> =
            parts.context_specific(TagNumber(0), TagMode::Explicit)?;
        while !parts.is_finished() {
            parts.tlv_bytes()?;
        }
        der::Result::Ok(hash)
    });
    match hash.ok()??.oid {
        SHA256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        SHA384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        SHA512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

/// A modulus and an exponent.
fn two_integers(parts: &mut SliceReader<'_>) -> der::Result<()> {
    UintRef::decode(parts)?;
    UintRef::decode(parts)?;
    Ok(())
}

#[cfg(test)]
mod tests;
