//! Decides which certificates `signer` signs for a plugin.

use std::collections::BTreeSet;

use pkcs8::ObjectIdentifier;
use serde::{Deserialize, Serialize};

use crate::PluginPolicy;

/// A common name. Kubernetes takes a client's user name from it.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// An organization. Kubernetes takes a client's groups from them.
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The prefix of Kubernetes' own users and groups, such as `system:masters`, which may do everything.
const RESERVED: &str = "system:";

/// The certificates that may be signed. Each list holds names, or prefixes that end with `*`. Without a list, any name may be
/// signed that does not begin with `system:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CertificateRule {
    /// Names of signers, as in `example.com/server`.
    pub signers: BTreeSet<String>,
    /// Common names of subjects: users, if the certificate is a client's.
    #[serde(default)]
    pub common_names: Option<BTreeSet<String>>,
    /// Organizations of subjects: groups, if the certificate is a client's.
    #[serde(default)]
    pub organizations: Option<BTreeSet<String>>,
}

impl PluginPolicy {
    /// The names of the signers that it may use.
    pub fn signers(&self) -> impl Iterator<Item = &str> {
        let rules = self.certificates.iter();
        rules.flat_map(|rule| rule.signers.iter().map(String::as_str))
    }
}

impl CertificateRule {
    /// Whether a subject may have this attribute. An identifier has several spellings, such as `2.5.4.10` and `2.5.4.010`, so it
    /// is compared as it is encoded.
    pub(super) fn allows(&self, oid: &str, value: &str) -> bool {
        let names = match ObjectIdentifier::new(oid) {
            Ok(COMMON_NAME) => &self.common_names,
            Ok(ORGANIZATION) => &self.organizations,
            Ok(_) => return true,
            Err(_) => return false,
        };
        match names {
            Some(names) => names.iter().any(|name| matches(name, value)),
            None => !value.starts_with(RESERVED),
        }
    }

    /// Whether it allows all that the other allows. No is not certain.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.signers.is_superset(&other.signers)
            && covers_names(&self.common_names, &other.common_names)
            && covers_names(&self.organizations, &other.organizations)
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
        match self.signers.iter().find(|signer| !is_name(signer)) {
            Some(signer) => Err(format!(
                "`{signer}` is not the name of a signer: write `example.com/name`"
            )),
            None => Ok(()),
        }
    }
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
        let signer = policy.may_use_signer("example.com/a");
        let signer = signer.expect("a rule names it");
        signer.check_subject(&subject(user, groups)).is_ok()
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
            usual.check_subject(&subject).is_ok()
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
        assert!(allows("2.5.4.11", "a unit"));
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
        let bad = granted.check_subject(&subject("system:\n", &[]));
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
        ] {
            let (wide, narrow) = (rule(wide), rule(narrow));
            assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        }
        assert!(rule("").covers(&rule("")) && rule("").covers(&PluginPolicy::default()));
        assert!(!PluginPolicy::default().covers(&rule("")));
    }
}
