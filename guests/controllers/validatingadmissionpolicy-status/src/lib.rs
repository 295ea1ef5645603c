//! validatingadmissionpolicy-status-controller: checks the types of ValidatingAdmissionPolicies.
//!
//! The API server checks the expressions of a policy without the types of the objects that it matches. This controller
//! checks them against the schemas of these objects, and of the parameters, and writes what it finds into the status. A
//! warning never changes what the policy does.
//!
//! The steps are: [`kinds`] finds the kinds that the policy matches, [`schemas`] reads their schemas, which [`declare`]
//! turns into types, and [`check`] checks the expressions.
//!
//! Upstream: pkg/controller/validatingadmissionpolicystatus/controller.go: NewController, enqueuePolicy, reconcile.

pub mod check;
pub mod declare;
mod escape;
pub mod kinds;
mod known;
pub mod policy;
pub mod schemas;
mod served;

use flyball_sdk::prelude::*;

use check::Warning;
use kinds::GroupVersionKind;
use policy::Policy;
use schemas::Schemas;

/// The queue, and the owner of the status among the field managers.
const NAME: &str = "validatingadmissionpolicy-status";

/// The controller. Keys are names of policies.
pub struct PolicyStatus;

export!(PolicyStatus);

impl Controller for PolicyStatus {
    fn describe() -> Description {
        let changed = Mapping::itself().on([DeltaType::Added, DeltaType::Modified]);
        describe(
            "validatingadmissionpolicy-status-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Policy>()
                .when(Change::Generation)
                .when_at(&["status.observedGeneration"])
                .enqueue(changed),
        )
        .queue(NAME)
        .import("discovery")
        .import("raw")
        .permission_on(Policy::KIND, "status", ["patch"])
        .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(policy) = host.get::<Policy>("", &request.key.name)? else {
            return Ok(Outcome::Done);
        };
        if policy.meta.generation <= policy.observed_generation {
            return Ok(Outcome::Done);
        }
        let warnings = warnings(host, &policy, request.attempt)?;
        host.write(status(&policy, &warnings)).found()?;
        Ok(Outcome::Done)
    }
}

/// Checks a policy.
fn warnings(host: &Host, policy: &Policy, attempt: u32) -> Result<Vec<Warning>, Error> {
    let matched = if policy.rules.is_empty() {
        Vec::new()
    } else {
        kinds::matched(&policy.rules, &served::of_rules(host, &policy.rules)?)
    };
    let parameters = policy
        .parameters
        .as_ref()
        .and_then(GroupVersionKind::of_parameters);
    let mut schemas = Schemas::new(host, attempt);
    let mut checks = Vec::new();
    for kind in matched {
        // A kind without a schema is not checked.
        if let Some(schema) = schemas.get(&kind)? {
            checks.push((kind, schema));
        }
    }
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    let parameters = match parameters {
        Some(kind) => Some((schemas.get(&kind)?, kind)),
        None => None,
    };
    Ok(check::policy(
        policy,
        &checks,
        parameters.as_ref(),
        host.now(),
    ))
}

/// The write of a policy's status. Without warnings, `typeChecking` is empty.
fn status(policy: &Policy, warnings: &[Warning]) -> Write {
    let mut checked = json!({});
    if !warnings.is_empty() {
        checked["expressionWarnings"] = json!(warnings);
    }
    let name = &policy.meta.name;
    let applied = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "status": {"observedGeneration": policy.meta.generation, "typeChecking": checked},
    });
    Write::patch(Policy::KIND, "", name, PatchType::Apply, &applied)
        .on("status")
        .field_manager(NAME)
        .force()
}
