//! Certificates for the names by which clients know the server (SNI): by the operator's patterns, or else by the names
//! in the certificate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_rustls::rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::served::ServedCertificate;

/// A certificate, and the names that it is served for.
#[derive(Debug)]
pub(crate) struct Named {
    pub(super) certificate: Arc<ServedCertificate>,
    /// Names, possibly with a `*` as their first label, and addresses; none for the names in the certificate.
    pub(super) patterns: Vec<String>,
}

/// Returns the certificate for a name; none if there is none. An explicit pattern takes precedence over a name in a
/// certificate, then an earlier certificate over a later one, and a name over one with a `*`.
pub(super) fn find(named: &[Named], name: &str) -> Option<Arc<CertifiedKey>> {
    let name = name.to_ascii_lowercase();
    let by_name = by_name(named);
    let wildcard = || {
        let (_, parent) = name.split_once('.')?;
        by_name.get(&format!("*.{parent}"))
    };
    by_name.get(&name).or_else(wildcard).cloned()
}

/// Returns the certificate for clients that connect to an address and name nothing; none if there is none.
pub(super) fn find_address(named: &[Named], address: IpAddr) -> Option<Arc<CertifiedKey>> {
    by_name(named).remove(&address.to_canonical().to_string())
}

fn by_name(named: &[Named]) -> HashMap<String, Arc<CertifiedKey>> {
    let mut by_name = HashMap::new();
    for of_certificate in [true, false] {
        for one in named.iter().rev() {
            let key = one.certificate.current();
            let names = match (one.patterns.is_empty(), of_certificate) {
                (true, true) => names_of(&key),
                (false, false) => one.patterns.clone(),
                _ => continue,
            };
            for name in names {
                by_name.insert(name, key.clone());
            }
        }
    }
    by_name
}

/// Returns the common name, unless it isn't a domain name, and the DNS names.
fn names_of(key: &CertifiedKey) -> Vec<String> {
    let Some(Ok((_, certificate))) = key
        .end_entity_cert()
        .ok()
        .map(|der| X509Certificate::from_der(der))
    else {
        return Vec::new();
    };
    let common_name = certificate
        .subject()
        .iter_common_name()
        .next()
        .and_then(|name| name.as_str().ok())
        .filter(|name| name.parse::<IpAddr>().is_err() && is_domain(name));
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        });
    common_name
        .into_iter()
        .chain(alternatives)
        .map(str::to_owned)
        .collect()
}

/// Whether this is `*`, or a DNS subdomain in lower case that may begin with `*.`.
fn is_domain(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        let edges = [label.chars().next(), label.chars().next_back()];
        edges.iter().all(|edge| edge.is_some_and(|c| c != '-'))
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name == "*" || (rest.len() <= 253 && rest.split('.').all(is_label))
}

#[cfg(test)]
mod tests {
    use super::super::Certificate;
    use super::*;

    fn named(folder: &std::path::Path, number: usize, names: &[&str], patterns: &[&str]) -> Named {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let generated = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificate, key) = (
            folder.join(format!("{number}.crt")),
            folder.join(format!("{number}.key")),
        );
        std::fs::write(&certificate, generated.cert.pem()).unwrap();
        std::fs::write(&key, generated.signing_key.serialize_pem()).unwrap();
        let source = Certificate::Files { certificate, key };
        Named {
            certificate: ServedCertificate::new(source, [127, 0, 0, 1].into()).unwrap(),
            patterns: patterns.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_certificate_is_found_by_pattern_then_by_its_own_names() {
        let folder = tempfile::tempdir().unwrap();
        let all = [
            named(folder.path(), 0, &["a.example.com", "c.example.com"], &[]),
            named(
                folder.path(),
                1,
                &["a.example.com"],
                &["c.example.com", "10.0.0.1"],
            ),
            named(folder.path(), 2, &["x"], &["*.example.com"]),
        ];
        let number = |key: Option<Arc<CertifiedKey>>| {
            let key = key?;
            all.iter()
                .position(|one| Arc::ptr_eq(&one.certificate.current(), &key))
        };
        let found = |name| number(find(&all, name));
        assert_eq!(found("A.example.com"), Some(0));
        assert_eq!(found("c.example.com"), Some(1));
        assert_eq!(found("d.example.com"), Some(2));
        assert_eq!(found("e.d.example.com"), None);
        // The third certificate has patterns, so that its own names do not count.
        assert_eq!(found("x"), None);
        let by_address = |address: [u8; 4]| number(find_address(&all, address.into()));
        assert_eq!(by_address([10, 0, 0, 1]), Some(1));
        assert_eq!(by_address([10, 0, 0, 2]), None);
    }

    #[test]
    fn common_names_that_are_no_domains_do_not_count() {
        assert!(["*", "*.a.b", "a-b.c1"].iter().all(|name| is_domain(name)));
        assert!(
            ["", "A", "a b", "-a", "a.", "a.*"]
                .iter()
                .all(|name| !is_domain(name))
        );
    }
}
