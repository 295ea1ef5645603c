//! Makes certificates comparable. An issued one is replaced by what it says, without its serial number, its times and
//! its signature. The authorities of a bundle, which differ between control planes, are only counted.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

/// The first line of a certificate in PEM.
pub(crate) const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// The extension that identifies the authority's key, which differs between control planes.
const AUTHORITY_KEY: &str = "2.5.29.35";

/// Replaces the certificate in the status of a CertificateSigningRequest, and the bundle of a ClusterTrustBundle. Other
/// objects, and texts that aren't certificates, are not changed.
pub(crate) fn decode(object: &mut Value) {
    match object["kind"].as_str() {
        Some("CertificateSigningRequest") => decode_issued(object),
        Some("ClusterTrustBundle") => count_authorities(object),
        _ => {}
    }
}

fn count_authorities(object: &mut Value) {
    if let Some(bundle) = object["spec"]["trustBundle"].as_str() {
        let count = bundle.matches(CERTIFICATE).count();
        object["spec"]["trustBundle"] = format!("{count} certificates").into();
    }
}

fn decode_issued(object: &mut Value) {
    let pem = object["status"]["certificate"].as_str();
    let pem = pem.and_then(|text| BASE64_STANDARD.decode(text).ok());
    if let Some(said) = pem.and_then(|pem| said(&pem)) {
        object["status"]["certificate"] = said;
    }
}

/// The fields of one certificate in PEM.
fn said(pem: &[u8]) -> Option<Value> {
    let blocks: Vec<Pem> = Pem::iter_from_buffer(pem).collect::<Result<_, _>>().ok()?;
    let [block] = &blocks[..] else {
        return None;
    };
    let certificate = block.parse_x509().ok()?;
    let validity = certificate.validity();
    Some(json!({
        "pem": {"label": block.label, "lines": str::from_utf8(pem).ok()?.lines().map(str::len).max()},
        "version": certificate.version.0,
        // 128 random bits, and at most one byte for the sign.
        "serialFits": certificate.raw_serial().len() <= 17 && certificate.raw_serial()[0] < 0x80,
        "algorithm": certificate.signature_algorithm.algorithm.to_id_string(),
        "issuer": certificate.issuer().to_string(),
        "subject": certificate.subject().to_string(),
        "subjectDer": hex(certificate.subject().as_raw()),
        "validSeconds": validity.not_after.timestamp() - validity.not_before.timestamp(),
        "publicKey": hex(certificate.public_key().raw),
        "extensions": extensions(&certificate),
    }))
}

/// The extensions in their order, with their values in DER.
fn extensions(certificate: &X509Certificate<'_>) -> Vec<Value> {
    let extension = |extension: &x509_parser::extensions::X509Extension<'_>| {
        let oid = extension.oid.to_id_string();
        let value = match oid.as_str() {
            AUTHORITY_KEY => "the authority's key".to_owned(),
            _ => hex(extension.value),
        };
        json!({"oid": oid, "critical": extension.critical, "value": value})
    };
    certificate.extensions().iter().map(extension).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(pem: &[u8]) -> Value {
        let mut object = json!({
            "kind": "CertificateSigningRequest",
            "status": {"certificate": BASE64_STANDARD.encode(pem)},
        });
        decode(&mut object);
        object["status"]["certificate"].take()
    }

    #[test]
    fn a_certificate_is_what_it_says() {
        let said = issued(include_bytes!(
            "../../../host/signer/testdata/authorities/p256.crt"
        ));
        assert_eq!(said["subject"], "O=Example, CN=authority p256");
        assert_eq!(said["validSeconds"], 36_500 * 86_400_i64);
        assert_eq!(said["pem"]["lines"], 64);
        let extensions = said["extensions"].as_array().unwrap();
        let key = extensions.iter().find(|one| one["oid"] == AUTHORITY_KEY);
        assert_eq!(key.unwrap()["value"], "the authority's key");
    }

    #[test]
    fn the_authorities_of_a_bundle_are_counted() {
        let bundle = format!("{CERTIFICATE}\nYQ==\n{CERTIFICATE}\nYg==\n");
        let mut object = json!({"kind": "ClusterTrustBundle", "spec": {"trustBundle": bundle}});
        decode(&mut object);
        assert_eq!(object["spec"]["trustBundle"], "2 certificates");
    }

    #[test]
    fn what_is_no_certificate_is_not_changed() {
        for pem in [
            &b""[..],
            b"a",
            b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(issued(pem), BASE64_STANDARD.encode(pem));
        }
        let mut other = json!({"kind": "Secret", "status": {"certificate": "YQ=="}});
        let before = other.clone();
        decode(&mut other);
        assert_eq!(other, before);
    }
}
