//! Issues certificates from the templates of guests. No certificate is an authority's, none outlives the authority, and
//! each has a random serial number.
//!
//! The extensions have the order and the criticality that Go's `x509.CreateCertificate` gives them.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flyball_plugin::{CertificateTemplate, SubjectKey};
use flyball_types::{ApiError, Effect, printable};
use p521::ecdsa::signature::Keypair;
use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::{
    Any, BitString, GeneralizedTime, Ia5String, OctetString, PrintableStringRef, Utf8StringRef,
};
use pkcs8::der::flagset::FlagSet;
use pkcs8::der::{self, Decode, Document, Encode};
use pkcs8::spki::{
    self, AlgorithmIdentifierOwned, AlgorithmIdentifierRef, DynSignatureAlgorithmIdentifier,
    EncodePublicKey, SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef,
};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{self, Builder, CertificateBuilder};
use x509_cert::certificate::TbsCertificate;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage};
use x509_cert::name::{Name, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};

use super::authority::Issuer;
use super::key::PrivateKey;
use super::request;

/// The maximum size of a template, in bytes. Templates of kubelets take 2 KiB.
const MAX_TEMPLATE: usize = 256 << 10;
/// The bytes that an element of a list counts as, besides its text.
const ELEMENT: usize = 32;
/// All bits of X.509's `KeyUsage`.
const ALL_KEY_USAGES: u16 = (1 << 9) - 1;

const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const AUTHORITY_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// Refuses a template that is too large, before anything of it is compared or encoded.
///
/// # Errors
/// `Full`.
pub(super) fn check_size(template: &CertificateTemplate) -> Result<(), ApiError> {
    let size = size(template);
    if size > MAX_TEMPLATE {
        return Err(ApiError::full(format!(
            "the template of a certificate may have {MAX_TEMPLATE} bytes, and has {size}"
        )));
    }
    Ok(())
}

/// Returns a certificate in DER.
///
/// # Errors
/// `Invalid`: the template is malformed, or its key did not sign its request. `InternalError`: the authority has
/// expired, or the system has no randomness.
pub(super) fn issue(
    issuer: &Issuer,
    template: &CertificateTemplate,
    now: SystemTime,
) -> Result<Vec<u8>, ApiError> {
    let spki = match &template.key {
        SubjectKey::PublicKey(spki) => {
            request::check_public_key(spki)?;
            spki.as_slice()
        }
        SubjectKey::Request(request) => request::public_key(request)?,
    };
    let subject = name(&template.subject)?;
    let profile = Profile {
        extensions: extensions(issuer, template, &subject)?,
        subject,
        issuer: issuer.name.clone(),
    };
    let validity = validity(issuer, template, now)?;
    let mut serial = [0; 16];
    rand::fill(&mut serial);
    let unencodable = |error: builder::Error| failed(&error);
    let spki = SubjectPublicKeyInfoOwned::from_der(spki).map_err(invalid_key)?;
    let serial = SerialNumber::new(&serial).map_err(|error| failed(&error))?;
    let mut builder =
        CertificateBuilder::new(profile, serial, validity, spki).map_err(unencodable)?;
    let key = SigningKey(&issuer.key);
    let signed = builder.finalize(&key).map_err(unencodable)?;
    let signature = issuer
        .key
        .sign_der(&signed)
        .map_err(|_| failed(&"signing failed"))?;
    let signature = BitString::from_bytes(&signature).map_err(|error| failed(&error))?;
    let certificate = builder.assemble(signature, &key).map_err(unencodable)?;
    certificate.to_der().map_err(|error| failed(&error))
}

/// The bytes of a template, in which each element of a list counts.
fn size(template: &CertificateTemplate) -> usize {
    let CertificateTemplate {
        key: SubjectKey::PublicKey(key) | SubjectKey::Request(key),
        subject,
        dns_names,
        email_addresses,
        ip_addresses,
        uris,
        key_usages: _,
        extended_key_usages,
        not_before: _,
        not_after: _,
    } = template;
    let lists = [
        dns_names,
        email_addresses,
        ip_addresses,
        uris,
        extended_key_usages,
    ];
    let texts = lists.into_iter().flatten().map(|text| text.len() + ELEMENT);
    let attributes = subject.iter().flatten();
    let attributes = attributes.map(|(oid, value)| oid.len() + value.len() + ELEMENT);
    key.len() + subject.len() * ELEMENT + texts.chain(attributes).sum::<usize>()
}

fn name(subject: &[Vec<(String, String)>]) -> Result<Name, ApiError> {
    let attribute = |(oid, value): &(String, String)| -> Result<AttributeTypeAndValue, ApiError> {
        let (oid, printable_value) = (oid_of(oid)?, PrintableStringRef::new(value));
        let value = match printable_value {
            Ok(text) => Any::encode_from(&text),
            Err(_) => Utf8StringRef::new(value).and_then(|text| Any::encode_from(&text)),
        };
        let value = value.map_err(|error| failed(&error))?;
        Ok(AttributeTypeAndValue { oid, value })
    };
    let relative = |attributes: &Vec<(String, String)>| -> Result<_, ApiError> {
        let attributes: Result<Vec<_>, ApiError> = attributes.iter().map(attribute).collect();
        let mut attributes = attributes?;
        if attributes.is_empty() {
            return Err(ApiError::invalid("a relative name of the subject is empty"));
        }
        // A set has each element once.
        let mut seen = Vec::new();
        attributes.retain(|attribute| {
            let is_new = !seen.contains(attribute);
            seen.push(attribute.clone());
            is_new
        });
        RelativeDistinguishedName::try_from(attributes).map_err(|error| failed(&error))
    };
    let names: Result<Vec<RelativeDistinguishedName>, ApiError> =
        subject.iter().map(relative).collect();
    let der = names?.to_der().map_err(|error| failed(&error))?;
    Name::from_der(&der).map_err(|error| failed(&error))
}

/// Returns the template's validity, limited to the authority's.
fn validity(
    issuer: &Issuer,
    template: &CertificateTemplate,
    now: SystemTime,
) -> Result<Validity, ApiError> {
    if now >= issuer.not_after {
        return Err(failed(&"its certificate has expired"));
    }
    let (start, end) = (
        template.not_before,
        template.not_after.min(issuer.not_after),
    );
    if start >= end {
        return Err(ApiError::invalid(
            "the certificate would begin to be valid after it, or its authority, ends to be",
        ));
    }
    let time = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let since = Duration::from_secs(since.as_secs());
        let time = GeneralizedTime::from_unix_duration(since);
        time.map(Time::GeneralTime).map_err(|error| failed(&error))
    };
    Ok(Validity::new(time(start)?, time(end)?))
}

fn extensions(
    issuer: &Issuer,
    template: &CertificateTemplate,
    subject: &Name,
) -> Result<Vec<Extension>, ApiError> {
    let mut extensions = Vec::new();
    let mut add = |id: ObjectIdentifier, critical: bool, value: &dyn EncodeDer| {
        let value = value.encoded().and_then(OctetString::new);
        extensions.push(Extension {
            extn_id: id,
            critical,
            extn_value: value.map_err(|error| failed(&error))?,
        });
        Ok::<_, ApiError>(())
    };
    let usages = FlagSet::new(template.key_usages & ALL_KEY_USAGES);
    let usages = usages.map_err(|_| ApiError::invalid("it has unknown key usages"))?;
    if !usages.is_empty() {
        add(KEY_USAGE, true, &KeyUsage(usages))?;
    }
    if !template.extended_key_usages.is_empty() {
        let usages = template.extended_key_usages.iter();
        let usages: Result<Vec<_>, ApiError> = usages.map(|usage| oid_of(usage)).collect();
        add(EXTENDED_KEY_USAGE, false, &ExtendedKeyUsage(usages?))?;
    }
    let no_authority = BasicConstraints {
        ca: false,
        path_len_constraint: None,
    };
    add(BASIC_CONSTRAINTS, true, &no_authority)?;
    // A subject with the authority's own name would name itself as its issuer.
    let id = issuer.key_id.as_ref().filter(|_| *subject != issuer.name);
    if let Some(id) = id {
        let id = OctetString::new(id.as_slice()).map_err(|error| failed(&error))?;
        let id = AuthorityKeyIdentifier {
            key_identifier: Some(id),
            ..AuthorityKeyIdentifier::default()
        };
        add(AUTHORITY_KEY_ID, false, &id)?;
    }
    let names = alternative_names(template)?;
    if !names.is_empty() {
        add(ALTERNATIVE_NAMES, subject.is_empty(), &names)?;
    }
    Ok(extensions)
}

fn alternative_names(template: &CertificateTemplate) -> Result<Vec<GeneralName>, ApiError> {
    let mut names = Vec::new();
    for text in &template.dns_names {
        names.push(GeneralName::DnsName(ascii(text)?));
    }
    for text in &template.email_addresses {
        names.push(GeneralName::Rfc822Name(ascii(text)?));
    }
    for text in &template.ip_addresses {
        let address: IpAddr = text.parse().map_err(|_| {
            ApiError::invalid(format!("`{}` is not an IP address", printable(text)))
        })?;
        names.push(GeneralName::from(address.to_canonical()));
    }
    for text in &template.uris {
        names.push(GeneralName::UniformResourceIdentifier(ascii(text)?));
    }
    Ok(names)
}

fn ascii(text: &str) -> Result<Ia5String, ApiError> {
    Ia5String::new(text).map_err(|_| {
        ApiError::invalid(format!(
            "the alternative name `{}` is not ASCII",
            printable(text)
        ))
    })
}

fn oid_of(text: &str) -> Result<ObjectIdentifier, ApiError> {
    ObjectIdentifier::new(text).map_err(|_| {
        ApiError::invalid(format!("`{}` is not an object identifier", printable(text)))
    })
}

fn invalid_key(error: spki::der::Error) -> ApiError {
    ApiError::invalid(format!("the subject's public key is not valid: {error}"))
}

fn failed(why: &dyn std::fmt::Display) -> ApiError {
    ApiError::internal(
        Effect::None,
        format!("the authority could not sign the certificate: {why}"),
    )
}

/// A value that can be encoded in DER, by reference.
trait EncodeDer {
    fn encoded(&self) -> der::Result<Vec<u8>>;
}

impl<T: Encode> EncodeDer for T {
    fn encoded(&self) -> der::Result<Vec<u8>> {
        self.to_der()
    }
}

/// The certificate's parts that the builder asks for.
struct Profile {
    subject: Name,
    issuer: Name,
    extensions: Vec<Extension>,
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> builder::Result<Vec<Extension>> {
        Ok(self.extensions.clone())
    }
}

/// The authority's key, as the builder asks for it.
struct SigningKey<'a>(&'a PrivateKey);

#[derive(Clone)]
struct VerifyingKey(Vec<u8>);

impl Keypair for SigningKey<'_> {
    type VerifyingKey = VerifyingKey;

    fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.public().pkix())
    }
}

impl EncodePublicKey for VerifyingKey {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        Ok(Document::try_from(self.0.as_slice())?)
    }
}

impl DynSignatureAlgorithmIdentifier for SigningKey<'_> {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        let AlgorithmIdentifierRef { oid, parameters } = self.0.public().signature_algorithm();
        Ok(AlgorithmIdentifierOwned {
            oid,
            parameters: parameters.map(Any::from),
        })
    }
}

#[cfg(test)]
mod tests;
