//! Requests of new nodes for certificates, which are approved and signed.

use std::time::Instant;

use anyhow::{Context, Result};
use flyball_differential::{Subject, api};
use k8s_openapi::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, Nodes, create_all, send_all};
use super::report::Figures;
use super::wait::wait;

const KIND: &str = "CertificateSigningRequest";
/// The user who requests the certificates, as a node that joins the cluster does.
const USER: &str = "system:bootstrap:abcdef";
/// The cluster roles that allow this user to create requests, and the controllers to approve them.
const ROLES: [&str; 2] = [
    "system:node-bootstrapper",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
];

/// Measures from the creation of this number of requests until all certificates are issued.
pub(super) async fn measure(subject: Subject, count: usize) -> Result<Figures> {
    let bed = Bed::on(subject, Nodes::NONE).await?;
    create_all(bed.client(), NAMESPACE, ROLES.into_iter().map(binding)).await?;
    let key = KeyPair::generate().context("can't generate a key")?;
    let requests = (0..count)
        .map(|number| request(number, &key))
        .collect::<Result<Vec<Value>>>()?;
    let groups = ["system:authenticated".to_owned()];
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let creations = requests
        .iter()
        .map(|request| api::create_as(bed.client(), USER, &groups, NAMESPACE, request));
    send_all(creations).await?;
    wait("all certificates are issued", async || {
        let requests = api::list(bed.client(), KIND, "").await?;
        let issued = requests
            .iter()
            .filter(|request| request["status"]["certificate"].is_string());
        Ok((issued.count(), count))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Gives the user a cluster role.
fn binding(role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

/// The request for the client certificate of a node.
fn request(number: usize, key: &KeyPair) -> Result<Value> {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:node-{number}"));
    let mut wanted = CertificateParams::default();
    wanted.distinguished_name = subject;
    let pem = wanted
        .serialize_request(key)
        .and_then(|request| request.pem())
        .context("can't write a request for a certificate")?;
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": KIND, "metadata": {"name": format!("node-{number}")},
        "spec": {"request": ByteString(pem.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                 "usages": ["digital signature", "client auth"]},
    }))
}
