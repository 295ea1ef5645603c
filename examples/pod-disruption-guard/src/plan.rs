//! Decides which budgets are to be created, corrected and deleted.

use std::collections::{HashMap, HashSet};
use std::fmt;

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;

use crate::{Budget, Deployment, IGNORE, MANAGED_BY};

/// The longest name of an object.
const LONGEST_NAME: usize = 253;
const SUFFIX: &str = "-guard";

/// The changes to make in a namespace.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    pub steps: Vec<Step<'a>>,
    /// The Deployments whose budget can't be created, because another one has its name.
    pub taken: Vec<(&'a Deployment, String)>,
}

/// A write, and why it is made.
#[derive(Debug)]
pub enum Step<'a> {
    Create {
        deployment: &'a Deployment,
        spec: Value,
    },
    Correct {
        deployment: &'a Deployment,
        budget: &'a Budget,
        spec: Value,
    },
    Delete {
        /// `None` if the Deployment was deleted.
        deployment: Option<&'a Deployment>,
        budget: &'a Budget,
        why: String,
    },
}

/// Plans for a namespace with these Deployments and budgets.
pub fn plan<'a>(
    deployments: &'a [Deployment],
    budgets: &'a [Budget],
    max_unavailable: &Value,
) -> Plan<'a> {
    let mut own: HashMap<&str, Vec<&Budget>> = HashMap::new();
    let mut others = Vec::new();
    for budget in budgets {
        match budget.owner() {
            Some(deployment) => own.entry(deployment).or_default().push(budget),
            None => others.push((budget, budget.selector())),
        }
    }
    let names: HashSet<&str> = budgets
        .iter()
        .map(|budget| budget.meta.name.as_str())
        .collect();
    let mut plan = Plan::default();
    for deployment in deployments {
        let mut found = own
            .remove(deployment.meta.uid.as_str())
            .unwrap_or_default()
            .into_iter();
        let kept = match deployment.needs_none(&others) {
            Some(why) => {
                plan.delete(Some(deployment), found.by_ref(), &why);
                continue;
            }
            None => found.next(),
        };
        // Somebody may have copied the budget.
        plan.delete(Some(deployment), found, "the Deployment has another one");
        let spec = json!({"maxUnavailable": max_unavailable, "selector": deployment.selector});
        match kept {
            // Its deletion enqueues the namespace.
            Some(budget) if budget.meta.is_deleting() || budget.spec == spec => {}
            Some(budget) => plan.steps.push(Step::Correct {
                deployment,
                budget,
                spec,
            }),
            None if names.contains(deployment.budget_name().as_str()) => {
                plan.taken.push((deployment, deployment.budget_name()));
            }
            None => plan.steps.push(Step::Create { deployment, spec }),
        }
    }
    let mut orphans: Vec<&Budget> = own.into_values().flatten().collect();
    orphans.sort_by(|one, other| one.meta.name.cmp(&other.meta.name));
    plan.delete(None, orphans.into_iter(), "its Deployment is gone");
    plan
}

impl<'a> Plan<'a> {
    fn delete(
        &mut self,
        deployment: Option<&'a Deployment>,
        budgets: impl Iterator<Item = &'a Budget>,
        why: &str,
    ) {
        let alive = budgets.filter(|budget| !budget.meta.is_deleting());
        self.steps.extend(alive.map(|budget| Step::Delete {
            deployment,
            budget,
            why: why.to_owned(),
        }));
    }
}

impl Deployment {
    /// Returns why the Deployment needs no budget of ours; `None` if it needs one.
    fn needs_none(&self, others: &[(&Budget, Selector)]) -> Option<String> {
        if self.meta.is_deleting() {
            return Some("its Deployment is being deleted".into());
        }
        if self.meta.annotation(IGNORE) == Some("true") {
            return Some(format!("its Deployment has the annotation {IGNORE}"));
        }
        if self.replicas.unwrap_or(1) < 2 {
            return Some("its Deployment has fewer than 2 replicas".into());
        }
        let selecting = others
            .iter()
            .find(|(_, selector)| selector.matches(&self.labels));
        selecting.map(|(budget, _)| format!("the budget {} selects its pods", budget.meta.name))
    }

    /// The name of its budget.
    fn budget_name(&self) -> String {
        let Meta { name, uid, .. } = &self.meta;
        let prefix = if name.len() + SUFFIX.len() <= LONGEST_NAME {
            name
        } else {
            uid
        };
        format!("{prefix}{SUFFIX}")
    }
}

impl Budget {
    /// The UID of its Deployment, if we have created it.
    fn owner(&self) -> Option<&str> {
        let (label, value) = MANAGED_BY;
        let owner = self
            .meta
            .controller()
            .filter(|owner| owner.is_of(Deployment::KIND))?;
        (self.meta.label(label) == Some(value)).then_some(&owner.uid)
    }

    /// Its selector. A missing one selects nothing, as does one that is malformed.
    fn selector(&self) -> Selector {
        flyball_sdk::serde_json::from_value(self.spec["selector"].clone()).unwrap_or_default()
    }
}

impl Step<'_> {
    /// The write, in this namespace.
    pub fn write(&self, namespace: &str) -> Write {
        match self {
            Self::Create { deployment, spec } => {
                let (label, value) = MANAGED_BY;
                // The budget does not block the deletion of its owner, because that would need one more right.
                let owner = OwnerReference {
                    controller: true,
                    ..deployment.meta.owner_reference(Deployment::KIND)
                };
                let budget = json!({
                    "metadata": {
                        "name": deployment.budget_name(),
                        "labels": {label: value},
                        "ownerReferences": [owner],
                    },
                    "spec": spec,
                });
                Write::create(Budget::KIND, namespace, &budget)
            }
            Self::Correct { budget, spec, .. } => {
                // A merge patch would keep fields that somebody has added. The API server refuses another resource
                // version as a conflict.
                let patch = json!([
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": budget.meta.resource_version},
                    {"op": "replace", "path": "/spec", "value": spec},
                ]);
                let name = &budget.meta.name;
                Write::patch(Budget::KIND, namespace, name, PatchType::Json, &patch)
            }
            Self::Delete { budget, .. } => Write::delete_exactly(Budget::KIND, &budget.meta),
        }
    }

    /// The Deployment that the step is about, unless it is gone.
    pub fn deployment(&self) -> Option<&Deployment> {
        match self {
            Self::Create { deployment, .. } | Self::Correct { deployment, .. } => Some(deployment),
            Self::Delete { deployment, .. } => *deployment,
        }
    }

    /// The name of the budget.
    pub fn name(&self) -> String {
        match self {
            Self::Create { deployment, .. } => deployment.budget_name(),
            Self::Correct { budget, .. } | Self::Delete { budget, .. } => budget.meta.name.clone(),
        }
    }

    /// The reason of its event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Create { .. } => "BudgetCreated",
            Self::Correct { .. } => "BudgetCorrected",
            Self::Delete { .. } => "BudgetDeleted",
        }
    }

    /// Whether nothing is left to do after this error.
    pub fn is_settled_by(&self, error: &ApiError) -> bool {
        match self {
            Self::Create { .. } => is_namespace_terminating(error),
            Self::Correct { .. } => error.is_not_found(),
            Self::Delete { .. } => error.is_not_found() || error.is_conflict(),
        }
    }
}

/// `deleted the budget web-guard: the budget web selects its pods`
impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Create { .. } => write!(f, "created the budget {name}"),
            Self::Correct { .. } => write!(f, "corrected the budget {name}"),
            Self::Delete { why, .. } => write!(f, "deleted the budget {name}: {why}"),
        }
    }
}
