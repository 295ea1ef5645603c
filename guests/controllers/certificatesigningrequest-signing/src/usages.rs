//! The usages of the API, as X.509 names them.
//!
//! Upstream: pkg/controller/certificates/authority/policies.go: keyUsagesFromStrings.

use flyball_sdk::certificate::KeyUsages;

/// The extended usages, in the order in which certificates have them.
const EXTENDED: [(&str, &str); 13] = [
    ("any", "2.5.29.37.0"),
    ("server auth", "1.3.6.1.5.5.7.3.1"),
    ("client auth", "1.3.6.1.5.5.7.3.2"),
    ("code signing", "1.3.6.1.5.5.7.3.3"),
    ("email protection", "1.3.6.1.5.5.7.3.4"),
    ("s/mime", "1.3.6.1.5.5.7.3.4"),
    ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
    ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
    ("ipsec user", "1.3.6.1.5.5.7.3.7"),
    ("timestamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
    ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
    ("netscape sgc", "2.16.840.1.113730.4.1"),
];

/// Translates usages of the API into key usages and the object identifiers of extended key usages.
///
/// # Errors
/// Some usages are unknown; the error lists them.
pub fn translate(usages: &[String]) -> Result<(KeyUsages, Vec<String>), String> {
    let mut of_key = KeyUsages::default();
    let mut unknown = Vec::new();
    for usage in usages {
        match of_name(usage) {
            Some(known) => of_key |= known,
            None if EXTENDED.iter().any(|(name, _)| name == usage) => {}
            None => unknown.push(usage),
        }
    }
    if !unknown.is_empty() {
        return Err(format!("unrecognized usage values: {unknown:?}"));
    }
    let mut extended: Vec<String> = EXTENDED
        .iter()
        .filter(|(name, _)| usages.iter().any(|usage| usage == name))
        .map(|(_, oid)| (*oid).to_owned())
        .collect();
    extended.dedup();
    Ok((of_key, extended))
}

fn of_name(usage: &str) -> Option<KeyUsages> {
    match usage {
        "signing" | "digital signature" => Some(KeyUsages::DIGITAL_SIGNATURE),
        "content commitment" => Some(KeyUsages::CONTENT_COMMITMENT),
        "key encipherment" => Some(KeyUsages::KEY_ENCIPHERMENT),
        "data encipherment" => Some(KeyUsages::DATA_ENCIPHERMENT),
        "key agreement" => Some(KeyUsages::KEY_AGREEMENT),
        "cert sign" => Some(KeyUsages::CERT_SIGN),
        "crl sign" => Some(KeyUsages::CRL_SIGN),
        "encipher only" => Some(KeyUsages::ENCIPHER_ONLY),
        "decipher only" => Some(KeyUsages::DECIPHER_ONLY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(usages: &[&str]) -> Result<(KeyUsages, Vec<String>), String> {
        let usages: Vec<String> = usages.iter().map(|&usage| usage.to_owned()).collect();
        translate(&usages)
    }

    #[test]
    fn usages_of_the_key_are_joined_and_extended_ones_sorted_without_duplicates() {
        let (key, extended) = translated(&[
            "client auth",
            "s/mime",
            "digital signature",
            "server auth",
            "signing",
            "email protection",
            "key encipherment",
            "any",
            "client auth",
        ])
        .unwrap();
        assert_eq!(
            key,
            KeyUsages::DIGITAL_SIGNATURE | KeyUsages::KEY_ENCIPHERMENT
        );
        assert_eq!(
            extended,
            [
                "2.5.29.37.0",
                "1.3.6.1.5.5.7.3.1",
                "1.3.6.1.5.5.7.3.2",
                "1.3.6.1.5.5.7.3.4"
            ]
        );
        assert_eq!(translated(&[]).unwrap(), (KeyUsages::default(), Vec::new()));
    }

    #[test]
    fn each_usage_of_the_api_is_known() {
        for usage in [
            "signing",
            "digital signature",
            "content commitment",
            "key encipherment",
            "key agreement",
            "data encipherment",
            "cert sign",
            "crl sign",
            "encipher only",
            "decipher only",
            "any",
            "server auth",
            "client auth",
            "code signing",
            "email protection",
            "s/mime",
            "ipsec end system",
            "ipsec tunnel",
            "ipsec user",
            "timestamping",
            "ocsp signing",
            "microsoft sgc",
            "netscape sgc",
        ] {
            let (key, extended) = translated(&[usage]).unwrap();
            assert!(
                (key != KeyUsages::default()) != (extended.len() == 1),
                "{usage}"
            );
        }
    }

    #[test]
    fn unknown_usages_are_named_all_at_once() {
        assert_eq!(
            translated(&["client auth", "a", "Server Auth"]).unwrap_err(),
            r#"unrecognized usage values: ["a", "Server Auth"]"#
        );
    }
}
