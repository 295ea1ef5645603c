//! certificatesigningrequest-cleaner-controller: deletes CertificateSigningRequests that nobody needs any more.
//!
//! Once an hour [`Cleaner`] checks all requests. [`age::reason`] tells which are deleted.

pub mod age;

use std::time::Duration;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

use age::Csr;

/// The only key.
const KEY: &str = "all";
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The number of requests that are deleted side by side.
const BATCH: usize = 100;

/// The controller.
pub struct Cleaner;

export!(Cleaner);

impl Controller for Cleaner {
    fn describe() -> Description {
        describe(
            "certificatesigningrequest-cleaner-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(watch::<Csr>())
        .queue("certificatesigningrequest_cleaner")
        .ticker(KEY, INTERVAL)
        .allow(Csr::KIND, ["delete"])
        .concurrency(1)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let now = host.now();
        let mut old = Vec::new();
        host.list::<Csr>().each(|csr| {
            if let Some(reason) = age::reason(&csr, now) {
                info!(host, "deleting {}: {reason}", csr.meta.name);
                old.push(csr.meta);
            }
            Ok(())
        })?;
        let failures = old.chunks(BATCH).flat_map(|metas| delete(host, metas));
        Error::join(failures).map_or(Ok(Outcome::Done), Err)
    }
}

/// Deletes requests and returns the failures. One that was deleted or replaced in the meantime is none.
fn delete(host: &Host, metas: &[Meta]) -> Vec<Error> {
    let writes = metas
        .iter()
        .map(|meta| Write::delete_exactly(Csr::KIND, meta));
    let results = host.batch().extend(writes).run();
    let failures = metas.iter().zip(results).filter_map(|(meta, result)| {
        let failure = result
            .err()
            .filter(|error| !error.is_not_found() && !error.is_conflict())?;
        Err::<(), _>(failure)
            .doing(|| format!("deleting {}", meta.name))
            .err()
    });
    failures.collect()
}
