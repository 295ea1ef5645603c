//! Certificates from templates, read back by another parser, and their signatures verified by the authorities' public
//! keys.

use flyball_policy::{CertificateRule, Certified, PluginPolicy};
use ring::signature::{self as ring_signature, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::extensions::{GeneralName as Parsed, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::*;
use crate::authority::Authority;
use crate::{Signer, SigningKeys};

const REQUEST: &[u8] = include_bytes!("../../testdata/requests/p256-sha256.der");
const CLIENT_AUTH: &str = "1.3.6.1.5.5.7.3.2";
const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";

fn testdata(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

fn issuer(name: &str) -> std::sync::Arc<Issuer> {
    let certificate = testdata(&format!("authorities/{name}.crt"));
    let key = testdata(&format!("keys/{name}.pem"));
    Authority::open(&certificate, &key)
        .expect("it is one")
        .issuer()
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_900_000_000)
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn attribute(oid: &str, value: &str) -> (String, String) {
    (oid.into(), value.into())
}

fn template() -> CertificateTemplate {
    CertificateTemplate {
        key: SubjectKey::Request(REQUEST.to_vec()),
        subject: vec![
            vec![attribute("2.5.4.10", "ops"), attribute("2.5.4.10", "dev")],
            vec![attribute("2.5.4.3", "jäne")],
        ],
        dns_names: strings(&["a.example.com", "*.b.example.com"]),
        email_addresses: strings(&["a@example.com"]),
        ip_addresses: strings(&["10.0.0.1", "fd00::1", "::ffff:10.0.0.2"]),
        uris: strings(&["spiffe://example.com/a"]),
        key_usages: 0b101,
        extended_key_usages: strings(&[SERVER_AUTH, CLIENT_AUTH]),
        not_before: now() - Duration::from_secs(300),
        not_after: now() + Duration::from_secs(3600),
    }
}

fn issued(template: &CertificateTemplate) -> Result<Vec<u8>, ApiError> {
    issue(&issuer("p256"), template, now())
}

fn refused(change: impl FnOnce(&mut CertificateTemplate)) -> ApiError {
    let mut template = template();
    change(&mut template);
    issued(&template).expect_err("it is refused")
}

fn parsed(der: &[u8]) -> X509Certificate<'_> {
    let (rest, certificate) = X509Certificate::from_der(der).expect("it is a certificate");
    assert!(rest.is_empty());
    certificate
}

#[test]
fn a_certificate_says_what_the_template_says() {
    let der = issued(&template()).unwrap();
    let certificate = parsed(&der);
    assert_eq!(certificate.version.0, 2);
    assert_eq!(
        certificate.issuer.to_string(),
        "O=Example, CN=authority p256"
    );
    let subject = certificate.subject();
    let organizations = subject
        .iter_organization()
        .map(|name| name.as_str().unwrap());
    assert_eq!(
        organizations.collect::<Vec<_>>(),
        ["dev", "ops"],
        "a set is sorted"
    );
    assert_eq!(subject.iter_rdn().count(), 2);
    let user = subject.iter_common_name().next().unwrap();
    assert_eq!(user.as_str().unwrap(), "jäne");
    let validity = certificate.validity();
    let seconds = [validity.not_before, validity.not_after].map(|time| time.timestamp());
    assert_eq!(seconds, [1_899_999_700, 1_900_003_600]);
    let public_key = request::public_key(REQUEST).unwrap();
    assert_eq!(certificate.public_key().raw, public_key);

    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert!(!names.critical);
    assert_eq!(
        names.value.general_names,
        [
            Parsed::DNSName("a.example.com"),
            Parsed::DNSName("*.b.example.com"),
            Parsed::RFC822Name("a@example.com"),
            Parsed::IPAddress(&[10, 0, 0, 1]),
            Parsed::IPAddress(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            Parsed::IPAddress(&[10, 0, 0, 2]),
            Parsed::URI("spiffe://example.com/a"),
        ]
    );
    let usage = certificate.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.flags == 0b101);
    let extended = certificate.extended_key_usage().unwrap().unwrap();
    assert!(!extended.critical && extended.value.server_auth && extended.value.client_auth);
    let constraints = certificate.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && !constraints.value.ca);
    let key_id =
        certificate
            .extensions()
            .iter()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref(),
                _ => None,
            });
    let of_issuer = issuer("p256").key_id.clone().unwrap();
    assert_eq!(key_id.expect("it has one").0, of_issuer);
    let order = certificate
        .extensions()
        .iter()
        .map(|extension| extension.oid.to_id_string());
    assert_eq!(
        order.collect::<Vec<_>>(),
        [
            "2.5.29.15",
            "2.5.29.37",
            "2.5.29.19",
            "2.5.29.35",
            "2.5.29.17"
        ]
    );
}

#[test]
fn the_signature_of_each_authority_is_valid() {
    let algorithms: [(&str, &str, Option<&dyn VerificationAlgorithm>); 4] = [
        (
            "rsa",
            "1.2.840.113549.1.1.11",
            Some(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        ),
        (
            "p256",
            "1.2.840.10045.4.3.2",
            Some(&ring_signature::ECDSA_P256_SHA256_ASN1),
        ),
        (
            "p384",
            "1.2.840.10045.4.3.3",
            Some(&ring_signature::ECDSA_P384_SHA384_ASN1),
        ),
        ("p521", "1.2.840.10045.4.3.4", None),
    ];
    for (name, oid, algorithm) in algorithms {
        let issuer = issuer(name);
        let authority = parsed(&issuer.certificate);
        let key = &authority.public_key().subject_public_key.data;
        for _ in 0..20 {
            let der = issue(&issuer, &template(), now()).unwrap();
            let certificate = parsed(&der);
            assert_eq!(
                certificate.signature_algorithm.algorithm.to_id_string(),
                oid
            );
            assert_eq!(certificate.issuer.as_raw(), authority.subject().as_raw());
            let signed = certificate.tbs_certificate.as_ref();
            let signature = &certificate.signature_value.data;
            match algorithm {
                Some(algorithm) => UnparsedPublicKey::new(algorithm, key)
                    .verify(signed, signature)
                    .unwrap_or_else(|_| panic!("{name}")),
                None => {
                    use p521::ecdsa::signature::Verifier;
                    let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(key).unwrap();
                    let signature = p521::ecdsa::Signature::from_der(signature).unwrap();
                    key.verify(signed, &signature).unwrap();
                }
            }
        }
    }
}

#[test]
fn serial_numbers_are_random_and_positive() {
    let serials: std::collections::BTreeSet<Vec<u8>> = (0..50)
        .map(|_| {
            let der = issued(&template()).unwrap();
            let certificate = parsed(&der);
            let serial = certificate.raw_serial().to_vec();
            assert!(serial[0] < 0x80 && serial.len() <= 17);
            serial
        })
        .collect();
    assert_eq!(serials.len(), 50);
}

#[test]
fn a_template_with_nothing_in_it_has_only_the_constraint_and_the_key_of_the_authority() {
    let der = issued(&CertificateTemplate {
        subject: Vec::new(),
        dns_names: Vec::new(),
        email_addresses: Vec::new(),
        ip_addresses: Vec::new(),
        uris: Vec::new(),
        key_usages: 0,
        extended_key_usages: Vec::new(),
        ..template()
    });
    let der = der.unwrap();
    let certificate = parsed(&der);
    let order = certificate
        .extensions()
        .iter()
        .map(|extension| extension.oid.to_id_string());
    assert_eq!(order.collect::<Vec<_>>(), ["2.5.29.19", "2.5.29.35"]);
}

/// RFC 5280, section 4.2.1.6.
#[test]
fn the_names_of_an_empty_subject_are_critical() {
    let der = issued(&CertificateTemplate {
        subject: Vec::new(),
        ..template()
    });
    let der = der.unwrap();
    let names = parsed(&der)
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .critical;
    assert!(names);
}

#[test]
fn no_certificate_outlives_its_authority_and_an_expired_authority_signs_none() {
    let issuer = issuer("p256");
    let mut template = template();
    template.not_after = issuer.not_after + Duration::from_secs(1);
    let der = issue(&issuer, &template, now()).unwrap();
    let certificate = parsed(&der);
    let authority = parsed(&issuer.certificate).validity().not_after;
    assert_eq!(certificate.validity().not_after, authority);
    let expired = issue(&issuer, &template, issuer.not_after).unwrap_err();
    assert!(expired.message.contains("expired"), "{expired}");
    assert_eq!(expired.reason, "InternalError");
}

#[test]
fn years_after_2049_have_four_digits() {
    let late = UNIX_EPOCH + Duration::from_secs(2_600_000_000);
    let der = issued(&CertificateTemplate {
        not_after: late,
        ..template()
    });
    let der = der.unwrap();
    let validity = parsed(&der).validity().clone();
    assert_eq!(validity.not_after.timestamp(), 2_600_000_000);
    assert!(validity.not_before.is_utctime() && validity.not_after.is_generalizedtime());
}

#[test]
fn a_malformed_template_is_invalid() {
    let long = "x".repeat(300);
    type Change<'a> = dyn Fn(&mut CertificateTemplate) + 'a;
    let cases: [(&Change<'_>, &str); 12] = [
        (
            &|t| t.dns_names.push("ä.example.com".into()),
            "is not ASCII",
        ),
        (&|t| t.uris.push("\u{202e}".into()), "is not ASCII"),
        (
            &|t| t.ip_addresses.push("10.0.0".into()),
            "`10.0.0` is not an IP address",
        ),
        (
            &|t| t.extended_key_usages.push("serverAuth".into()),
            "is not an object identifier",
        ),
        (
            &|t| t.extended_key_usages.push("1".repeat(1000)),
            "is not an object identifier",
        ),
        (
            &|t| t.subject.push(vec![attribute("CN", "a")]),
            "is not an object identifier",
        ),
        (&|t| t.subject.push(Vec::new()), "is empty"),
        (
            &|t| t.subject.push(vec![attribute(&long, "a")]),
            "is not an object identifier",
        ),
        (
            &|t| t.not_after = t.not_before,
            "would begin to be valid after",
        ),
        (
            &|t| t.key = SubjectKey::PublicKey(b"key".to_vec()),
            "public key is not valid",
        ),
        (
            &|t| t.key = SubjectKey::Request(b"request".to_vec()),
            "not valid PKCS#10",
        ),
        (
            &|t| t.key = SubjectKey::Request(Vec::new()),
            "not valid PKCS#10",
        ),
    ];
    for (change, expected) in cases {
        let error = refused(change);
        assert_eq!(error.reason, "Invalid", "{error}");
        assert!(error.message.contains(expected), "{error}");
        assert!(!error.message.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn bits_that_are_no_key_usage_are_ignored() {
    let der = issued(&CertificateTemplate {
        key_usages: u16::MAX,
        ..template()
    });
    let der = der.unwrap();
    assert_eq!(
        parsed(&der).key_usage().unwrap().unwrap().value.flags,
        0x1ff
    );
}

#[test]
fn a_template_is_refused_if_it_is_large_in_any_part() {
    let cases: [&dyn Fn(&mut CertificateTemplate); 5] = [
        &|t| t.dns_names.push("x".repeat(MAX_TEMPLATE)),
        &|t| t.uris = vec![String::new(); MAX_TEMPLATE / ELEMENT],
        &|t| t.subject = vec![Vec::new(); MAX_TEMPLATE / ELEMENT],
        &|t| t.key = SubjectKey::Request(vec![0; MAX_TEMPLATE]),
        &|t| {
            t.subject
                .push(vec![attribute("2.5.4.10", &"x".repeat(MAX_TEMPLATE))])
        },
    ];
    for change in cases {
        let mut template = template();
        assert_eq!(check_size(&template), Ok(()));
        change(&mut template);
        assert_eq!(check_size(&template).unwrap_err().reason, "Full");
    }
}

#[test]
fn a_repeated_attribute_is_in_the_set_once() {
    let der = issued(&CertificateTemplate {
        subject: vec![vec![attribute("2.5.4.10", "dev"); 3]],
        ..template()
    });
    let der = der.unwrap();
    assert_eq!(parsed(&der).subject().iter_organization().count(), 1);
}

#[test]
fn a_public_key_is_certified_without_a_request() {
    let key = request::public_key(REQUEST).unwrap().to_vec();
    let der = issued(&CertificateTemplate {
        key: SubjectKey::PublicKey(key.clone()),
        ..template()
    });
    let der = der.unwrap();
    assert_eq!(parsed(&der).public_key().raw, key);
}

/// A list that allows everything.
fn all() -> std::collections::BTreeSet<String> {
    ["*".to_owned()].into()
}

/// The authority of a signer, and the policy of a plugin that names it and another one.
fn keys() -> (SigningKeys, PluginPolicy) {
    let mut signer = Signer::default();
    let (certificate, key) = (testdata("authorities/rsa.crt"), testdata("keys/rsa.pem"));
    for name in ["example.com/a", "example.com/denied"] {
        signer.add_authority(name, &certificate, &key).unwrap();
    }
    let rule = CertificateRule {
        signers: strings(&["example.com/a", "example.com/none"])
            .into_iter()
            .collect(),
        dns_names: all(),
        email_addresses: all(),
        ip_addresses: all(),
        uris: all(),
        ..CertificateRule::default()
    };
    let policy = PluginPolicy {
        imports: ["signer".to_owned()].into(),
        certificates: vec![rule],
        ..PluginPolicy::default()
    };
    (SigningKeys::new(signer.into()), policy)
}

#[test]
fn a_plugin_uses_the_authorities_that_its_policy_names_for_the_subjects_that_it_allows() {
    let (keys, policy) = keys();
    let granted = policy.may_use_signer("example.com/a").unwrap();
    let current = CertificateTemplate {
        not_before: SystemTime::now(),
        not_after: SystemTime::now() + Duration::from_secs(3600),
        ..template()
    };
    assert!(keys.sign_certificate(&granted, &current).is_ok());
    let authority = keys.certificate_authority(&granted).unwrap();
    assert_eq!(authority, [issuer("rsa").certificate.clone()]);
    let missing = policy.may_use_signer("example.com/none").unwrap();
    let signed = keys.sign_certificate(&missing, &current).map(drop);
    let read = keys.certificate_authority(&missing).map(drop);
    for result in [signed, read] {
        assert_eq!(result.unwrap_err().reason, "NotFound");
    }
    for signer in ["example.com/denied", "example.com/unknown"] {
        let denied = policy.may_use_signer(signer).unwrap_err();
        assert_eq!(denied.reason, "Denied");
    }
    let masters = CertificateTemplate {
        subject: vec![vec![attribute("2.5.4.10", "system:masters")]],
        ..current
    };
    let denied = keys.sign_certificate(&granted, &masters).unwrap_err();
    assert_eq!(denied.reason, "Denied");
    assert!(denied.message.contains("`system:masters`"), "{denied}");
    // Nothing of a large template is compared with the rules.
    let large = CertificateTemplate {
        dns_names: vec!["x".repeat(MAX_TEMPLATE)],
        ..masters
    };
    let refused = keys.sign_certificate(&granted, &large).unwrap_err();
    assert_eq!(refused.reason, "Full");
}

#[test]
fn nothing_is_signed_that_a_rule_does_not_list() {
    let (keys, _) = keys();
    let plain = CertificateTemplate {
        not_before: SystemTime::now(),
        not_after: SystemTime::now() + Duration::from_secs(3600),
        ..template()
    };
    let signed = |policy: CertificateRule, template: &CertificateTemplate| {
        let policy = PluginPolicy {
            imports: ["signer".to_owned()].into(),
            certificates: vec![CertificateRule {
                signers: ["example.com/a".to_owned()].into(),
                ..policy
            }],
            ..PluginPolicy::default()
        };
        let granted = policy.may_use_signer("example.com/a").unwrap();
        keys.sign_certificate(&granted, template).is_ok()
    };
    let listed = CertificateRule {
        dns_names: all(),
        email_addresses: all(),
        ip_addresses: all(),
        uris: all(),
        extended_key_usages: Some(
            strings(&["client-auth", "server-auth"])
                .into_iter()
                .collect(),
        ),
        ..CertificateRule::default()
    };
    assert!(signed(listed.clone(), &plain));
    let changes: [fn(&mut CertificateRule); 5] = [
        |rule| rule.dns_names.clear(),
        |rule| rule.email_addresses.clear(),
        |rule| rule.ip_addresses.clear(),
        |rule| rule.uris.clear(),
        |rule| rule.extended_key_usages = Some(strings(&["client-auth"]).into_iter().collect()),
    ];
    for change in changes {
        let mut less = listed.clone();
        change(&mut less);
        assert!(!signed(less.clone(), &plain), "{less:?}");
    }
    let mut odd = plain;
    odd.subject
        .push(vec![attribute("1.3.6.1.4.1.57683.2", "some user's UID")]);
    assert!(!signed(listed, &odd));
}

/// The values of an attribute in a certificate, by its encoded identifier and whatever the type of its string.
fn values(der: &[u8], oid: &[u8]) -> Vec<String> {
    let certificate = parsed(der);
    let attributes = certificate.subject().iter_attributes();
    let named = attributes.filter(|attribute| attribute.attr_type().as_bytes() == oid);
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).expect("it is UTF-8");
    named
        .map(|attribute| text(attribute.attr_value().data))
        .collect()
}

#[test]
fn no_subject_is_signed_whose_user_or_group_was_not_checked() {
    let rule = CertificateRule {
        signers: ["example.com/a".to_owned()].into(),
        subject_attributes: all(),
        ..CertificateRule::default()
    };
    let policy = PluginPolicy {
        imports: ["signer".to_owned()].into(),
        certificates: vec![rule],
        ..PluginPolicy::default()
    };
    let granted = policy.may_use_signer("example.com/a").unwrap();
    let identifiers = [
        "2.5.4.3",
        "2.5.4.03",
        "2.5.4.10",
        "2.5.4.010",
        "02.5.4.10",
        "2.5.4.10.",
        ".2.5.4.10",
        " 2.5.4.10",
        "2.5.4.10 ",
        "+2.5.4.10",
        "2.5.4.1٠",
        "2.5.4.4294967306",
        "2.5.4.266",
        "1.45.4.10",
        "0.85.4.10",
        "2.5.4.128.10",
        "2.5.4.0.10",
        "2.5.4",
        "2.5.4.11",
        "0.9.2342.19200300.100.1.1",
        "",
    ];
    let texts = [
        "system:masters",
        "system:masters\0",
        "\0system:masters",
        " system:masters",
        "system:masters ",
        "System:masters",
        "SYSTEM:MASTERS",
        "ſystem:masters",
        "system\u{ff1a}masters",
        "\u{feff}system:masters",
        "a,O=system:masters",
        "a+2.5.4.10=system:masters",
        "a\nO=system:masters",
        "",
        "dev",
    ];
    let (mut signed, mut users_and_groups) = (0, 0);
    for (identifier, text) in identifiers
        .iter()
        .flat_map(|identifier| texts.iter().map(move |text| (*identifier, *text)))
    {
        // The attribute alone, beside a harmless one in the same relative name, and after one.
        let (odd, usual) = (attribute(identifier, text), attribute("2.5.4.10", "dev"));
        for subject in [
            vec![vec![odd.clone()]],
            vec![vec![usual.clone(), odd.clone()]],
            vec![vec![odd.clone(), usual.clone()], vec![usual], vec![odd]],
        ] {
            let certified = Certified {
                subject: &subject,
                ..Certified::default()
            };
            if granted.check_certificate(certified).is_err() {
                continue;
            }
            let der = issued(&CertificateTemplate {
                subject,
                ..template()
            });
            let Ok(der) = der else { continue };
            signed += 1;
            for oid in [[0x55, 4, 3], [0x55, 4, 10]] {
                for value in values(&der, &oid) {
                    users_and_groups += 1;
                    assert!(
                        !value.starts_with("system:"),
                        "{identifier} {text:?}: {value:?}"
                    );
                    assert!(
                        value == text || value == "dev",
                        "{identifier} {text:?}: {value:?}"
                    );
                }
            }
        }
    }
    assert!(
        signed > 300 && users_and_groups > 300,
        "{signed} {users_and_groups}"
    );
}
