//! Decides which requests are deleted.
//!
//! Upstream: pkg/controller/certificates/cleaner/cleaner.go: isIssuedExpired, isPendingPastDeadline,
//! isDeniedPastDeadline, isFailedPastDeadline, isIssuedPastDeadline, isApprovedUnissuedPastDeadline, isOlderThan,
//! isIssued, isExpired.

use std::time::Duration;

use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::{Decode, Reader, SliceReader};

/// How long a request is kept after it was signed, denied or failed.
const DECIDED: Duration = Duration::from_secs(60 * 60);
/// How long a request is kept while it is neither approved nor denied, or is approved and not signed.
const PENDING: Duration = Duration::from_secs(24 * 60 * 60);

/// A CertificateSigningRequest.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "certificates.k8s.io/v1/CertificateSigningRequest")]
pub struct Csr {
    #[view(path = "metadata", fields("creationTimestamp", "deletionTimestamp"))]
    pub meta: Meta,
    /// PEM, in base64; empty until it is signed.
    #[view(path = "status.certificate")]
    pub certificate: String,
    #[view(path = "status.conditions", fields("[*].type", "[*].lastUpdateTime"))]
    pub conditions: Vec<Condition>,
}

/// Returns why a request is to be deleted; none if it is kept or is being deleted.
pub fn reason(csr: &Csr, now: Time) -> Option<&'static str> {
    if csr.meta.is_deleting() {
        return None;
    }
    if csr.conditions.is_empty() {
        let is_old = is_older(csr.meta.creation_timestamp, PENDING, now);
        return is_old.then_some("nobody decided about it");
    }
    csr.conditions.iter().find_map(|condition| {
        let is_older = |age| is_older(condition.last_update_time, age, now);
        match condition.condition_type.as_str() {
            "Denied" => is_older(DECIDED).then_some("it was denied"),
            "Failed" => is_older(DECIDED).then_some("it failed"),
            "Approved" if csr.certificate.is_empty() => {
                is_older(PENDING).then_some("it was approved and nobody signed it")
            }
            "Approved" if is_older(DECIDED) => Some("it was signed"),
            "Approved" => {
                is_expired(&csr.certificate, now).then_some("its certificate has expired")
            }
            _ => None,
        }
    })
}

/// Whether more time than this has passed. A missing time never counts as old.
fn is_older(time: Option<Time>, age: Duration, now: Time) -> bool {
    time.is_some_and(|time| now.since(time) > age)
}

/// Whether the first certificate has expired. A certificate that can't be parsed does not count as expired.
fn is_expired(certificate: &str, now: Time) -> bool {
    not_after(certificate).is_some_and(|end| now > end)
}

/// The end of the first certificate's validity; none if it can't be parsed.
fn not_after(certificate: &str) -> Option<Time> {
    let pem = pem::parse(base64::decode(certificate)?).ok()?;
    let mut reader = SliceReader::new(pem.contents()).ok()?;
    let first = CertificateInner::<Raw>::decode(&mut reader).ok()?;
    while !reader.is_finished() {
        CertificateInner::<Raw>::decode(&mut reader).ok()?;
    }
    let end = first
        .tbs_certificate()
        .validity()
        .not_after
        .to_unix_duration();
    Some(Time::of_seconds(i64::try_from(end.as_secs()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRED: &str = include_str!("../testdata/expired.crt");
    /// It ends at the start of 2026.
    const ENDING: &str = include_str!("../testdata/ends-2026.crt");

    fn end(pem: &str) -> Option<String> {
        not_after(&base64::encode(pem.as_bytes())).map(|time| time.to_string())
    }

    #[test]
    fn the_end_of_a_certificate_is_read() {
        assert_eq!(end(EXPIRED).as_deref(), Some("2020-01-01T00:00:00Z"));
        let valid = include_str!("../testdata/valid.crt");
        assert_eq!(end(valid).as_deref(), Some("2120-01-01T00:00:00Z"));
        // Only the first one counts.
        assert_eq!(end(&format!("{valid}{EXPIRED}")), end(valid));
        // Text around it and another label are allowed.
        let other = EXPIRED.replace("CERTIFICATE", "SOMETHING");
        assert_eq!(end(&format!("Issuer: a\n{other}")), end(EXPIRED));
    }

    #[test]
    fn a_certificate_that_cant_be_parsed_has_no_end() {
        assert_eq!(not_after("-"), None);
        assert_eq!(end("text"), None);
        assert_eq!(
            end("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            None
        );
        // Garbage after the certificate makes all of it unreadable.
        let pem = pem::parse(EXPIRED).unwrap();
        let longer = [pem.contents(), &[1, 2]].concat();
        assert_eq!(
            end(&pem::encode(&pem::Pem::new("CERTIFICATE", longer))),
            None
        );
        let twice = [pem.contents(), pem.contents()].concat();
        assert_eq!(
            end(&pem::encode(&pem::Pem::new("CERTIFICATE", twice))),
            end(EXPIRED)
        );
    }

    #[test]
    fn a_certificate_expires_after_its_last_second() {
        let certificate = base64::encode(ENDING.as_bytes());
        let end = Time::of_date("2026-01-01").unwrap();
        assert!(!is_expired(&certificate, end));
        assert!(is_expired(&certificate, end + Duration::from_nanos(1)));
    }
}
