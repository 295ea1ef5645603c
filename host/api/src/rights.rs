//! The rights that the host itself needs. Each request of the host's own names its right, which is declared beside the
//! request. `flyball rbac --host` prints the rights of a host that runs beside a kube-controller-manager.

use http::Method;

/// A right of the host, with its own credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRight {
    pub verb: HostVerb,
    pub group: &'static str,
    /// The plural, with the subresource, as RBAC writes it.
    pub resource: &'static str,
    pub scope: HostScope,
}

/// A verb of the host's own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerb {
    Get,
    Create,
    Update,
    Patch,
}

/// The objects that a right of the host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostScope {
    /// Cluster-scoped objects.
    Cluster,
    /// The host's lease.
    Lease,
    /// Objects in the namespace of the host's lease.
    LeaseNamespace,
    /// The service accounts of plugins.
    Accounts,
    /// Objects in the namespaces of the plugins' service accounts.
    AccountNamespaces,
    /// Objects in the namespaces of the lease and of the plugins' service accounts.
    LeaseAndAccountNamespaces,
}

impl HostVerb {
    /// Returns the verb as RBAC writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Patch => Method::PATCH,
        }
    }
}
