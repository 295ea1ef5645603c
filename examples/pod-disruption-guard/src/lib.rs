//! Creates PodDisruptionBudgets for Deployments that lack one, so that a drain of nodes does not stop all pods at once.
//!
//! A Deployment with at least two replicas gets the budget `NAME-guard`, which lets one pod be evicted at a time. The
//! budget is deleted with the Deployment, when the Deployment has fewer replicas, and when another client's budget
//! selects its pods, because the API server refuses to evict a pod of two budgets.

mod plan;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

pub use plan::{Plan, Step, plan};

/// The annotation of a Deployment that is left alone.
pub const IGNORE: &str = "pod-disruption-guard.flyball.dev/ignore";
/// The label of the objects that the plugin has created, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pod-disruption-guard");

const MAX_UNAVAILABLE: &str = "max-unavailable";
/// The number of writes that are run at once.
const BATCH: usize = 100;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Deployment {
    #[view(
        path = "metadata",
        fields(
            "deletionTimestamp",
            "annotations['pod-disruption-guard.flyball.dev/ignore']"
        )
    )]
    pub meta: Meta,
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
    #[view(path = "spec.selector")]
    pub selector: Value,
    #[view(path = "spec.template.metadata.labels")]
    pub labels: LabelSet,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "policy/v1/PodDisruptionBudget")]
pub struct Budget {
    #[view(
        path = "metadata",
        fields(
            "deletionTimestamp",
            "labels['app.kubernetes.io/managed-by']",
            "ownerReferences"
        )
    )]
    pub meta: Meta,
    #[view(path = "spec")]
    pub spec: Value,
}

/// The controller. Keys name namespaces, because a budget may concern any Deployment in its own.
pub struct Guard;

export!(Guard);

impl Controller for Guard {
    fn describe() -> Description {
        let deployments = watch::<Deployment>()
            // The status is left out, because it changes more often.
            .when_at(&[
                "metadata.deletionTimestamp",
                "metadata.annotations['pod-disruption-guard.flyball.dev/ignore']",
                "spec.replicas",
                "spec.selector",
                "spec.template.metadata.labels",
            ])
            .enqueue(Mapping::namespace());
        let budgets = watch::<Budget>()
            .when_at(&[
                "metadata.deletionTimestamp",
                "metadata.labels['app.kubernetes.io/managed-by']",
                "metadata.ownerReferences",
                "spec",
            ])
            .enqueue(Mapping::namespace());
        describe("pod-disruption-guard", env!("CARGO_PKG_VERSION"))
            .watch(deployments)
            .watch(budgets)
            .queue("pod-disruption-guard")
            .config(
                MAX_UNAVAILABLE,
                Some("1"),
                "Pods of a Deployment that may be evicted at once: a number, or a percentage such as 25%",
            )
            .permission(Budget::KIND, ["create", "patch", "delete"])
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let namespace = &request.key.name;
        let deployments = host.list::<Deployment>().namespace(namespace).all()?;
        let budgets = host.list::<Budget>().namespace(namespace).all()?;
        let Plan { steps, taken } = plan(&deployments, &budgets, &max_unavailable(host)?);
        for (deployment, name) in taken {
            let message = format!(
                "the budget {name} exists, is not controlled by this Deployment, and does not select its pods"
            );
            warn(host, deployment, &message);
        }
        let failures: Vec<Error> = steps
            .chunks(BATCH)
            .flat_map(|steps| run(host, namespace, steps))
            .collect();
        Error::join(failures).map_or(Ok(Outcome::Done), Err)
    }
}

/// Returns the setting, as a budget has it.
fn max_unavailable(host: &Host) -> Result<Value, Error> {
    let text = host.config(MAX_UNAVAILABLE).unwrap_or_else(|| "1".into());
    let digits = text.strip_suffix('%').unwrap_or(&text);
    match digits.parse::<u16>() {
        Ok(_) if digits != text => Ok(text.into()),
        Ok(number) => Ok(number.into()),
        Err(_) => Err(Error::invalid_config(MAX_UNAVAILABLE, &text)),
    }
}

/// Runs some steps, and returns the failures. A failure doesn't prevent the other steps.
fn run(host: &Host, namespace: &str, steps: &[Step]) -> Vec<Error> {
    let writes = steps.iter().map(|step| (step, step.write(namespace)));
    let mut failures = Vec::new();
    for (step, result) in host.tagged_batch().extend(writes).run() {
        match result {
            Ok(_) => {
                info!(host, "{step}");
                if let Some(deployment) = step.deployment() {
                    let about = deployment.meta.reference(Deployment::KIND);
                    host.emit(Event::normal(&about, step.reason(), &step.to_string()));
                }
            }
            Err(error) if step.is_settled_by(&error) => {}
            failed => {
                let failed = failed.doing(|| format!("can't write the budget {}", step.name()));
                failures.extend(failed.err());
            }
        }
    }
    failures
}

/// Emits a warning about a Deployment, which is not repeated for an hour.
fn warn(host: &Host, deployment: &Deployment, message: &str) {
    let about = deployment.meta.reference(Deployment::KIND);
    host.emit(Event::warning(&about, "NameTaken", message).once());
}
