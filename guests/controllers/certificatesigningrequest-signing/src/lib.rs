//! certificatesigningrequest-signing-controller: signs approved CertificateSigningRequests of four signers of
//! Kubernetes.
//!
//! A request is signed once it is approved, and neither denied nor failed. Each signer has rules for subjects,
//! alternative names and usages ([`signers`]); a request that breaks them gets the condition `Failed`. The host holds
//! the authority of each signer and signs: no key is in the guest. Requests of signers for which it holds no authority
//! are left alone.
//!
//! `flyball-pkcs10` reads the PKCS#10 document, [`usages`] translates the usages of the API, [`validity`] decides how
//! long a certificate is valid.
//!
//! Upstream: pkg/controller/certificates/signer/signer.go: NewCSRSigningController, handle, sign.
//! Upstream: pkg/controller/certificates/certificate_controller_utils.go: IsCertificateRequestApproved,
//! HasTrueCondition.
//! Upstream: pkg/controller/certificates/certificate_controller.go: NewCertificateController, syncFunc.

pub mod signers;
pub mod usages;
pub mod validity;

use std::time::Duration;

use flyball_pkcs10::Requested;
use flyball_sdk::base64;
use flyball_sdk::certificate::{CertificateTemplate, SubjectKey};
use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::{duration, prelude::*};

use signers::SIGNERS;

/// The configuration key of the longest time that a certificate is valid.
pub const DURATION: &str = "duration";

/// The backoff after the first failure.
const BASE_DELAY_MS: u32 = 200;
/// The number of requests that are reconciled at once for each signer, as in kube-controller-manager.
const CONCURRENCY_OF_SIGNER: u32 = 5;
/// The reason of the condition `Failed`.
const VALIDATION_FAILURE: &str = "SignerValidationFailure";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "certificates.k8s.io/v1/CertificateSigningRequest")]
struct SigningRequest {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    #[view(path = "spec.signerName")]
    signer: String,
    /// A PKCS#10 document in PEM, in base64.
    #[view(path = "spec.request")]
    request: String,
    #[view(path = "spec.usages")]
    usages: Vec<String>,
    #[view(path = "spec.expirationSeconds")]
    expiration_seconds: Option<i64>,
    #[view(path = "status.conditions")]
    conditions: Vec<Condition>,
    #[view(path = "status.certificate")]
    certificate: String,
}

/// The controller. Keys name CertificateSigningRequests.
pub struct Signing;

export!(Signing);

impl Controller for Signing {
    fn describe() -> Description {
        describe(
            "certificatesigningrequest-signing-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<SigningRequest>()
                // For the update of the status.
                .fields(&["metadata"])
                .enqueue(
                    Mapping::itself()
                        .on([DeltaType::Added, DeltaType::Modified])
                        .having("status.conditions[*].type", "Approved")
                        .unless("status.certificate"),
                ),
        )
        .queue_with(Queue {
            base_delay_ms: BASE_DELAY_MS,
            ..queue("certificate")
        })
        .permission_on(SigningRequest::KIND, "status", ["update"])
        .import("signer")
        .config(
            DURATION,
            Some("8760h0m0s"),
            "How long a certificate is valid at most. A request may ask for less.",
        )
        .concurrency(SIGNERS.len() as u32 * CONCURRENCY_OF_SIGNER)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if let Some(csr) = host.get_by_key::<SigningRequest>(&request.key)?
            && csr.is_due()
        {
            handle(host, &csr)?;
        }
        Ok(Outcome::Done)
    }
}

/// Signs or refuses a request that is due. If the host doesn't hold the authority of its signer, the request is left
/// alone, even if it is invalid.
fn handle(host: &Host, csr: &SigningRequest) -> Result<(), Error> {
    let reason = match Requested::parse(&csr.request) {
        Ok(requested) => match signers::validate(&csr.signer, &requested, &csr.usages) {
            Ok(()) => return sign(host, csr, &requested),
            Err(reason) => Ok(reason),
        },
        Err(error) => Err(Error::failed(format!("can't parse the request: {error}"))),
    };
    if !has_authority(host, &csr.signer)? {
        return Ok(());
    }
    refuse(host, csr, &reason?)
}

impl SigningRequest {
    /// Whether the request is approved, neither denied nor failed, and not signed yet. Only `Failed` must have the
    /// status `True`: as in kube-controller-manager, the other conditions count if they exist, and an empty status
    /// means `True`.
    fn is_due(&self) -> bool {
        let has = |name| self.conditions.iter().any(|one| one.condition_type == name);
        let mut failures = self.conditions.iter();
        let has_failed = failures.any(|one| {
            one.condition_type == "Failed" && matches!(one.status.as_str(), "" | "True")
        });
        self.certificate.is_empty()
            && has("Approved")
            && !has("Denied")
            && !has_failed
            && SIGNERS.contains(&self.signer.as_str())
    }
}

/// Whether the host holds the authority of a signer.
fn has_authority(host: &Host, signer: &str) -> Result<bool, Error> {
    let authority = host.certificate_authority(signer).found()?;
    Ok(authority.is_some())
}

/// Signs a request, and writes the certificate into its status. Does nothing if the host doesn't hold the authority.
/// The signing call itself reports that, so no extra call is made.
fn sign(host: &Host, csr: &SigningRequest, requested: &Requested) -> Result<(), Error> {
    let template = template(csr, requested, host.now(), longest(host)?)?;
    let signed = host.sign_certificate(&csr.signer, &template).found();
    let Some(certificate) = signed.doing(|| format!("signing {}", csr.meta.name))? else {
        return Ok(());
    };
    let line_feeds = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    let pem = pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate), line_feeds);
    let status = json!({
        "conditions": csr.conditions,
        "certificate": base64::encode(pem.as_bytes()),
    });
    update_status(host, csr, &status)
}

/// Marks a request as failed, for a reason that no retry changes.
fn refuse(host: &Host, csr: &SigningRequest, reason: &str) -> Result<(), Error> {
    let mut conditions = csr.conditions.clone();
    conditions.push(Condition {
        last_update_time: Some(host.now()),
        ..Condition::new("Failed", "True", VALIDATION_FAILURE, reason)
    });
    update_status(host, csr, &json!({"conditions": conditions}))
}

fn update_status(host: &Host, csr: &SigningRequest, status: &Value) -> Result<(), Error> {
    host.update_status(SigningRequest::KIND, &csr.meta, status)
        .doing(|| format!("updating the status of {}", csr.meta.name))?;
    Ok(())
}

/// Returns the certificate to sign: it has the names of the PKCS#10 request, and the usages and the validity of the
/// object. Other extensions that the request asks for are left out.
fn template(
    csr: &SigningRequest,
    requested: &Requested,
    now: Time,
    longest: Duration,
) -> Result<CertificateTemplate, Error> {
    let (key_usages, extended_key_usages) =
        usages::translate(&csr.usages).map_err(Error::failed)?;
    let (not_before, not_after) =
        validity::of(now, validity::duration(csr.expiration_seconds, longest));
    Ok(CertificateTemplate {
        key: SubjectKey::Request(requested.der.clone()),
        subject: requested.subject.relative_names(),
        dns_names: requested.dns_names.clone(),
        email_addresses: requested.email_addresses.clone(),
        ip_addresses: requested.ip_addresses.clone(),
        uris: requested.uris.clone(),
        key_usages,
        extended_key_usages,
        not_before,
        not_after,
    })
}

/// The longest time that a certificate is valid.
fn longest(host: &Host) -> Result<Duration, Error> {
    let text = host.config(DURATION).unwrap_or_default();
    duration::parse(&text)
        .map_err(|error| Error::terminal(format!("invalid duration `{text}`: {error}")))
}

#[cfg(test)]
mod tests;
