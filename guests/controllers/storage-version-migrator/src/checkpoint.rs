//! Records the version of a resource at which its migration starts.
//!
//! Upstream: pkg/controller/storageversionmigrator/resourceversion.go: sync, getLatestResourceVersion, resourceFor,
//! isResourceMigratable, failMigration.

use flyball_sdk::imports::Read;
use flyball_sdk::live::LiveList;
use flyball_sdk::prelude::*;
use serde::de::IgnoredAny;

use crate::resource::Served;
use crate::version::Version;
use crate::views::{Migration, RUNNING};

/// A namespace that can't exist, because its name is not valid. A list of it has no objects.
const EMPTY_NAMESPACE: &str = "@fake:svm_ns!";

/// Records the current version of the resource, or that it can't be migrated.
pub(crate) fn record(host: &Host, migration: &Migration) -> Result<(), Error> {
    let is_recorded = !migration.status.resource_version.is_empty();
    if !migration.is(RUNNING) || migration.has_ended() || is_recorded {
        return Ok(());
    }
    let Some(resource) = migration.resource.served(host)? else {
        if migration.is_new(host)? {
            return Err(Error::failed("the resource is not served yet"));
        }
        return migration.fail(host, "resource does not exist in discovery");
    };
    let shown = resource.shown();
    if !resource.is_migratable() {
        let message = format!(
            "resource {shown:?} does not support discovery operations: [update patch list]"
        );
        return migration.fail(host, &message);
    }
    let version = current_version(host, &resource)?;
    if let Err(error) = Version::parse(&version) {
        let message = format!("latest resourceVersion for {shown} is not valid: {error}");
        return migration.fail(host, &message);
    }
    let mut status = migration.status.clone();
    status.resource_version = version;
    migration.write_status(host, &status)
}

/// Returns the version of a consistent list of the resource.
fn current_version(host: &Host, resource: &Served) -> Result<String, Error> {
    let namespace = match resource.0.namespaced {
        true => EMPTY_NAMESPACE,
        false => "",
    };
    let read = Read::List {
        kind: resource.0.kind.clone(),
        namespace: namespace.into(),
        parameters: vec![("limit".into(), "1".into())],
        fields: vec!["metadata.name".into()],
    };
    let list = host.live().batch().with(read).run().pop();
    let list = list.ok_or_else(|| Error::failed("the host returned no list"))?;
    let list: LiveList<IgnoredAny> = list
        .doing(|| format!("listing {}", resource.shown()))?
        .parse()?;
    Ok(list.metadata.resource_version)
}
