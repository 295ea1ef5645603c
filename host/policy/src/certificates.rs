//! Decides which certificates `signer` signs for a plugin.

use std::collections::BTreeSet;
use std::net::IpAddr;

use flyball_types::cidr;
use pkcs8::ObjectIdentifier;
use serde::{Deserialize, Serialize};

use crate::PluginPolicy;

/// A common name. Kubernetes takes a client's user name from it.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// An organization. Kubernetes takes a client's groups from them.
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The prefix of Kubernetes' own users and groups, such as `system:masters`, which may do everything.
const RESERVED: &str = "system:";

/// The extended key usages with names, as in the API of CertificateSigningRequests.
const USAGES: [(&str, ObjectIdentifier); 4] = [
    (
        "server-auth",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
    ),
    (
        "client-auth",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
    ),
    (
        "code-signing",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3"),
    ),
    (
        "email-protection",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4"),
    ),
];

/// The certificates that may be signed: lists of allowed values. `*` in a list allows everything. Without
/// `common-names` or `organizations`, any name may be signed that does not begin with `system:`. Without another list
/// about names, a certificate has no such names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CertificateRule {
    /// Names of signers, as in `example.com/server`.
    pub signers: BTreeSet<String>,
    /// Common names of subjects: users, if the certificate is a client's. A name, or a prefix that ends with `*`.
    #[serde(default)]
    pub common_names: Option<BTreeSet<String>>,
    /// Organizations of subjects: groups, if the certificate is a client's. A name, or a prefix that ends with `*`.
    #[serde(default)]
    pub organizations: Option<BTreeSet<String>>,
    /// Other attributes of subjects, by object identifier, as in `2.5.4.11`. The API server takes more than names from
    /// subjects: one attribute is the user's UID.
    #[serde(default)]
    pub subject_attributes: BTreeSet<String>,
    /// Alternative names of hosts. A name, or a suffix that begins with `*.`, as in `*.example.com`.
    #[serde(default)]
    pub dns_names: BTreeSet<String>,
    /// An address, or a suffix that begins with `*@`.
    #[serde(default)]
    pub email_addresses: BTreeSet<String>,
    /// An address, or a range such as `10.0.0.0/8`.
    #[serde(default)]
    pub ip_addresses: BTreeSet<String>,
    /// A URI, or a prefix that ends with `*`.
    #[serde(default)]
    pub uris: BTreeSet<String>,
    /// Purposes that the certificate may be used for: `client-auth`, `server-auth`, `code-signing`, `email-protection`,
    /// or an object identifier. Without this list, every purpose is allowed. With it, a certificate must name a usage,
    /// because a certificate without one is valid for every purpose.
    #[serde(default)]
    pub extended_key_usages: Option<BTreeSet<String>>,
}

/// A certificate that a plugin asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Certified<'a> {
    /// The subject's relative names. They consist of attributes: an object identifier and a value.
    pub subject: &'a [Vec<(String, String)>],
    pub dns_names: &'a [String],
    pub email_addresses: &'a [String],
    pub ip_addresses: &'a [String],
    pub uris: &'a [String],
    /// Object identifiers.
    pub extended_key_usages: &'a [String],
}

impl PluginPolicy {
    /// The names of the signers that it may use.
    pub fn signers(&self) -> impl Iterator<Item = &str> {
        let rules = self.certificates.iter();
        rules.flat_map(|rule| rule.signers.iter().map(String::as_str))
    }
}

impl CertificateRule {
    /// Returns the first value that the rule doesn't allow, with the preposition for the error's text. None if it
    /// allows all.
    pub(super) fn refused<'a>(&self, certified: Certified<'a>) -> Option<(&'static str, &'a str)> {
        let attributes = certified.subject.iter().flatten();
        let subject = attributes
            .filter(|(oid, value)| !self.allows(oid, value))
            .map(|(_, value)| ("of", value.as_str()))
            .next();
        type Matches = fn(&str, &str) -> bool;
        let lists: [(_, &BTreeSet<String>, Matches); 4] = [
            (certified.dns_names, &self.dns_names, has_suffix),
            (certified.email_addresses, &self.email_addresses, has_suffix),
            (certified.ip_addresses, &self.ip_addresses, is_within),
            (certified.uris, &self.uris, matches),
        ];
        let mut names = lists.iter().flat_map(|(names, allowed, matches)| {
            let is_allowed = move |name: &String| {
                let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
                let mut allowed = allowed.iter();
                allowed.any(|one| one == "*" || is_plain && matches(one, name))
            };
            let refused = names.iter().find(|name| !is_allowed(name));
            refused.map(|name| ("for", name.as_str()))
        });
        let name = names.next();
        subject.or(name).or_else(|| {
            let allowed = self.extended_key_usages.as_ref()?;
            let all = allowed.contains("*");
            let is_allowed = |usage: &String| {
                let asked = ObjectIdentifier::new(usage);
                let mut allowed = allowed.iter().filter_map(|one| usage_of(one));
                asked.is_ok_and(|asked| allowed.any(|one| one == asked))
            };
            let usages = certified.extended_key_usages;
            let unlimited = usages.is_empty().then_some("any usage");
            let refused = || usages.iter().find(|usage| !is_allowed(usage));
            let refused = unlimited.or_else(|| refused().map(String::as_str));
            refused.filter(|_| !all).map(|usage| ("for", usage))
        })
    }

    /// Whether a subject may have this attribute. An identifier has several spellings, such as `2.5.4.10` and
    /// `2.5.4.010`, so its encoded form is compared.
    fn allows(&self, oid: &str, value: &str) -> bool {
        let names = match ObjectIdentifier::new(oid) {
            Ok(COMMON_NAME) => &self.common_names,
            Ok(ORGANIZATION) => &self.organizations,
            Ok(oid) => {
                let mut allowed = self.subject_attributes.iter();
                return allowed.any(|one| one == "*" || ObjectIdentifier::new(one) == Ok(oid));
            }
            Err(_) => return false,
        };
        match names {
            Some(names) => names.iter().any(|name| matches(name, value)),
            None => !value.starts_with(RESERVED),
        }
    }

    /// Whether this rule allows everything that the other allows. True is certain; false means unknown.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.signers.is_superset(&other.signers)
            && covers_names(&self.common_names, &other.common_names)
            && covers_names(&self.organizations, &other.organizations)
            && covers_list(&self.subject_attributes, &other.subject_attributes)
            && covers_list(&self.dns_names, &other.dns_names)
            && covers_list(&self.email_addresses, &other.email_addresses)
            && covers_list(&self.ip_addresses, &other.ip_addresses)
            && covers_list(&self.uris, &other.uris)
            && match (&self.extended_key_usages, &other.extended_key_usages) {
                (None, _) => true,
                (Some(usages), Some(others)) => covers_list(usages, others),
                (Some(usages), None) => usages.contains("*"),
            }
    }

    /// Fails with a sentence about what is not valid.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.signers.is_empty() {
            return Err("a rule of `certificates` names no `signers`".into());
        }
        let is_name = |signer: &&String| {
            signer
                .split_once('/')
                .is_some_and(|(domain, path)| !domain.is_empty() && !path.is_empty())
        };
        if let Some(signer) = self.signers.iter().find(|signer| !is_name(signer)) {
            return Err(format!(
                "`{signer}` is not the name of a signer: write `example.com/name`"
            ));
        }
        type IsValid = fn(&str) -> bool;
        let usages = self.extended_key_usages.clone().unwrap_or_default();
        let checks: [(&str, &BTreeSet<String>, IsValid); 3] = [
            (
                "an object identifier, in `subject-attributes`",
                &self.subject_attributes,
                |oid| ObjectIdentifier::new(oid).is_ok(),
            ),
            (
                "an address or a range, in `ip-addresses`",
                &self.ip_addresses,
                |text| text.parse::<IpAddr>().is_ok() || cidr(text).is_some(),
            ),
            (
                "`client-auth`, `server-auth`, `code-signing`, `email-protection` or an object identifier, in \
                 `extended-key-usages`",
                &usages,
                |usage| usage_of(usage).is_some(),
            ),
        ];
        for (what, list, is_valid) in checks {
            let mut wrong = list.iter().filter(|one| *one != "*" && !is_valid(one));
            if let Some(wrong) = wrong.next() {
                return Err(format!("`{wrong}` is not {what}"));
            }
        }
        Ok(())
    }
}

/// The identifier of an extended key usage, from its name or its text.
fn usage_of(text: &str) -> Option<ObjectIdentifier> {
    let mut named = USAGES.iter();
    let named = named.find(|(name, _)| *name == text).map(|(_, oid)| *oid);
    named.or_else(|| ObjectIdentifier::new(text).ok())
}

/// Whether a value is a name, or has a suffix that begins with `*`. The comparison ignores case: `*.example.com`,
/// `*@example.com`.
fn has_suffix(name: &str, value: &str) -> bool {
    let (name, value) = (name.to_ascii_lowercase(), value.to_ascii_lowercase());
    match name.strip_prefix('*') {
        Some(suffix) => value
            .strip_suffix(suffix)
            .is_some_and(|own| !own.is_empty()),
        None => value == name,
    }
}

/// Whether a value is an address, or within a range.
fn is_within(range: &str, value: &str) -> bool {
    let Ok(value) = value.parse::<IpAddr>() else {
        return false;
    };
    let value = value.to_canonical();
    if let Ok(address) = range.parse::<IpAddr>() {
        return address.to_canonical() == value;
    }
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let Some((address, prefix)) = cidr(range) else {
        return false;
    };
    let ((address, length), (value, own_length)) = (bits(address), bits(value));
    let differ = (address ^ value).leading_zeros();
    length == own_length && differ >= u32::from(prefix)
}

/// Whether a value is a name, or begins with a prefix that ends with `*`.
fn matches(name: &str, value: &str) -> bool {
    match name.strip_suffix('*') {
        Some(prefix) => value.starts_with(prefix),
        None => value == name,
    }
}

fn covers_names(names: &Option<BTreeSet<String>>, others: &Option<BTreeSet<String>>) -> bool {
    match (names, others) {
        (Some(names), Some(others)) => {
            let is_covered = |other: &String| names.iter().any(|name| matches(name, other));
            others.iter().all(is_covered)
        }
        (Some(names), None) => names.contains("*"),
        (None, Some(others)) => others.is_empty(),
        (None, None) => true,
    }
}

/// Whether a list contains all of another. `*` in the list allows everything.
fn covers_list(list: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    list.contains("*") || list.is_superset(other)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Policy;

    fn policy(rules: &str) -> PluginPolicy {
        let text = format!("[plugins.a]\nimports = [\"signer\"]\n{rules}");
        let policy = Policy::parse(Path::new("policy.toml"), &text).expect("it is valid");
        policy.plugins["a"].clone()
    }

    fn rule(fields: &str) -> PluginPolicy {
        policy(&format!(
            "[[plugins.a.certificates]]\nsigners = [\"example.com/a\"]\n{fields}"
        ))
    }

    fn subject(user: &str, groups: &[&str]) -> Vec<Vec<(String, String)>> {
        let organization = |group: &&str| (ORGANIZATION.to_string(), (*group).to_owned());
        vec![
            groups.iter().map(organization).collect(),
            vec![(COMMON_NAME.to_string(), user.to_owned())],
        ]
    }

    fn allows(policy: &PluginPolicy, user: &str, groups: &[&str]) -> bool {
        let subject = subject(user, groups);
        let certified = Certified {
            subject: &subject,
            ..Certified::default()
        };
        signs(policy, certified)
    }

    fn signs(policy: &PluginPolicy, certified: Certified<'_>) -> bool {
        let signer = policy.may_use_signer("example.com/a");
        let signer = signer.expect("a rule names it");
        signer.check_certificate(certified).is_ok()
    }

    #[test]
    fn names_of_kubernetes_itself_must_be_granted() {
        let usual = rule("");
        assert!(allows(&usual, "jane", &["dev", "ops"]));
        assert!(allows(&usual, "", &[]));
        assert!(!allows(&usual, "jane", &["dev", "system:masters"]));
        assert!(!allows(&usual, "system:kube-scheduler", &[]));
        assert!(allows(
            &rule("organizations = [\"*\"]"),
            "jane",
            &["system:masters"]
        ));
        let nodes = rule("common-names = [\"system:node:*\"]\norganizations = [\"system:nodes\"]");
        assert!(allows(&nodes, "system:node:a", &["system:nodes"]));
        assert!(!allows(&nodes, "system:node:a", &["system:nodes", "dev"]));
        assert!(!allows(&nodes, "system:nodes", &["system:nodes"]));
        assert!(!allows(&rule("common-names = []"), "jane", &[]));
    }

    #[test]
    fn another_spelling_of_an_identifier_gets_no_more() {
        let policy = rule("common-names = [\"jane\"]");
        let usual = policy.may_use_signer("example.com/a").unwrap();
        let allows = |oid: &str, value: &str| {
            let subject = [vec![(oid.to_owned(), value.to_owned())]];
            let certified = Certified {
                subject: &subject,
                ..Certified::default()
            };
            usual.check_certificate(certified).is_ok()
        };
        for organization in ["2.5.4.10", "2.5.4.010", "02.5.4.10", "2.05.4.0010"] {
            assert!(!allows(organization, "system:masters"), "{organization}");
        }
        for common_name in ["2.5.4.3", "2.5.4.03", "2.5.04.3"] {
            assert!(!allows(common_name, "system:admin"), "{common_name}");
            assert!(allows(common_name, "jane"), "{common_name}");
        }
        assert!(!allows("1.45.4.10", "system:masters"));
        assert!(!allows("organization", "system:masters"));
    }

    #[test]
    fn other_attributes_of_a_subject_must_be_granted() {
        // The last one is the user's UID for the API server.
        const UID: &str = "1.3.6.1.4.1.57683.2";
        let signed = |fields: &str, oid: &str| {
            let subject = [vec![(oid.to_owned(), "0".to_owned())]];
            let certified = Certified {
                subject: &subject,
                ..Certified::default()
            };
            signs(&rule(fields), certified)
        };
        for oid in ["2.5.4.11", "2.5.4.5", UID] {
            assert!(!signed("", oid), "{oid}");
            assert!(signed("subject-attributes = [\"*\"]", oid), "{oid}");
        }
        let units = "subject-attributes = [\"2.5.4.11\"]";
        assert!(signed(units, "2.5.4.11") && signed(units, "2.5.4.011") && !signed(units, UID));
    }

    #[test]
    fn alternative_names_must_be_granted() {
        fn asks<'a>(field: &str, names: &'a [String]) -> Certified<'a> {
            let mut certified = Certified::default();
            match field {
                "dns-names" => certified.dns_names = names,
                "email-addresses" => certified.email_addresses = names,
                "ip-addresses" => certified.ip_addresses = names,
                _ => certified.uris = names,
            }
            certified
        }
        for (field, allowed, signed, refused) in [
            (
                "dns-names",
                "*.example.com",
                &["a.example.com", "a.b.EXAMPLE.com", "*.example.com"][..],
                &[
                    "example.com",
                    ".example.com",
                    "aexample.com",
                    "a.example.com.evil.com",
                    "a\0.example.com",
                ][..],
            ),
            (
                "dns-names",
                "a.b",
                &["a.b", "A.b"],
                &["*.b", "a.b.", "xa.b"],
            ),
            (
                "email-addresses",
                "*@example.com",
                &["a@example.com"],
                &["a@b.com", "@example.com"],
            ),
            (
                "ip-addresses",
                "10.1.0.0/16",
                &["10.1.2.3", "::ffff:10.1.2.3"],
                &["10.2.0.0", "a01::", "10.1.2", "::10.1.2.3"],
            ),
            (
                "ip-addresses",
                "fd00::/8",
                &["fd12::1"],
                &["fe00::1", "253.0.0.0"],
            ),
            ("ip-addresses", "10.0.0.1", &["10.0.0.1"], &["10.0.0.2"]),
            (
                "uris",
                "spiffe://a/*",
                &["spiffe://a/b"],
                &["spiffe://b/a", "spiffe://a"],
            ),
        ] {
            let granted = rule(&format!("{field} = [\"{allowed}\"]"));
            let everything = rule(&format!("{field} = [\"*\"]"));
            let names =
                |texts: &[&str]| texts.iter().map(|text| vec![(*text).to_owned()]).collect();
            let (signed, refused): (Vec<Vec<String>>, Vec<Vec<String>>) =
                (names(signed), names(refused));
            for name in &signed {
                assert!(signs(&granted, asks(field, name)), "{field} {name:?}");
                assert!(!signs(&rule(""), asks(field, name)), "{field} {name:?}");
            }
            for name in &refused {
                assert!(!signs(&granted, asks(field, name)), "{field} {name:?}");
                assert!(signs(&everything, asks(field, name)), "{field} {name:?}");
                let both = [signed[0].clone(), name.clone()].concat();
                assert!(!signs(&granted, asks(field, &both)), "{field} {both:?}");
            }
        }
    }

    #[test]
    fn extended_key_usages_can_be_limited() {
        const CLIENT: &str = "1.3.6.1.5.5.7.3.2";
        const SERVER: &str = "1.3.6.1.5.5.7.3.1";
        let signed = |fields: &str, usages: &[&str]| {
            let usages: Vec<String> = usages.iter().map(|&usage| usage.to_owned()).collect();
            let certified = Certified {
                extended_key_usages: &usages,
                ..Certified::default()
            };
            signs(&rule(fields), certified)
        };
        let clients = "extended-key-usages = [\"client-auth\"]";
        assert!(signed("", &[CLIENT, SERVER]) && signed("", &[]));
        assert!(signed(clients, &[CLIENT]) && signed(clients, &["1.3.6.1.5.5.7.3.02"]));
        assert!(!signed(clients, &[CLIENT, SERVER]) && !signed(clients, &["client-auth"]));
        assert!(!signed(clients, &[]), "without a usage, it is good for all");
        assert!(signed("extended-key-usages = [\"*\"]", &[]));
        assert!(signed(
            &format!("extended-key-usages = [\"{SERVER}\"]"),
            &[SERVER]
        ));
    }

    #[test]
    fn what_no_certificate_can_match_is_a_mistake() {
        for fields in [
            "subject-attributes = [\"OU\"]",
            "ip-addresses = [\"example.com\"]",
            "extended-key-usages = [\"client\"]",
        ] {
            let text = format!(
                "[plugins.a]\nimports = [\"signer\"]\n[[plugins.a.certificates]]\nsigners = [\"example.com/a\"]\n{fields}"
            );
            let refused = Policy::parse(Path::new("policy.toml"), &text).unwrap_err();
            assert!(refused.to_string().contains("is not"), "{refused}");
        }
    }

    #[test]
    fn one_rule_must_allow_the_whole_subject() {
        let two = policy(
            "[[plugins.a.certificates]]\nsigners = [\"example.com/a\"]\ncommon-names = [\"a\"]\n\
             [[plugins.a.certificates]]\nsigners = [\"example.com/a\"]\norganizations = [\"system:b\"]",
        );
        assert!(allows(&two, "a", &["dev"]) && allows(&two, "c", &["system:b"]));
        assert!(allows(&two, "a", &["system:b"]) && !allows(&two, "system:a", &["dev"]));
    }

    #[test]
    fn a_signer_that_is_not_named_is_denied_on_one_line() {
        let policy = rule("");
        for signer in ["example.com/b", "x\n\u{1b}[2J"] {
            let denied = policy.may_use_signer(signer).unwrap_err();
            assert_eq!(denied.reason, "Denied");
            assert!(!denied.message.contains(char::is_control));
        }
        let granted = policy.may_use_signer("example.com/a").unwrap();
        let subject = subject("system:\n", &[]);
        let certified = Certified {
            subject: &subject,
            ..Certified::default()
        };
        let bad = granted.check_certificate(certified);
        assert!(!bad.unwrap_err().message.contains(char::is_control));
        let no_import = PluginPolicy {
            imports: BTreeSet::new(),
            ..policy
        };
        assert!(no_import.may_use_signer("example.com/a").is_err());
    }

    #[test]
    fn a_rule_covers_one_that_allows_no_more() {
        for (wide, narrow) in [
            ("organizations = [\"*\"]", ""),
            ("organizations = [\"*\"]", "organizations = [\"a\"]"),
            (
                "organizations = [\"a*\"]",
                "organizations = [\"ab\", \"ac*\"]",
            ),
            ("", "common-names = []"),
            ("", "extended-key-usages = [\"client-auth\"]"),
            ("dns-names = [\"*\"]", "dns-names = [\"a.b\"]"),
            (
                "subject-attributes = [\"*\"]",
                "subject-attributes = [\"2.5.4.11\"]",
            ),
            ("uris = [\"a:b\", \"a:c\"]", "uris = [\"a:b\"]"),
        ] {
            let (wide, narrow) = (rule(wide), rule(narrow));
            assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        }
        assert!(rule("").covers(&rule("")) && rule("").covers(&PluginPolicy::default()));
        assert!(!PluginPolicy::default().covers(&rule("")));
    }
}
