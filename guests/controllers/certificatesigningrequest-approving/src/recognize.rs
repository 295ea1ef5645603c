//! Recognizes the requests of kubelets for client certificates.
//!
//! Upstream: pkg/controller/certificates/approver/sarapprove.go: recognizers, isNodeClientCert, isSelfNodeClientCert.
//! Upstream: pkg/apis/certificates/helpers.go: IsKubeletClientCSR, ValidateKubeletClientCSR.

use std::collections::BTreeSet;

use flyball_pkcs10::Requested;

use crate::views::Csr;

/// The signer of kubelets' client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The organization of all nodes.
const NODES: &str = "system:nodes";
/// The prefix of the common name of a node.
const NODE: &str = "system:node:";
/// The usages of a client certificate. Keys that can't encipher lack `key encipherment`.
const USAGES: [&str; 2] = ["client auth", "digital signature"];
const KEY_ENCIPHERMENT: &str = "key encipherment";

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognized {
    /// The subresource of CertificateSigningRequests that the request's user must be permitted to create.
    pub subresource: &'static str,
    /// The message of the approval.
    pub message: &'static str,
}

/// A node's request to renew its own certificate.
pub const SELF_NODE: Recognized = Recognized {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
/// A request for any node's certificate, such as the first one of a node.
pub const NODE_CLIENT: Recognized = Recognized {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// Returns the kinds of certificates that a request matches, in the order in which they are tried.
pub fn all(csr: &Csr, requested: &Requested) -> Vec<Recognized> {
    if csr.signer != SIGNER || !is_kubelet_client(csr, requested) {
        return Vec::new();
    }
    let is_own = csr.username == requested.subject.common_name;
    let own = is_own.then_some(SELF_NODE);
    own.into_iter().chain([NODE_CLIENT]).collect()
}

/// Whether a certificate is requested for a kubelet as a client.
fn is_kubelet_client(csr: &Csr, requested: &Requested) -> bool {
    let mut usages: BTreeSet<&str> = csr.usages.iter().map(String::as_str).collect();
    usages.remove(KEY_ENCIPHERMENT);
    requested.subject.organizations == [NODES]
        && requested.subject.common_name.starts_with(NODE)
        && !requested.has_alternative_names()
        && usages == BTreeSet::from(USAGES)
}

#[cfg(test)]
mod tests {
    use flyball_pkcs10::Subject;

    use super::*;

    fn requested() -> Requested {
        Requested {
            subject: Subject {
                common_name: "system:node:a".into(),
                organizations: vec!["system:nodes".into()],
                ..Subject::default()
            },
            ..Requested::default()
        }
    }

    fn csr(username: &str) -> Csr {
        Csr {
            signer: SIGNER.into(),
            username: username.into(),
            usages: USAGES.map(str::to_owned).to_vec(),
            ..Csr::default()
        }
    }

    #[test]
    fn a_node_asks_for_its_own_certificate_and_others_for_a_nodes() {
        assert_eq!(
            all(&csr("system:node:a"), &requested()),
            [SELF_NODE, NODE_CLIENT]
        );
        for username in ["system:node:b", "system:bootstrap:abcdef", ""] {
            assert_eq!(all(&csr(username), &requested()), [NODE_CLIENT]);
        }
    }

    #[test]
    fn other_signers_are_not_recognized() {
        for signer in [
            "kubernetes.io/kube-apiserver-client",
            "kubernetes.io/kubelet-serving",
            "kubernetes.io/legacy-unknown",
            "",
        ] {
            let csr = Csr {
                signer: signer.into(),
                ..csr("system:node:a")
            };
            assert_eq!(all(&csr, &requested()), [], "{signer}");
        }
    }

    #[test]
    fn other_subjects_are_not_recognized() {
        let change = |change: &dyn Fn(&mut Requested)| {
            let mut requested = requested();
            change(&mut requested);
            all(&csr("system:node:a"), &requested)
        };
        assert_eq!(change(&|one| one.dns_names.push("a".into())), []);
        assert_eq!(change(&|one| one.email_addresses.push("a@b".into())), []);
        assert_eq!(change(&|one| one.ip_addresses.push("10.0.0.1".into())), []);
        assert_eq!(change(&|one| one.uris.push("spiffe://a".into())), []);
        let change = |edit: &dyn Fn(&mut Subject)| change(&|one| edit(&mut one.subject));
        assert_eq!(change(&|one| one.organizations.clear()), []);
        assert_eq!(change(&|one| one.organizations = vec!["nodes".into()]), []);
        assert_eq!(
            change(&|one| one.organizations.push("system:masters".into())),
            []
        );
        assert_eq!(change(&|one| one.organizations.push(NODES.into())), []);
        assert_eq!(change(&|one| one.common_name = "a".into()), []);
        assert_eq!(change(&|one| one.common_name = String::new()), []);
        // As in Kubernetes, the name of the node may be empty.
        assert_eq!(
            change(&|one| one.common_name = "system:node:".into()),
            [NODE_CLIENT]
        );
    }

    #[test]
    fn exactly_the_usages_of_a_client_are_recognized() {
        let recognized = |usages: &[&str]| {
            let csr = Csr {
                usages: usages.iter().map(|&usage| usage.to_owned()).collect(),
                ..csr("")
            };
            !all(&csr, &requested()).is_empty()
        };
        assert!(recognized(&["digital signature", "client auth"]));
        assert!(recognized(&[
            "client auth",
            "key encipherment",
            "digital signature",
            "client auth"
        ]));
        assert!(!recognized(&[]));
        assert!(!recognized(&["client auth"]));
        assert!(!recognized(&["digital signature", "key encipherment"]));
        assert!(!recognized(&["digital signature", "server auth"]));
        assert!(!recognized(&[
            "digital signature",
            "client auth",
            "server auth"
        ]));
    }
}
