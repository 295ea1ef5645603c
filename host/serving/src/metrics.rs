//! The metrics of the process: the host's, and the metrics that plugins declare while they run.
//!
//! Names, labels and buckets are exactly as given, since dashboards for kube-controller-manager read them. A family
//! belongs to one owner: a plugin can't count into the host's families or into another plugin's.

mod created;
mod group;
mod histogram;
mod native;
mod process;
mod protobuf;
mod rest_client;
mod restrict;
mod sums;
mod text;
mod workqueue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, Opts, Registry};

pub use created::{Counter, CounterVec};
pub use group::{Group, Kind};
pub use histogram::{Histogram, HistogramVec};
pub(crate) use process::process_start_time;
pub use prometheus::{Gauge, GaugeVec};
pub(crate) use protobuf::{CONTENT_TYPE as PROTOBUF, is_preferred as prefers_protobuf};
pub use rest_client::{
    RateLimiterWait, ResponseSize, RestClientLayer, RestClientMetrics, RestClientService,
};
pub use restrict::Restrictions;
use sums::Sums;
pub(crate) use text::CONTENT_TYPE as TEXT;
pub use workqueue::{Gauges, QueueMetrics};

/// The owner of the host's own families.
const HOST: &str = "";

/// All metrics. Clones share the families.
///
/// ```
/// let metrics = flyball_serving::Metrics::new();
/// let syncs = metrics.counter("syncs_total", "Syncs, by result.", &["result"])?;
/// syncs.with_label_values(&["ok"]).inc();
/// assert!(metrics.render().contains("syncs_total{result=\"ok\"} 1\n"));
/// # Ok::<(), flyball_serving::metrics::MetricsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    families: Mutex<BTreeMap<String, OwnedFamily>>,
    /// Functions that update gauges before each scrape. No lock is held while they run.
    scrapes: Mutex<Vec<Weak<ScrapeFn>>>,
    restrictions: Mutex<Arc<Restrictions>>,
    /// Set if there are native histograms: the owners whose histograms stay classic.
    classic_owners: OnceLock<BTreeSet<String>>,
}

type ScrapeFn = dyn Fn() + Send + Sync;

struct OwnedFamily {
    owner: String,
    help: String,
    labels: Vec<String>,
    family: Arc<Family>,
}

/// All series of one name. Each family has its own registry, since a `prometheus::Registry` keeps the labels of a
/// removed name.
struct Family {
    registry: Registry,
    vec: FamilyVec,
}

enum FamilyVec {
    Counter(CounterVec),
    Gauge(GaugeVec),
    Sum(Sums),
    Histogram(HistogramVec, Vec<f64>),
    /// Produced by a collector at each scrape.
    Collected,
}

/// Why a metric can't be declared or counted. A retry can't help.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Another owner has a family of this name.
    #[error("the metric {0} belongs to {1}")]
    Taken(String, String),
    /// Prometheus does not allow the name, the name of a label, or the buckets.
    #[error("the metric {0} can't be declared")]
    Invalid(String, #[source] prometheus::Error),
    /// The family was declared before with another type, help or labels.
    #[error("the metric {0} was declared before with another type, help or labels")]
    Differs(String),
    /// The family was not declared, or with another type.
    #[error("the metric {0} was not declared as a {1}")]
    Undeclared(String, &'static str),
    /// The number of label values differs from the number of labels, a label value is too long, or the value is not
    /// valid.
    #[error("the metric {0} can't take these label values or this value")]
    Value(String),
    #[error("the metric {0} has {1} series already, which is the maximum")]
    TooManySeries(String, usize),
    /// The limit is in bytes.
    #[error(
        "the metric {0} gets no more series: all series of its owner would take more than {1} bytes"
    )]
    TooLarge(String, usize),
}

/// Keeps a function that runs before each scrape.
#[must_use = "the function is no longer run when this is dropped"]
pub struct OnScrape {
    _function: Arc<ScrapeFn>,
}

impl Metrics {
    /// Metrics with the families of the process and of the build.
    pub fn new() -> Self {
        let metrics = Self::default();
        process::register(&metrics);
        metrics
    }

    /// The host's counter of this name, created if there is none. Fails if the name is taken or invalid.
    pub fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<CounterVec, MetricsError> {
        match &self.declare(HOST, name, help, labels, &Kind::Counter)?.vec {
            FamilyVec::Counter(vec) => Ok(vec.clone()),
            _ => Err(MetricsError::Differs(name.to_owned())),
        }
    }

    /// The host's gauge of this name, created if there is none. Fails if the name is taken or invalid.
    pub fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, MetricsError> {
        match &self.declare(HOST, name, help, labels, &Kind::Gauge)?.vec {
            FamilyVec::Gauge(vec) => Ok(vec.clone()),
            _ => Err(MetricsError::Differs(name.to_owned())),
        }
    }

    /// The host's histogram of this name, created if there is none. `buckets` are the upper bounds, without infinity.
    /// Fails if the name is taken or invalid.
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> Result<HistogramVec, MetricsError> {
        match &self
            .declare(HOST, name, help, labels, &Kind::Histogram(buckets.to_vec()))?
            .vec
        {
            FamilyVec::Histogram(vec, _) => Ok(vec.clone()),
            _ => Err(MetricsError::Differs(name.to_owned())),
        }
    }

    /// A group of families for one owner, such as a plugin. Dropping the group removes them.
    pub fn group(&self, owner: impl Into<String>) -> Group {
        self.group_with_prefix(owner, "")
    }

    /// A group like [`Metrics::group`] whose names have a prefix in the exposition.
    pub fn group_with_prefix(&self, owner: impl Into<String>, prefix: impl Into<String>) -> Group {
        Group::new(self.clone(), owner.into(), prefix.into())
    }

    /// Runs a function before each scrape until the returned value is dropped.
    pub fn on_scrape(&self, function: impl Fn() + Send + Sync + 'static) -> OnScrape {
        let function: Arc<ScrapeFn> = Arc::new(function);
        let mut scrapes = self.inner.scrapes.lock();
        scrapes.retain(|scrape| scrape.strong_count() > 0);
        scrapes.push(Arc::downgrade(&function));
        OnScrape {
            _function: function,
        }
    }

    /// Leaves families and values of labels out of the exposition from now on.
    pub fn restrict(&self, restrictions: Restrictions) {
        *self.inner.restrictions.lock() = Arc::new(restrictions);
    }

    /// Makes the histograms that groups declare from now on native ones, too, except for groups of these owners. The
    /// host's histograms stay classic, because kube-controller-manager creates the corresponding ones before it reads its
    /// feature gates. Only the first call has an effect.
    pub fn add_native_histograms(&self, except: impl IntoIterator<Item = impl Into<String>>) {
        let owners = except.into_iter().map(Into::into).collect();
        self.inner.classic_owners.get_or_init(|| owners);
    }

    /// Whether the histograms that this owner declares are native ones, too.
    fn has_native_histograms(&self, owner: &str) -> bool {
        let classic = self.inner.classic_owners.get();
        owner != HOST && classic.is_some_and(|owners| !owners.contains(owner))
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (_, families) in self.gather() {
            text::write(&families, &mut text);
        }
        text
    }

    /// All metrics in Prometheus' protobuf format.
    pub(crate) fn render_protobuf(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (histogram, families) in self.gather() {
            let native = |metric: &_| histogram.as_ref()?.native(metric);
            protobuf::write(&families, native, &mut bytes);
        }
        bytes
    }

    /// Updates all gauges, and returns what is shown of each family. Histograms are returned, too. Families are not held,
    /// so that their owners can remove them in the meantime.
    fn gather(&self) -> Vec<(Option<HistogramVec>, Vec<MetricFamily>)> {
        let scrapes: Vec<Arc<ScrapeFn>> = self
            .inner
            .scrapes
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        scrapes.iter().for_each(|scrape| scrape());
        let parts = |entry: &OwnedFamily| {
            let Family { registry, vec } = &*entry.family;
            let histogram = match vec {
                FamilyVec::Histogram(vec, _) => Some(vec.clone()),
                _ => None,
            };
            (registry.clone(), histogram)
        };
        let all: Vec<_> = self.inner.families.lock().values().map(parts).collect();
        let restrictions = self.inner.restrictions.lock().clone();
        let shown = all
            .into_iter()
            .map(|(registry, histogram)| (histogram, restrictions.apply(registry.gather())));
        shown.collect()
    }

    /// Adds a collector of the host, unless there is one of this name.
    fn collect(&self, name: &str, collector: impl Collector + 'static) {
        let registry = Registry::new();
        if let Err(error) = registry.register(Box::new(collector)) {
            tracing::warn!(%error, "can't collect the metrics of the {name}");
            return;
        }
        let family = Arc::new(Family {
            registry,
            vec: FamilyVec::Collected,
        });
        let entry = OwnedFamily {
            owner: HOST.to_owned(),
            help: String::new(),
            labels: Vec::new(),
            family,
        };
        self.inner
            .families
            .lock()
            .entry(name.to_owned())
            .or_insert(entry);
    }

    /// Returns the family of this name, created if there isn't one. A plugin may declare its own family again with
    /// another type, help or labels. The new family replaces the old one, whose values are then not rendered any more.
    /// The host may not do this with its families.
    fn declare(
        &self,
        owner: &str,
        name: &str,
        help: &str,
        labels: &[&str],
        kind: &Kind,
    ) -> Result<Arc<Family>, MetricsError> {
        let mut families = self.inner.families.lock();
        if let Some(entry) = families.get(name) {
            if entry.owner != owner {
                let owner = if entry.owner == HOST {
                    "the host"
                } else {
                    &entry.owner
                };
                return Err(MetricsError::Taken(name.to_owned(), owner.to_owned()));
            }
            if entry.help == help && entry.labels == labels && entry.family.vec.is(kind) {
                return Ok(entry.family.clone());
            }
            if owner == HOST {
                return Err(MetricsError::Differs(name.to_owned()));
            }
        }
        let family = Family::new(name, help, labels, kind, self.has_native_histograms(owner))
            .map_err(|source| MetricsError::Invalid(name.to_owned(), source))?;
        let family = Arc::new(family);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let entry = OwnedFamily {
            owner: owner.to_owned(),
            help: help.to_owned(),
            labels,
            family: family.clone(),
        };
        families.insert(name.to_owned(), entry);
        Ok(family)
    }

    /// Removes a family if it is registered and no other group holds it.
    fn release(&self, name: &str, family: Arc<Family>) {
        let mut families = self.inner.families.lock();
        if families
            .get(name)
            .is_some_and(|entry| Arc::ptr_eq(&entry.family, &family))
            && Arc::strong_count(&family) == 2
        {
            families.remove(name);
        }
    }
}

impl Family {
    fn new(
        name: &str,
        help: &str,
        labels: &[&str],
        kind: &Kind,
        is_native: bool,
    ) -> Result<Self, prometheus::Error> {
        let (registry, opts) = (Registry::new(), Opts::new(name, help));
        let vec = match kind {
            Kind::Counter => FamilyVec::Counter(created::counters(opts, labels)?),
            Kind::Gauge => FamilyVec::Gauge(GaugeVec::new(opts, labels)?),
            Kind::Sum => FamilyVec::Sum(Sums::new(GaugeVec::new(opts, labels)?)),
            Kind::Histogram(buckets) => {
                let opts = HistogramOpts::from(opts).buckets(buckets.clone());
                let declared = created::histograms(opts, labels)?;
                let vec = HistogramVec::new(declared, labels, is_native);
                FamilyVec::Histogram(vec, buckets.clone())
            }
        };
        match &vec {
            FamilyVec::Counter(vec) => registry.register(Box::new(vec.clone()))?,
            FamilyVec::Gauge(vec) => registry.register(Box::new(vec.clone()))?,
            FamilyVec::Sum(sums) => registry.register(Box::new(sums.gauges.clone()))?,
            FamilyVec::Histogram(vec, _) => registry.register(Box::new(vec.declared().clone()))?,
            FamilyVec::Collected => {}
        }
        Ok(Self { registry, vec })
    }
}

impl FamilyVec {
    fn is(&self, kind: &Kind) -> bool {
        match (self, kind) {
            (Self::Counter(_), Kind::Counter)
            | (Self::Gauge(_), Kind::Gauge)
            | (Self::Sum(_), Kind::Sum) => true,
            (Self::Histogram(_, ours), Kind::Histogram(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_buckets_are_written_as_given() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        metrics
            .counter("a_total", "Things.", &["name"])?
            .with_label_values(&["x"])
            .inc();
        metrics
            .histogram("b_seconds", "Time.", &[], &[0.5, 1.0])?
            .with_label_values::<&str>(&[])
            .observe(0.7);
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{name=\"x\"} 1\n\
                        # HELP b_seconds Time.\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"0.5\"} 0\n\
                        b_seconds_bucket{le=\"1\"} 1\nb_seconds_bucket{le=\"+Inf\"} 1\nb_seconds_sum 0.7\nb_seconds_count 1\n";
        assert_eq!(metrics.render(), expected);
        Ok(())
    }

    #[test]
    fn equal_declarations_share_a_family() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        metrics
            .counter("a_total", "Things.", &[])?
            .with_label_values::<&str>(&[])
            .inc();
        metrics
            .counter("a_total", "Things.", &[])?
            .with_label_values::<&str>(&[])
            .inc();
        assert!(metrics.render().contains("a_total 2\n"));
        assert!(matches!(
            metrics.gauge("a_total", "Things.", &[]),
            Err(MetricsError::Differs(_))
        ));
        Ok(())
    }

    #[test]
    fn a_scrape_function_runs_until_its_handle_is_dropped() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        let gauge = metrics
            .gauge("depth", "Depth.", &[])?
            .with_label_values::<&str>(&[]);
        let handle = metrics.on_scrape(move || gauge.inc());
        assert!(metrics.render().contains("depth 1\n"));
        drop(handle);
        assert!(metrics.render().contains("depth 1\n"));
        Ok(())
    }

    #[test]
    fn the_process_and_the_build_have_metrics() {
        let text = Metrics::new().render();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "kubernetes_build_info{build_date=\"\",compiler=\"rustc\",git_commit=\"\",git_tree_state=\"\",git_version=\"v1.",
        ] {
            assert!(
                text.contains(&format!("\n{name}")),
                "{name} is missing in {text}"
            );
        }
    }
}
