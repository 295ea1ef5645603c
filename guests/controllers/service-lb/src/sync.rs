//! Reconciles one Service with its load balancer.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/controller.go: processNextServiceItem, syncService,
//! processServiceCreateOrUpdate, syncLoadBalancerIfNeeded, ensureLoadBalancer, processServiceDeletion,
//! processLoadBalancerDelete, addFinalizer, removeFinalizer, patchStatus.
//! Upstream: staging/src/k8s.io/cloud-provider/service/helpers/helper.go: PatchService.

use std::time::Duration;

use flyball_cloud::{Call, Cloud, CloudError, ErrorKind};
use flyball_sdk::prelude::*;
use flyball_sdk::{ApiError, warning};

use crate::cluster_name;
use crate::memory::Memory;
use crate::nodes::{NodeSet, present_digest};
use crate::pass;
use crate::service::{FINALIZER, Service, Status};

/// The text of the event that a load balancer has no nodes.
pub(crate) const NO_NODES: &str = "There are no available nodes for LoadBalancer";

/// Why a reconcile failed.
#[derive(Debug)]
struct Failure {
    message: String,
    /// The time after which the cloud wants to be asked again, instead of the backoff.
    retry_after: Option<Duration>,
}

/// The reconcile of one Service.
struct Sync<'a> {
    host: &'a Host<'a>,
    cloud: Cloud<'a>,
    memory: Memory<'a>,
    cluster_name: String,
}

/// Reconciles a Service.
///
/// # Errors
/// The cloud or the API server fails.
pub(crate) fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let service = host.get_by_key::<Service>(key)?;
    let sync = Sync {
        host,
        cloud: Cloud::of(host),
        memory: Memory::of(host, key),
        cluster_name: cluster_name(host),
    };
    let result = match &service {
        Some(service) => sync.existing(service),
        None => sync.deleted(),
    };
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(Failure {
            message,
            retry_after: Some(time),
        }) => {
            warning!(
                host,
                "the cloud wants to be asked again in {time:?}: {message}"
            );
            Ok(Outcome::RequeueAfter(time))
        }
        Err(failure) => Err(Error::failed(failure.message)),
    }
}

impl Sync<'_> {
    fn existing(&self, service: &Service) -> Result<(), Failure> {
        if let Some(old) = self.memory.service()
            && old.meta.uid != service.meta.uid
        {
            // The Service was deleted without the finalizer, and created again.
            self.delete_remembered(&old)?;
        }
        self.memory.keep_service(service)?;
        let is_over = !service.wants_load_balancer() || service.needs_cleanup();
        let result = match is_over {
            true => self.clean_up(service),
            false => self.ensure(service),
        };
        if let Err(failure) = &result {
            let text = format!("Error syncing load balancer: {}", failure.message);
            self.warn(service, "SyncLoadBalancerFailed", &text);
        } else if is_over {
            self.memory.forget();
        }
        result
    }

    /// The Service was deleted, and its finalizer did not keep it.
    fn deleted(&self) -> Result<(), Failure> {
        if let Some(service) = self.memory.service() {
            self.delete_remembered(&service)?;
            self.memory.forget();
        }
        Ok(())
    }

    /// Deletes the load balancer of a Service that exists no longer.
    fn delete_remembered(&self, service: &Service) -> Result<(), Failure> {
        if !service.wants_load_balancer() {
            return Ok(());
        }
        self.note(service, "DeletingLoadBalancer", "Deleting load balancer");
        self.delete(service).map_err(|error| {
            let text = format!("Error deleting load balancer: {error}");
            self.warn(service, "DeleteLoadBalancerFailed", &text);
            Failure::from(error)
        })?;
        self.note(service, "DeletedLoadBalancer", "Deleted load balancer");
        Ok(())
    }

    /// Deletes the load balancer of a Service that needs none any more, and lets the Service go.
    fn clean_up(&self, service: &Service) -> Result<(), Failure> {
        let call = Call::get_load_balancer(&self.cluster_name, service);
        let found = self.cloud.run(call).map_err(|error| {
            Failure::new(format!(
                "failed to check if load balancer exists before cleanup: {error}"
            ))
        })?;
        if found.exists {
            self.note(service, "DeletingLoadBalancer", "Deleting load balancer");
            match self.delete(service) {
                Err(error) if !error.is(&ErrorKind::ImplementedElsewhere) => {
                    return Err(Failure::new(format!(
                        "failed to delete load balancer: {error}"
                    )));
                }
                _ => {}
            }
        }
        if service.has_finalizer() {
            let change = json!({"$deleteFromPrimitiveList/finalizers": [FINALIZER]});
            self.patch(service, &json!({"metadata": change}))
                .map_err(|error| failed("remove load balancer cleanup finalizer", &error))?;
        }
        self.note(service, "DeletedLoadBalancer", "Deleted load balancer");
        if service.ends_with_finalizer() {
            return Ok(());
        }
        self.write_status(service, &Raw::of(&json!({})))
    }

    /// Creates the load balancer of a Service, or brings it up to date.
    fn ensure(&self, service: &Service) -> Result<(), Failure> {
        self.note(service, "EnsuringLoadBalancer", "Ensuring load balancer");
        if !service.has_finalizer() {
            // Before the cloud is called, so that the Service can't vanish without its load balancer.
            self.patch(service, &json!({"metadata": {"finalizers": [FINALIZER]}}))
                .map_err(|error| failed("add load balancer cleanup finalizer", &error))?;
        }
        let nodes = NodeSet::read(self.host)?;
        if nodes.is_empty() {
            self.warn(service, "UnAvailableLoadBalancer", NO_NODES);
        }
        self.memory.keep_nodes(nodes.digest())?;
        let call = Call::ensure_load_balancer(&self.cluster_name, service, &nodes.documents);
        let status = match self.cloud.run(call) {
            Err(error) if error.is(&ErrorKind::ImplementedElsewhere) => return Ok(()),
            Err(error) => return Err(Failure::ensuring(error)),
            Ok(None) => {
                return Err(Failure::new(
                    "service status returned by EnsureLoadBalancer is nil".into(),
                ));
            }
            Ok(Some(status)) => status,
        };
        self.note(service, "EnsuredLoadBalancer", "Ensured load balancer");
        self.write_status(service, &status)?;
        self.catch_up(service, nodes.digest())
    }

    /// Gives the load balancer the nodes that have changed while the cloud was called. A pass that met these changes
    /// could not do so: what this call has given is not remembered before it ends.
    fn catch_up(&self, service: &Service, mut given: u64) -> Result<(), Failure> {
        while present_digest(self.host)? != given {
            let nodes = NodeSet::read(self.host)?;
            given = nodes.digest();
            pass::update(self.host, std::slice::from_ref(service), &nodes)?;
        }
        Ok(())
    }

    fn delete(&self, service: &Service) -> Result<(), CloudError> {
        let call = Call::ensure_load_balancer_deleted(&self.cluster_name, service);
        self.cloud.run(call)
    }

    /// Writes the status of the load balancer, if it differs from the Service's.
    fn write_status(&self, service: &Service, status: &Raw) -> Result<(), Failure> {
        let new: Option<Status> = status.parse()?;
        if new.unwrap_or_default().ingress == service.ingress {
            return Ok(());
        }
        let ingress = &status.value()["ingress"];
        let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        self.patch(service, &patch)
            .found()
            .map(drop)
            .map_err(|error| failed("update load balancer status", &error))
    }

    /// Patches metadata or status of a Service. The role allows writes of the status only.
    fn patch(&self, service: &Service, patch: &Value) -> Result<(), ApiError> {
        let Meta {
            namespace, name, ..
        } = &service.meta;
        let write = Write::patch(Service::KIND, namespace, name, PatchType::Strategic, patch);
        self.host.write(write.on("status")).map(drop)
    }

    fn note(&self, service: &Service, reason: &str, message: &str) {
        let about = service.meta.reference(Service::KIND);
        self.host.emit(Event::normal(&about, reason, message));
    }

    fn warn(&self, service: &Service, reason: &str, message: &str) {
        let about = service.meta.reference(Service::KIND);
        self.host.emit(Event::warning(&about, reason, message));
    }
}

impl Failure {
    fn new(message: String) -> Self {
        Self {
            message,
            retry_after: None,
        }
    }

    /// The failure to create a load balancer, or to bring it up to date.
    fn ensuring(error: CloudError) -> Self {
        Self {
            message: format!("failed to ensure load balancer: {error}"),
            retry_after: error.retry_after,
        }
    }
}

fn failed(to_do: &str, error: &ApiError) -> Failure {
    Failure::new(format!("failed to {to_do}: {}", error.message))
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        Self {
            message: error.message,
            retry_after: error.retry_after,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.message())
    }
}
