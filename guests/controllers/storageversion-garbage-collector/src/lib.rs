//! storageversion-garbage-collector-controller: removes the entries of API servers without a Lease from
//! StorageVersions.
//!
//! A StorageVersion (KEP-2339) has an entry for each API server, which holds a Lease while it runs. Entries without a
//! Lease are removed, and a StorageVersion without entries is deleted.
//!
//! Upstream: pkg/controller/storageversiongc/gc_controller.go: NewStorageVersionGC, processDeletedLease,
//! syncStorageVersion, onAddStorageVersion, onUpdateStorageVersion, onDeleteLease, updateOrDeleteStorageVersion.

pub mod status;

use flyball_sdk::prelude::*;

use status::{ServerVersions, Status};

/// The queue of deleted Leases.
const LEASES: &str = "storage_version_garbage_collector_leases";
/// The queue of StorageVersions.
const VERSIONS: &str = "storage_version_garbage_collector_storageversions";
const NAMESPACE: &str = "kube-system";
/// The label of the Leases of API servers, and its value.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");

#[derive(View, Clone, Debug, Default)]
#[view(kind = "coordination.k8s.io/v1/Lease")]
struct Lease {
    #[view(
        path = "metadata",
        fields("labels['apiserver.kubernetes.io/identity']")
    )]
    meta: Meta,
}

impl Lease {
    /// Whether an API server holds it.
    fn is_of_server(&self) -> bool {
        self.meta.label(IDENTITY.0) == Some(IDENTITY.1)
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "internal.apiserver.k8s.io/v1alpha1/StorageVersion")]
struct StorageVersion {
    #[view(path = "metadata", fields("generation"))]
    meta: Meta,
    #[view(path = "status")]
    status: Status,
}

/// The controller. Keys name Leases or StorageVersions.
pub struct StorageVersions;

export!(StorageVersions);

impl Controller for StorageVersions {
    fn describe() -> Description {
        let leases = watch::<Lease>()
            .namespace(NAMESPACE)
            .label_selector(&format!("{}={}", IDENTITY.0, IDENTITY.1))
            .enqueue(Mapping::itself().on([DeltaType::Deleted]).queue(LEASES));
        let versions = watch::<StorageVersion>().enqueue(
            Mapping::itself()
                .on([DeltaType::Added, DeltaType::Modified])
                .queue(VERSIONS),
        );
        describe(
            "storageversion-garbage-collector-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(leases)
        .watch(versions)
        .queue(LEASES)
        .queue(VERSIONS)
        .permission(Lease::KIND, ["get"])
        .permission(StorageVersion::KIND, ["delete", "get", "list"])
        .permission_on(StorageVersion::KIND, "status", ["update"])
        .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        match request.queue.as_str() {
            VERSIONS => check_version(host, &request.key.name)?,
            _ => check_lease(host, &request.key.name)?,
        }
        Ok(Outcome::Done)
    }
}

/// Removes an API server whose Lease was deleted from all StorageVersions.
fn check_lease(host: &Host, name: &str) -> Result<(), Error> {
    let reads = host.live();
    if reads.get::<Lease>(NAMESPACE, name)?.is_some() {
        return Ok(());
    }
    let mut failures = Vec::new();
    reads.each::<StorageVersion>(
        StorageVersion::KIND,
        "",
        StorageVersion::FIELDS,
        |version| {
            let result = keep(host, &version, |entry| entry.server != name);
            failures.extend(result.err());
            Ok(())
        },
    )?;
    Error::join(failures).map_or(Ok(()), Err)
}

/// Removes the API servers without a Lease from a StorageVersion.
fn check_version(host: &Host, name: &str) -> Result<(), Error> {
    let Some(cached) = host.get::<StorageVersion>("", name)? else {
        return Ok(());
    };
    let mut is_complete = true;
    for entry in &cached.status.storage_versions {
        is_complete &= host.get::<Lease>(NAMESPACE, &entry.server)?.is_some();
    }
    if is_complete {
        return Ok(());
    }
    // A Lease may have been created just now.
    let reads = host.live();
    let Some(live) = reads.get::<StorageVersion>("", name)? else {
        return Ok(());
    };
    let mut gone = Vec::new();
    for entry in &live.status.storage_versions {
        let lease = reads.get::<Lease>(NAMESPACE, &entry.server)?;
        if !lease.is_some_and(|lease| lease.is_of_server()) {
            gone.push(entry.server.clone());
        }
    }
    keep(host, &live, |entry| !gone.contains(&entry.server))
}

/// Removes all entries except some. Deletes the StorageVersion if no entry is left, and leaves it alone if there is
/// nothing to remove.
fn keep(
    host: &Host,
    version: &StorageVersion,
    is_kept: impl Fn(&ServerVersions) -> bool,
) -> Result<(), Error> {
    let (meta, old) = (&version.meta, &version.status);
    let kept: Vec<_> = old
        .storage_versions
        .iter()
        .filter(|entry| is_kept(entry))
        .cloned()
        .collect();
    if kept.len() == old.storage_versions.len() {
        return Ok(());
    }
    if kept.is_empty() {
        host.delete(StorageVersion::KIND, meta).found()?;
        return Ok(());
    }
    let new = status::of(old, kept, meta.generation, host.now());
    host.update_status(StorageVersion::KIND, meta, &new)?;
    Ok(())
}
