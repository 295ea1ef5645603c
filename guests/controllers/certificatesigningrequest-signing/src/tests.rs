//! The whole controller on a fake cluster. Reads requests that OpenSSL made.

use flyball_sdk::certificate::{Attribute, KeyUsages};
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};

use super::*;

const SERVING: &str = "kubernetes.io/kubelet-serving";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const STATUS: &str = "update certificates.k8s.io/v1/CertificateSigningRequest/status csr";

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../lib/pkcs10/testdata/",
            $name,
            ".pem"
        ))
    };
}

/// An approved request.
fn csr(signer: &str, pem: &str, usages: &[&str]) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr"},
        "spec": {"signerName": signer, "request": base64::encode(pem.as_bytes()), "usages": usages},
        "status": {"conditions": [{
            "type": "Approved", "status": "True", "reason": "ByTest", "message": "yes",
            "lastUpdateTime": "2025-12-31T00:00:00Z", "lastTransitionTime": "2025-12-31T00:00:00Z",
        }]},
    })
}

fn user() -> Value {
    csr(CLIENT, file!("user"), &["client auth", "digital signature"])
}

/// A cluster with this request, whose host holds all authorities.
fn cluster(csr: Value) -> Cluster {
    let cluster = Cluster::with([csr]);
    SIGNERS
        .iter()
        .for_each(|signer| cluster.add_authority(signer));
    cluster
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Signing>("csr")
}

fn status(cluster: &Cluster) -> Value {
    let csr = cluster
        .object(SigningRequest::KIND, "", "csr")
        .expect("it is there");
    csr["status"].clone()
}

/// The certificate that a request leads to.
fn signed(csr: Value) -> CertificateTemplate {
    let cluster = cluster(csr);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [STATUS]);
    let (_, template) = cluster.certificates().pop().expect("it was signed");
    template
}

/// The message with which a request fails.
fn failed(csr: Value) -> String {
    let cluster = cluster(csr);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [STATUS]);
    assert!(cluster.certificates().is_empty());
    let status = status(&cluster);
    assert_eq!(status["certificate"], Value::Null);
    let failed = status["conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(failed["type"], "Failed");
    assert_eq!(failed["status"], "True");
    assert_eq!(failed["reason"], "SignerValidationFailure");
    assert_eq!(failed["lastUpdateTime"], "2026-01-01T00:00:00Z");
    failed["message"].as_str().unwrap().to_owned()
}

fn is_left_alone(csr: Value) -> bool {
    let cluster = cluster(csr);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    cluster.written().is_empty() && cluster.certificates().is_empty()
}

fn add_condition(csr: &mut Value, condition: Value) {
    csr["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
}

#[test]
fn an_approved_request_is_signed_and_its_conditions_stay() {
    let cluster = cluster(user());
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [STATUS]);
    let status = status(&cluster);
    let pem = "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgMA==\n-----END CERTIFICATE-----\n";
    assert_eq!(status["certificate"], base64::encode(pem.as_bytes()));
    assert_eq!(status["conditions"], user()["status"]["conditions"]);
    assert_eq!(cluster.certificates()[0].0, CLIENT);
    assert_eq!(cluster.events(), [""; 0]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0], "once");
}

#[test]
fn a_certificate_has_the_names_of_the_request_and_the_usages_of_the_object() {
    let template = signed(csr(
        SERVING,
        file!("node-serving"),
        &["server auth", "digital signature", "key encipherment"],
    ));
    let request = pem::parse(file!("node-serving")).unwrap().into_contents();
    assert_eq!(template.key, SubjectKey::Request(request));
    assert_eq!(template.dns_names, ["a", "a.example.com"]);
    assert_eq!(template.ip_addresses, ["10.0.0.1", "fd00::1"]);
    let usages = KeyUsages::DIGITAL_SIGNATURE | KeyUsages::KEY_ENCIPHERMENT;
    assert_eq!(template.key_usages, usages);
    assert_eq!(template.extended_key_usages, ["1.3.6.1.5.5.7.3.1"]);
    assert_eq!(
        template.subject,
        [
            vec![Attribute::new(Attribute::ORGANIZATION, "system:nodes")],
            vec![Attribute::new(Attribute::COMMON_NAME, "system:node:a")],
        ]
    );
}

#[test]
fn the_extensions_that_a_request_asks_for_are_left_out_except_for_its_names() {
    let template = signed(csr(LEGACY, file!("latin"), &["any"]));
    assert_eq!(template.dns_names, ["ca.example.com"]);
    assert_eq!(template.key_usages, KeyUsages::default());
    assert_eq!(template.extended_key_usages, ["2.5.29.37.0"]);
}

#[test]
fn the_validity_follows_the_request_and_the_operator() {
    let validity = |seconds: Value, longest: &str| {
        let mut csr = user();
        csr["spec"]["expirationSeconds"] = seconds;
        let cluster = cluster(csr);
        if !longest.is_empty() {
            cluster.set_config(DURATION, longest);
        }
        reconcile(&cluster).unwrap();
        let template = cluster.certificates().pop().unwrap().1;
        let now = cluster.host().now().seconds;
        assert_eq!(now - template.not_before.seconds, 300);
        template.not_after.seconds - now
    };
    assert_eq!(validity(Value::Null, ""), 365 * 86_400 - 300);
    assert_eq!(validity(Value::Null, "1h"), 3600);
    assert_eq!(validity(json!(7200), "24h"), 7200);
    assert_eq!(validity(json!(7200), "1h"), 3600);
    assert_eq!(validity(json!(600), ""), 600);
}

#[test]
fn what_is_not_approved_or_decided_otherwise_is_left_alone() {
    let mut new = user();
    new["status"] = json!({});
    assert!(is_left_alone(new));
    let mut denied = user();
    add_condition(&mut denied, json!({"type": "Denied", "status": "True"}));
    assert!(is_left_alone(denied));
    for state in ["True", ""] {
        let mut failed = user();
        add_condition(&mut failed, json!({"type": "Failed", "status": state}));
        assert!(is_left_alone(failed), "{state:?}");
    }
    let mut issued = user();
    issued["status"]["certificate"] = "YQ==".into();
    assert!(is_left_alone(issued));
    assert!(is_left_alone(csr(
        "example.com/a",
        file!("user"),
        &["client auth"]
    )));
    let cluster = Cluster::new();
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

/// As in kube-controller-manager, the status of these conditions does not count.
#[test]
fn an_approval_counts_whatever_its_status_and_a_failure_only_if_it_is_true() {
    let mut csr = user();
    set_at(&mut csr, "/status/conditions/0/status", "False");
    add_condition(&mut csr, json!({"type": "Failed", "status": "False"}));
    signed(csr);
    let mut denied = user();
    add_condition(&mut denied, json!({"type": "Denied", "status": "False"}));
    assert!(is_left_alone(denied));
}

#[test]
fn a_signer_without_an_authority_is_left_alone_even_if_the_request_breaks_its_rules() {
    let cluster = Cluster::with([csr(SERVING, file!("user"), &["any"])]);
    cluster.add_authority(CLIENT);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_request_that_breaks_the_rules_of_its_signer_fails_with_the_reason() {
    let node_client = "kubernetes.io/kube-apiserver-client-kubelet";
    let client_usages = ["client auth", "digital signature"];
    for (csr, message) in [
        (
            csr(CLIENT, file!("user"), &["server auth", "client auth"]),
            "invalid usage for client certificate: server auth",
        ),
        (
            csr(node_client, file!("user"), &client_usages),
            "subject organization is not system:nodes",
        ),
        (
            csr(node_client, file!("node-client-dns"), &client_usages),
            "DNS subjectAltNames are not allowed",
        ),
        (
            csr(
                SERVING,
                file!("node-client"),
                &["server auth", "digital signature"],
            ),
            "DNS or IP subjectAltName is required",
        ),
        (
            csr(node_client, file!("node-client"), &["client auth"]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ] {
        assert_eq!(failed(csr), message);
    }
    signed(csr(node_client, file!("node-client"), &client_usages));
    signed(csr(LEGACY, file!("empty"), &["cert sign", "crl sign"]));
}

#[test]
fn what_can_not_be_read_is_retried() {
    let message = |csr: Value| {
        let cluster = cluster(csr);
        let error = reconcile(&cluster).unwrap_err();
        assert!(!error.is_terminal() && cluster.written().is_empty());
        error.to_string()
    };
    let mut broken = user();
    broken["spec"]["request"] = "%".into();
    assert!(message(broken).contains("can't parse the request: it is not base64"));
    let other = csr(
        CLIENT,
        &file!("user").replace(" REQUEST", ""),
        &["client auth"],
    );
    assert!(message(other).contains("PEM block type must be CERTIFICATE REQUEST"));
    let unknown = csr(LEGACY, file!("user"), &["sealing"]);
    assert!(message(unknown).contains(r#"unrecognized usage values: ["sealing"]"#));
}

#[test]
fn errors_of_the_host_and_the_server_are_retried() {
    const STATUS: &str = "certificates.k8s.io/v1/CertificateSigningRequest/status";
    let refused = || csr(CLIENT, file!("user"), &["server auth"]);
    for (csr, verb, kind) in [
        (user(), "sign", CLIENT),
        (user(), "update", STATUS),
        (refused(), "authority", CLIENT),
        (refused(), "update", STATUS),
    ] {
        let is_signed = csr == user();
        let cluster = cluster(csr);
        cluster.fail(verb, kind, refusal(409, "Conflict"));
        assert!(!reconcile(&cluster).unwrap_err().is_terminal(), "{verb}");
        reconcile(&cluster).unwrap();
        assert_eq!(status(&cluster)["certificate"].is_string(), is_signed);
        let conditions = status(&cluster)["conditions"].to_string();
        assert_eq!(conditions.contains("SignerValidationFailure"), !is_signed);
    }
}

#[test]
fn an_invalid_duration_of_the_operator_is_terminal() {
    let cluster = cluster(user());
    cluster.set_config(DURATION, "soon");
    assert!(reconcile(&cluster).unwrap_err().is_terminal());
}

#[test]
fn it_asks_for_no_more_than_it_needs() {
    let description = Signing::describe();
    assert_eq!(
        permissions(&description),
        ["certificates.k8s.io/v1/CertificateSigningRequest status update"]
    );
    assert_eq!(description.queues[0].name, "certificate");
    assert_eq!(description.queues[0].base_delay_ms, 200);
    assert_eq!(description.concurrency, 20);
    assert_eq!(Vec::from_iter(&description.imports), ["signer"]);
}
