//! serviceaccount-controller: creates a default account in each namespace.
//!
//! Each active namespace has a ServiceAccount `default`. A deleted account is recreated. An
//! inactive namespace gets none.
//!
//! Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go: DefaultServiceAccountsControllerOptions,
//! NewServiceAccountsController, syncNamespace, serviceAccountDeleted.

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;

/// The accounts of each namespace.
const ACCOUNTS: [&str; 1] = ["default"];

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
struct Namespace {
    #[view(path = "status.phase")]
    phase: Option<String>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
struct ServiceAccount {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
}

/// The controller. Keys are names of namespaces.
pub struct ServiceAccounts;

export!(ServiceAccounts);

impl Controller for ServiceAccounts {
    fn describe() -> Description {
        describe("serviceaccount-controller", env!("CARGO_PKG_VERSION"))
            .watch(
                watch::<Namespace>()
                    .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified])),
            )
            .watch(watch::<ServiceAccount>().enqueue(Mapping::namespace().on([DeltaType::Deleted])))
            .queue("serviceaccount")
            .permission(ServiceAccount::KIND, ["create"])
            .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let name = &request.key.name;
        let namespace: Option<Namespace> = host.get("", name)?;
        let is_active =
            namespace.is_some_and(|namespace| namespace.phase.as_deref() == Some("Active"));
        if !is_active {
            return Ok(Outcome::Done);
        }
        let accounts: Vec<ServiceAccount> = host.list().namespace(name).all()?;
        let creates = missing(&accounts).map(|account| {
            Write::create(
                ServiceAccount::KIND,
                name,
                &json!({"metadata": {"name": account}}),
            )
        });
        let results = host.batch().extend(creates).run();
        let failures = results
            .into_iter()
            .filter_map(Result::err)
            .filter(|error| !is_settled(error));
        Error::join(failures.map(Error::from)).map_or(Ok(Outcome::Done), Err)
    }
}

/// Returns the accounts that do not exist yet.
fn missing(accounts: &[ServiceAccount]) -> impl Iterator<Item = &'static str> {
    ACCOUNTS
        .into_iter()
        .filter(|&wanted| !accounts.iter().any(|account| account.meta.name == wanted))
}

/// Whether an error can be ignored: the account exists, or the namespace is being deleted.
fn is_settled(error: &ApiError) -> bool {
    error.is_already_exists() || is_namespace_terminating(error)
}
