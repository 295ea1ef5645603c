//! resourcepoolstatusrequest-controller: answers ResourcePoolStatusRequests (KEP-5677).
//!
//! A request asks how many devices of a driver are allocated and available in each pool. It is answered once, in its
//! status, from the ResourceSlices, the ResourceClaims and the DeviceTaintRules (`pools.rs`). While slices of a pool are missing, the answer is
//! delayed for some attempts, and then given up, as by kube-controller-manager. Old requests are deleted (`expiry.rs`).
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/controller.go: NewController, enqueueRequest, syncRequest.
//! Upstream: pkg/controller/resourcepoolstatusrequest/metrics/metrics.go.

use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;

mod expiry;
mod partitions;
mod pools;
mod shareable;
#[cfg(test)]
mod tests;
mod views;

use pools::Inputs;
use views::{BY_DRIVER, Claim, PoolsRequest, Rule, Slice};

/// The counter of answered requests, and of those whose answer could not be written.
const PROCESSED: &str = "resourcepoolstatusrequest_controller_requests_processed_total";
/// The counter of requests whose answer could not be written.
const ERRORS: &str = "resourcepoolstatusrequest_controller_request_processing_errors_total";
const DURATION: &str = "resourcepoolstatusrequest_controller_request_processing_duration_seconds";
/// The label of all metrics.
const DRIVER: &str = "driver_name";
/// The key of expired requests. Requests have no namespace.
const EXPIRED: &str = "expired/requests";
/// The feature gate of DeviceTaintRules.
const RULES: &str = "DRADeviceTaintRules";

/// The controller. Keys are names of requests, or [`EXPIRED`].
pub struct PoolStatus;

export!(PoolStatus);

impl Controller for PoolStatus {
    fn describe() -> Description {
        description(true)
    }

    fn describe_configured(host: &Host) -> Description {
        description(has_rules(host))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.key == Key::parse(EXPIRED) {
            expiry::delete_expired(host)?;
            return Ok(Outcome::Done);
        }
        let found = host.get_by_key::<PoolsRequest>(&request.key)?;
        if let Some(asked) = found.filter(|asked| asked.status.is_null()) {
            answer(host, &asked)?;
        }
        Ok(Outcome::Done)
    }
}

/// Whether DeviceTaintRules count. Before Kubernetes 1.37, they did not.
fn has_rules(host: &Host) -> bool {
    host.release_at_least(37) && host.feature_enabled_or(RULES, true)
}

/// The description, with DeviceTaintRules if they count.
fn description(with_rules: bool) -> Description {
    let requests = watch::<PoolsRequest>()
        // A status is written with the whole metadata.
        .fields(&["metadata"])
        .enqueue(
            Mapping::itself()
                .on([DeltaType::Added, DeltaType::Modified])
                .unless("status.conditions[*].type"),
        );
    let described = describe(
        "resourcepoolstatusrequest-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(requests)
    .watch(watch::<Slice>())
    .watch(watch::<Claim>())
    .index(BY_DRIVER, Slice::KIND, "spec.driver")
    .index(
        BY_DRIVER,
        Claim::KIND,
        "status.allocation.devices.results[*].driver",
    )
    // kube-controller-manager's queue has no name.
    .queue_with(Queue {
        max_retries: Some(5),
        ..queue("resourcepoolstatusrequest-controller")
    })
    .ticker_with(Ticker {
        key: EXPIRED.into(),
        queue: String::new(),
        period_ms: expiry::PERIOD.as_millis() as u32,
        config: expiry::PERIOD_KEY.into(),
    })
    .permission(PoolsRequest::KIND, ["delete"])
    .permission_on(PoolsRequest::KIND, "status", ["update"])
    .feature_gate(RULES, true)
    .emulated_version()
    .concurrency(1);
    let described = metrics(expiry::declare(described));
    match with_rules {
        true => described.watch(watch::<Rule>()),
        false => described,
    }
}

/// Writes the answer to a request.
fn answer(host: &Host, request: &PoolsRequest) -> Result<(), Error> {
    let start = host.now();
    let driver = request.driver.as_str();
    let slices = host.list::<Slice>().index(BY_DRIVER, driver).all()?;
    let claims = host.list::<Claim>().index(BY_DRIVER, driver).all()?;
    let rules = match has_rules(host) {
        true => host.list::<Rule>().all()?,
        false => Vec::new(),
    };
    let inputs = Inputs {
        slices: &slices,
        claims: &claims,
        rules: &rules,
        since_1_37: host.release_at_least(37),
    };
    let all = pools::of_driver(request, &inputs);
    let status = pools::status(request, all, start).map_err(Error::failed)?;
    let result = host.update_status(PoolsRequest::KIND, &request.meta, &status);
    let (metrics, labels) = (host.metrics(), [driver]);
    if result.is_err() {
        metrics.add(ERRORS, &labels, 1.0);
    }
    metrics.add(PROCESSED, &labels, 1.0);
    let seconds = host.now().since(start).as_secs_f64();
    metrics.observe(DURATION, &labels, seconds);
    result
        .doing(|| format!("answering {}", request.meta.name))
        .map(drop)
}

fn metrics(described: Description) -> Description {
    let buckets = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
    described
        .metric(
            MetricType::Counter,
            PROCESSED,
            &[DRIVER],
            "Total number of ResourcePoolStatusRequests processed",
        )
        .metric(
            MetricType::Counter,
            ERRORS,
            &[DRIVER],
            "Total number of errors encountered while processing ResourcePoolStatusRequests",
        )
        .metric(
            MetricType::Histogram(buckets),
            DURATION,
            &[DRIVER],
            "Time taken to process a ResourcePoolStatusRequest",
        )
}
