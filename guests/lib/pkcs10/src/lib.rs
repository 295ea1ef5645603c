//! Shared by the controllers of CertificateSigningRequests: the subject and the alternative names in the PKCS#10
//! document of a request, as Go's `crypto/x509` reads them.
//!
//! The API server has parsed each request with Go before it is stored. So this parser accepts every document that Go
//! accepts. The host, which checks the signature, reads the document on its own.
//!
//! Upstream: pkg/apis/certificates/v1/helpers.go: ParseCSR.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flyball_sdk::base64;
use flyball_sdk::certificate::Attribute;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier};
use x509_cert::der::{self, Decode, Reader, SliceReader, Tag, Tagged};

/// The label of the PEM of a request.
const LABEL: &str = "CERTIFICATE REQUEST";
/// The attribute of requests that holds extensions.
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

const COMMON_NAME: &str = "2.5.4.3";
const SERIAL_NUMBER: &str = "2.5.4.5";
const COUNTRY: &str = "2.5.4.6";
const LOCALITY: &str = "2.5.4.7";
const PROVINCE: &str = "2.5.4.8";
const STREET: &str = "2.5.4.9";
const ORGANIZATION: &str = "2.5.4.10";
const ORGANIZATIONAL_UNIT: &str = "2.5.4.11";
const POSTAL_CODE: &str = "2.5.4.17";

/// The content of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// The document.
    pub der: Vec<u8>,
    pub subject: Subject,
    pub dns_names: Vec<String>,
    pub email_addresses: Vec<String>,
    pub ip_addresses: Vec<String>,
    pub uris: Vec<String>,
}

/// The attributes of a subject that certificates keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub countries: Vec<String>,
    pub provinces: Vec<String>,
    pub localities: Vec<String>,
    pub streets: Vec<String>,
    pub postal_codes: Vec<String>,
    pub organizations: Vec<String>,
    pub organizational_units: Vec<String>,
    /// The last one.
    pub common_name: String,
    /// The last one.
    pub serial_number: String,
}

impl Requested {
    /// Reads `spec.request`: PEM in base64.
    ///
    /// # Errors
    /// The request is malformed.
    pub fn parse(request: &str) -> Result<Self, String> {
        let text = base64::decode(request).ok_or("it is not base64")?;
        let block = pem::parse(text).map_err(|error| error.to_string())?;
        if block.tag() != LABEL {
            return Err(format!("PEM block type must be {LABEL}"));
        }
        Self::from_der(block.into_contents()).map_err(|error| error.to_string())
    }

    /// Whether the request has a DNS name, an e-mail address, an IP address or a URI.
    pub fn has_alternative_names(&self) -> bool {
        [
            &self.dns_names,
            &self.email_addresses,
            &self.ip_addresses,
            &self.uris,
        ]
        .iter()
        .any(|names| !names.is_empty())
    }

    fn from_der(der: Vec<u8>) -> der::Result<Self> {
        let mut requested = Self::default();
        let mut outer = SliceReader::new(&der)?;
        let info = outer.sequence(|parts| {
            let info = parts.tlv_bytes()?;
            // The algorithm and the signature, which the host checks.
            parts.tlv_bytes()?;
            parts.tlv_bytes()?;
            der::Result::Ok(info)
        })?;
        outer.finish()?;
        SliceReader::new(info)?.sequence(|parts| {
            let _version = parts.tlv_bytes()?;
            requested.subject = Subject::parse(AnyRef::decode(parts)?)?;
            let _public_key = parts.tlv_bytes()?;
            let attributes = AnyRef::decode(parts)?;
            each(attributes.value(), |attribute| {
                requested.read_attribute(attribute)
            })
        })?;
        requested.der = der;
        Ok(requested)
    }

    /// Reads an attribute: an identifier and a set of values. The first value of `extensionRequest` counts.
    fn read_attribute(&mut self, attribute: AnyRef<'_>) -> der::Result<()> {
        let (oid, extensions) = attribute.sequence(|parts| {
            let oid: ObjectIdentifier = ObjectIdentifier::decode(parts)?;
            let values = AnyRef::decode(parts)?;
            let mut values = SliceReader::new(values.value())?;
            let first = (!values.is_finished()).then(|| AnyRef::decode(&mut values));
            der::Result::Ok((oid, first.transpose()?))
        })?;
        match extensions {
            Some(extensions) if oid == EXTENSION_REQUEST => each(extensions.value(), |extension| {
                self.read_extension(extension)
            }),
            _ => Ok(()),
        }
    }

    /// Reads an extension: an identifier, whether it is critical, and its value.
    fn read_extension(&mut self, extension: AnyRef<'_>) -> der::Result<()> {
        let (oid, value) = extension.sequence(|parts| {
            let oid: ObjectIdentifier = ObjectIdentifier::decode(parts)?;
            let mut value = AnyRef::decode(parts)?;
            if value.tag() == Tag::Boolean {
                value = AnyRef::decode(parts)?;
            }
            der::Result::Ok((oid, value))
        })?;
        if oid != ALTERNATIVE_NAMES {
            return Ok(());
        }
        let names = AnyRef::from_der(value.value())?;
        each(names.value(), |name| self.read_name(name))
    }

    /// Reads an alternative name. Its tag tells its kind; other kinds are ignored.
    fn read_name(&mut self, name: AnyRef<'_>) -> der::Result<()> {
        let Tag::ContextSpecific { number, .. } = name.tag() else {
            return Ok(());
        };
        let text = || -> der::Result<String> {
            let text = std::str::from_utf8(name.value())
                .ok()
                .filter(|text| text.is_ascii());
            text.map(str::to_owned)
                .ok_or_else(|| name.tag().value_error().into())
        };
        match number.0 {
            1 => self.email_addresses.push(text()?),
            2 => self.dns_names.push(text()?),
            6 => self.uris.push(text()?),
            7 => {
                let address = address(name.value()).ok_or_else(|| name.tag().length_error())?;
                self.ip_addresses.push(address.to_string());
            }
            _ => {}
        }
        Ok(())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(v6).into())
}

impl Subject {
    /// Reads a sequence of sets of attributes.
    fn parse(name: AnyRef<'_>) -> der::Result<Self> {
        let mut subject = Self::default();
        each(name.value(), |relative| {
            each(relative.value(), |attribute| {
                let (oid, value) = attribute.sequence(|parts| {
                    let oid: ObjectIdentifier = ObjectIdentifier::decode(parts)?;
                    der::Result::Ok((oid, AnyRef::decode(parts)?))
                })?;
                if let Some(value) = text(value) {
                    subject.add(&oid.to_string(), value);
                }
                Ok(())
            })
        })?;
        Ok(subject)
    }

    fn add(&mut self, oid: &str, value: String) {
        match oid {
            COMMON_NAME => self.common_name = value,
            SERIAL_NUMBER => self.serial_number = value,
            COUNTRY => self.countries.push(value),
            LOCALITY => self.localities.push(value),
            PROVINCE => self.provinces.push(value),
            STREET => self.streets.push(value),
            ORGANIZATION => self.organizations.push(value),
            ORGANIZATIONAL_UNIT => self.organizational_units.push(value),
            POSTAL_CODE => self.postal_codes.push(value),
            _ => {}
        }
    }

    /// The relative names, each with all attributes of a type, in Go's order.
    pub fn relative_names(&self) -> Vec<Vec<Attribute>> {
        let one = |value: &String| Vec::from_iter((!value.is_empty()).then(|| value.clone()));
        let names = [
            (COUNTRY, self.countries.clone()),
            (PROVINCE, self.provinces.clone()),
            (LOCALITY, self.localities.clone()),
            (STREET, self.streets.clone()),
            (POSTAL_CODE, self.postal_codes.clone()),
            (ORGANIZATION, self.organizations.clone()),
            (ORGANIZATIONAL_UNIT, self.organizational_units.clone()),
            (COMMON_NAME, one(&self.common_name)),
            (SERIAL_NUMBER, one(&self.serial_number)),
        ];
        let relative = |(oid, values): (&str, Vec<String>)| {
            let attribute = |value| Attribute::new(oid, value);
            values.into_iter().map(attribute).collect::<Vec<_>>()
        };
        let names = names.into_iter().map(relative);
        names.filter(|attributes| !attributes.is_empty()).collect()
    }
}

/// The text of a string of any type that Go reads; none for other values.
fn text(value: AnyRef<'_>) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::PrintableString | Tag::NumericString | Tag::Ia5String | Tag::Utf8String => {
            String::from_utf8(bytes.to_vec()).ok()
        }
        // Most encoders write Latin-1, and Go reads it so.
        Tag::TeletexString => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
        Tag::BmpString => {
            // Go leaves out a terminator.
            let units = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes).chunks_exact(2);
            let units: Vec<u16> = units
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
                .collect();
            Some(String::from_utf16_lossy(&units))
        }
        _ => None,
    }
}

/// Calls a function with each of the values that bytes consist of.
fn each<'a>(
    bytes: &'a [u8],
    mut read: impl FnMut(AnyRef<'a>) -> der::Result<()>,
) -> der::Result<()> {
    let mut reader = SliceReader::new(bytes)?;
    while !reader.is_finished() {
        read(AnyRef::decode(&mut reader)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
