//! The view of a CertificateSigningRequest.
//!
//! Upstream: pkg/controller/certificates/certificate_controller_utils.go: GetCertApprovalCondition.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

/// A CertificateSigningRequest.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "certificates.k8s.io/v1/CertificateSigningRequest")]
pub struct Csr {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    /// PEM, in base64.
    #[view(path = "spec.request")]
    pub request: String,
    #[view(path = "spec.signerName")]
    pub signer: String,
    #[view(path = "spec.usages")]
    pub usages: Vec<String>,
    /// The user who created it.
    #[view(path = "spec.username")]
    pub username: String,
    #[view(path = "spec.uid")]
    pub uid: String,
    #[view(path = "spec.groups")]
    pub groups: Vec<String>,
    #[view(path = "spec.extra")]
    pub extra: BTreeMap<String, Vec<String>>,
    /// PEM, in base64; empty until it is signed.
    #[view(path = "status.certificate")]
    pub certificate: String,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Value>,
}

impl Csr {
    /// Whether the request is signed, approved or denied.
    pub fn is_decided(&self) -> bool {
        let decides = |condition: &Value| {
            ["Approved", "Denied"]
                .iter()
                .any(|one| condition["type"] == *one)
        };
        !self.certificate.is_empty() || self.conditions.iter().any(decides)
    }
}
