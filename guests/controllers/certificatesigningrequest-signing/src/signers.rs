//! The signers, and the rules of each for requests.
//!
//! Upstream: pkg/controller/certificates/signer/signer.go: getCSRVerificationFuncForSignerName, isKubeletServing,
//! isKubeletClient, isKubeAPIServerClient, isLegacyUnknown, validAPIServerClientUsages.
//! Upstream: pkg/apis/certificates/helpers.go: ValidateKubeletServingCSR, ValidateKubeletClientCSR.

use std::collections::BTreeSet;

use flyball_pkcs10::Requested;

const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The signers that this controller signs for.
pub const SIGNERS: [&str; 4] = [KUBELET_SERVING, KUBELET_CLIENT, CLIENT, LEGACY];

/// The organization of all nodes.
const NODES: &str = "system:nodes";
/// The prefix of the common name of a node.
const NODE: &str = "system:node:";
/// The usages of kubelets' certificates in alphabetical order. Keys that can't encipher lack `key encipherment`.
const SERVING_USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
const CLIENT_USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
const KEY_ENCIPHERMENT: &str = "key encipherment";

/// Checks a request by the rules of its signer. Error messages are the same as in kube-controller-manager.
///
/// # Errors
/// The request breaks one of the rules.
pub fn validate(signer: &str, requested: &Requested, usages: &[String]) -> Result<(), String> {
    match signer {
        KUBELET_SERVING => kubelet_serving(requested, usages),
        KUBELET_CLIENT => kubelet_client(requested, usages),
        CLIENT => client(usages),
        // The legacy signer accepts any request. It exists for clients that are older than the rules.
        _ => Ok(()),
    }
}

fn kubelet_serving(requested: &Requested, usages: &[String]) -> Result<(), String> {
    is_of_nodes(requested)?;
    let has_address = !requested.dns_names.is_empty() || !requested.ip_addresses.is_empty();
    ensure(has_address, "DNS or IP subjectAltName is required")?;
    is_without_email(requested)?;
    is_without_uri(requested)?;
    has_usages(usages, SERVING_USAGES)?;
    is_named_as_node(requested)
}

fn kubelet_client(requested: &Requested, usages: &[String]) -> Result<(), String> {
    is_of_nodes(requested)?;
    ensure(
        requested.dns_names.is_empty(),
        "DNS subjectAltNames are not allowed",
    )?;
    is_without_email(requested)?;
    ensure(
        requested.ip_addresses.is_empty(),
        "IP subjectAltNames are not allowed",
    )?;
    is_without_uri(requested)?;
    is_named_as_node(requested)?;
    has_usages(usages, CLIENT_USAGES)
}

fn client(usages: &[String]) -> Result<(), String> {
    let mut has_client_auth = false;
    for usage in usages {
        match usage.as_str() {
            "digital signature" | KEY_ENCIPHERMENT => {}
            "client auth" => has_client_auth = true,
            other => return Err(format!("invalid usage for client certificate: {other}")),
        }
    }
    ensure(
        has_client_auth,
        "missing required usage for client certificate: client auth",
    )
}

fn is_of_nodes(requested: &Requested) -> Result<(), String> {
    ensure(
        requested.subject.organizations == [NODES],
        "subject organization is not system:nodes",
    )
}

fn is_named_as_node(requested: &Requested) -> Result<(), String> {
    ensure(
        requested.subject.common_name.starts_with(NODE),
        "subject common name does not begin with system:node:",
    )
}

fn is_without_email(requested: &Requested) -> Result<(), String> {
    ensure(
        requested.email_addresses.is_empty(),
        "Email subjectAltNames are not allowed",
    )
}

fn is_without_uri(requested: &Requested) -> Result<(), String> {
    ensure(
        requested.uris.is_empty(),
        "URI subjectAltNames are not allowed",
    )
}

fn has_usages(usages: &[String], required: [&str; 3]) -> Result<(), String> {
    let mut given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    given.insert(KEY_ENCIPHERMENT);
    ensure(
        given == BTreeSet::from(required),
        &format!("usages did not match [{}]", required.join(" ")),
    )
}

fn ensure(holds: bool, message: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_pkcs10::Subject;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn node() -> Requested {
        Requested {
            subject: Subject {
                organizations: texts(&["system:nodes"]),
                common_name: "system:node:a".into(),
                ..Subject::default()
            },
            ..Requested::default()
        }
    }

    /// The result for a node's request with a change.
    fn checked(signer: &str, usages: &[&str], change: impl Fn(&mut Requested)) -> String {
        let mut requested = node();
        change(&mut requested);
        validate(signer, &requested, &texts(usages)).map_or_else(|error| error, |()| "ok".into())
    }

    #[test]
    fn a_kubelets_serving_certificate_has_an_address_and_nothing_else() {
        let checked = |change: &dyn Fn(&mut Requested)| {
            checked(KUBELET_SERVING, &SERVING_USAGES, |requested| {
                requested.dns_names = texts(&["a"]);
                change(requested);
            })
        };
        assert_eq!(checked(&|_| {}), "ok");
        let by_address = |one: &mut Requested| {
            one.dns_names.clear();
            one.ip_addresses = texts(&["10.0.0.1"]);
        };
        assert_eq!(checked(&by_address), "ok");
        for (change, expected) in [
            (
                &(|one: &mut Requested| one.subject.organizations.clear())
                    as &dyn Fn(&mut Requested),
                "subject organization is not system:nodes",
            ),
            (
                &|one| one.subject.organizations.push("dev".into()),
                "subject organization is not system:nodes",
            ),
            (
                &|one| one.dns_names.clear(),
                "DNS or IP subjectAltName is required",
            ),
            (
                &|one| one.email_addresses.push("a@b".into()),
                "Email subjectAltNames are not allowed",
            ),
            (
                &|one| one.uris.push("a:b".into()),
                "URI subjectAltNames are not allowed",
            ),
            (
                &|one| one.subject.common_name = "a".into(),
                "subject common name does not begin with system:node:",
            ),
        ] {
            assert_eq!(checked(change), expected);
        }
    }

    #[test]
    fn a_kubelets_client_certificate_has_no_alternative_name() {
        let checked =
            |change: &dyn Fn(&mut Requested)| checked(KUBELET_CLIENT, &CLIENT_USAGES, change);
        assert_eq!(checked(&|_| {}), "ok");
        for (change, expected) in [
            (
                &(|one: &mut Requested| one.subject.organizations = texts(&["nodes"]))
                    as &dyn Fn(&mut Requested),
                "subject organization is not system:nodes",
            ),
            (
                &|one| one.dns_names.push("a".into()),
                "DNS subjectAltNames are not allowed",
            ),
            (
                &|one| one.email_addresses.push("a@b".into()),
                "Email subjectAltNames are not allowed",
            ),
            (
                &|one| one.ip_addresses.push("10.0.0.1".into()),
                "IP subjectAltNames are not allowed",
            ),
            (
                &|one| one.uris.push("a:b".into()),
                "URI subjectAltNames are not allowed",
            ),
            (
                &|one| one.subject.common_name = "system:nodes:a".into(),
                "subject common name does not begin with system:node:",
            ),
        ] {
            assert_eq!(checked(change), expected);
        }
    }

    #[test]
    fn a_kubelet_needs_all_usages_but_key_encipherment() {
        let serving =
            |usages: &[&str]| checked(KUBELET_SERVING, usages, |one| one.dns_names = texts(&["a"]));
        let client = |usages: &[&str]| checked(KUBELET_CLIENT, usages, |_| {});
        assert_eq!(serving(&["server auth", "digital signature"]), "ok");
        assert_eq!(
            client(&["digital signature", "client auth", "client auth"]),
            "ok"
        );
        for usages in [
            &[][..],
            &["digital signature"],
            &[
                "digital signature",
                "key encipherment",
                "client auth",
                "server auth",
            ],
        ] {
            assert_eq!(
                serving(usages),
                "usages did not match [digital signature key encipherment server auth]"
            );
            assert_eq!(
                client(usages),
                "usages did not match [client auth digital signature key encipherment]"
            );
        }
    }

    #[test]
    fn the_first_broken_rule_is_told() {
        let all_wrong = |one: &mut Requested| {
            one.subject.common_name = "a".into();
            one.uris = texts(&["a:b"]);
            one.dns_names = texts(&["a"]);
        };
        assert_eq!(
            checked(KUBELET_SERVING, &[], all_wrong),
            "URI subjectAltNames are not allowed"
        );
        let wrong_name = |one: &mut Requested| {
            one.subject.common_name = "a".into();
            one.dns_names = texts(&["a"]);
        };
        // Usages come before the name for servers, and after it for clients.
        let serving = checked(KUBELET_SERVING, &[], wrong_name);
        assert!(serving.starts_with("usages did not match"), "{serving}");
        let client = checked(KUBELET_CLIENT, &[], |one| one.subject.common_name.clear());
        assert_eq!(
            client,
            "subject common name does not begin with system:node:"
        );
    }

    #[test]
    fn a_client_needs_client_auth_and_nothing_for_servers() {
        let client = |usages: &[&str]| checked(CLIENT, usages, |one| *one = Requested::default());
        assert_eq!(client(&["client auth"]), "ok");
        assert_eq!(client(&CLIENT_USAGES), "ok");
        assert_eq!(
            client(&["digital signature"]),
            "missing required usage for client certificate: client auth"
        );
        assert_eq!(
            client(&[]),
            "missing required usage for client certificate: client auth"
        );
        assert_eq!(
            client(&["client auth", "server auth", "any"]),
            "invalid usage for client certificate: server auth"
        );
    }

    #[test]
    fn the_legacy_signer_has_no_rules() {
        assert_eq!(
            checked(LEGACY, &["cert sign"], |one| *one = Requested::default()),
            "ok"
        );
    }
}
