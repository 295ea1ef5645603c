//! certificatesigningrequest-approving-controller: approves the client certificates that kubelets request.
//!
//! [`recognize`] finds the requests of kubelets. Such a request is approved if its user may create the subresource
//! `selfnodeclient` or `nodeclient` of CertificateSigningRequests. The controller creates a SubjectAccessReview to find
//! out. Nodes that join a cluster share the user of a bootstrap token, so a permission is reused for [`REUSE`]. The API
//! server itself learns of changed roles by a watch, so even there a withdrawn permission does not end at once.
//!
//! Upstream: pkg/controller/certificates/approver/sarapprove.go: NewCSRApprovingController, handle, authorize,
//! appendApprovalCondition.
//! Upstream: pkg/controller/certificates/certificate_controller.go: NewCertificateController, syncFunc.
//! Upstream: pkg/apis/certificates/v1/helpers.go: ParseCSR.

pub mod recognize;
pub mod views;

use std::time::Duration;

use flyball_pkcs10::Requested;
use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;

use recognize::Recognized;
use views::Csr;

const REVIEW: &str = "authorization.k8s.io/v1/SubjectAccessReview";
/// The backoff after the first failure.
const BASE_DELAY_MS: u32 = 200;
/// How long a permission is reused after a review. A denial is never remembered.
pub const REUSE: Duration = Duration::from_secs(1);

/// The controller. Keys name CertificateSigningRequests.
pub struct Approver;

export!(Approver);

impl Controller for Approver {
    fn describe() -> Description {
        describe(
            "certificatesigningrequest-approving-controller",
            env!("CARGO_PKG_VERSION"),
        )
        // The whole object, from which the host builds the approval.
        .watch(
            watch::<Csr>().fields(&["."]).enqueue(
                Mapping::itself()
                    .on([DeltaType::Added, DeltaType::Modified])
                    // Must agree with `Csr::is_decided`.
                    .unless("status.certificate")
                    .unless_having("status.conditions[*].type", "Approved")
                    .unless_having("status.conditions[*].type", "Denied"),
            ),
        )
        .queue_with(Queue {
            base_delay_ms: BASE_DELAY_MS,
            ..queue("certificate")
        })
        .permission(REVIEW, ["create"])
        .permission_on(Csr::KIND, "approval", ["update"])
        .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(csr) = host.get_by_key::<Csr>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        if csr.is_decided() {
            return Ok(Outcome::Done);
        }
        let requested = Requested::parse(&csr.request)
            .map_err(|error| Error::failed(format!("can't parse {}: {error}", csr.meta.name)))?;
        let recognized = recognize::all(&csr, &requested);
        for one in &recognized {
            if is_permitted(host, &csr, one)? {
                approve(host, &csr, one)?;
                return Ok(Outcome::Done);
            }
        }
        if recognized.is_empty() {
            return Ok(Outcome::Done);
        }
        // The permission may be granted later.
        let names: Vec<_> = recognized.iter().map(|one| one.subresource).collect();
        Err(Error::failed(format!(
            "{} is a request for {}, but its user {:?} has no permission for that",
            csr.meta.name,
            names.join(" and "),
            csr.username
        )))
    }
}

/// Whether the user of a request has the permission to get the recognized certificate.
fn is_permitted(host: &Host, csr: &Csr, recognized: &Recognized) -> Result<bool, Error> {
    let spec = json!({
        "user": csr.username,
        "uid": csr.uid,
        "groups": csr.groups,
        "extra": csr.extra,
        "resourceAttributes": {
            "group": "certificates.k8s.io",
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": recognized.subresource,
            "verb": "create",
        },
    });
    let key = spec.to_string();
    if host.memo().get::<bool>(&key).is_some() {
        return Ok(true);
    }
    let is_permitted = review(host, &spec)?;
    if is_permitted {
        // If the memo is full, the next request is reviewed, too.
        let _ = host.memo().put(&key, &true, "", REUSE);
    }
    Ok(is_permitted)
}

/// Creates a SubjectAccessReview, and returns whether it is allowed.
fn review(host: &Host, spec: &Value) -> Result<bool, Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    });
    let write = Write::create(REVIEW, "", &review).returning(&["status.allowed"]);
    let answer: Value = host.write(write)?.parse()?;
    Ok(answer["status"]["allowed"] == true)
}

/// Adds the condition `Approved`.
fn approve(host: &Host, csr: &Csr, recognized: &Recognized) -> Result<(), Error> {
    let mut conditions = csr.conditions.clone();
    conditions.push(
        json!({"type": "Approved", "status": "True", "reason": "AutoApproved",
                           "message": recognized.message}),
    );
    let change = json!({"status": {"conditions": conditions}});
    host.write(Write::update(Csr::KIND, &csr.meta, &change).on("approval"))
        .doing(|| format!("approving {}", csr.meta.name))?;
    Ok(())
}
