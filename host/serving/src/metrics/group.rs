//! Groups: the families of one owner, declared while the process runs and removed with the owner.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{Family, FamilyVec, Metrics, MetricsError, native};
use parking_lot::Mutex;

/// The maximum number of series of a family in a group, since plugins choose the label values.
const MAX_SERIES: usize = 1000;

/// The maximum size of all series of a group in bytes: of the memory, and of the lines of an exposition.
const MAX_SIZE: usize = 4 << 20;

/// The size of a series in memory without its texts and its buckets, in bytes.
const SERIES: usize = 640;

/// The size of a bucket in memory: its bound, and two counts.
const BUCKET: usize = 3 * size_of::<u64>();

/// The bytes of a line of an exposition without the metric's name and its labels: a suffix, a bound and a value.
const LINE: usize = 64;

/// The maximum length of a label value in bytes.
const MAX_LABEL_LENGTH: usize = 1024;

/// The type of a family.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    /// A gauge that shows the sum of the last values of all keys.
    Sum,
    /// With the upper bounds of its buckets.
    Histogram(Vec<f64>),
}

/// The families of one owner. Two groups of an owner share equal families, so that a plugin's new version continues the
/// counts of the old one. A family is removed with the last group that declared it.
///
/// ```
/// use flyball_serving::metrics::{Kind, Metrics};
/// let metrics = Metrics::new();
/// let mut group = metrics.group("greeter");
/// group.declare("greetings_total", "Greetings.", &["language"], Kind::Counter)?;
/// group.add("greetings_total", &["en"], 1.0)?;
/// drop(group);
/// assert!(!metrics.render().contains("greetings_total"));
/// # Ok::<(), flyball_serving::metrics::MetricsError>(())
/// ```
pub struct Group {
    metrics: Metrics,
    owner: String,
    /// The prefix of each name in the exposition.
    prefix: String,
    /// By the owner's names.
    families: BTreeMap<String, Declared>,
    /// The size of all series in bytes.
    size: AtomicUsize,
}

struct Declared {
    family: Arc<Family>,
    shape: Shape,
    /// The label values of all series, to limit their number.
    series: Mutex<HashSet<Vec<String>>>,
}

/// The parts of a family that determine the cost of each series.
struct Shape {
    /// The bytes of the name in the exposition and of the help.
    name: usize,
    help: usize,
    /// The bytes of the names of all labels, and their number.
    labels: usize,
    label_count: usize,
    buckets: usize,
}

impl Shape {
    /// The size of a series with these label values in bytes: of its memory, and of its lines in an exposition.
    fn size(&self, values: &[&str]) -> usize {
        let Self {
            name,
            help,
            labels,
            label_count,
            buckets,
        } = *self;
        let texts: usize = values.iter().map(|value| value.len()).sum();
        // Each series has a copy of the family's description, and holds the names of the labels twice. The values are
        // held by the series and, to count the series, by the group.
        let strings = 2 * values.len() + 2 * label_count;
        let kept = SERIES + name + help + 2 * labels + 2 * texts + strings * size_of::<String>();
        // A histogram has a line for each bucket, for the infinite one, the sum and the count. An escape doubles a
        // character.
        let lines = if buckets == 0 { 1 } else { buckets + 3 };
        kept + buckets * BUCKET + lines * (LINE + name + labels + 4 * label_count + 2 * texts)
    }
}

impl Group {
    pub(super) fn new(metrics: Metrics, owner: String, prefix: String) -> Self {
        Self {
            metrics,
            owner,
            prefix,
            families: BTreeMap::new(),
            size: AtomicUsize::new(0),
        }
    }

    /// Declares a family. A counter, gauge or histogram without labels is served as 0 from now on. Fails if another
    /// owner has the name, or if a name or the buckets are invalid. Labels that begin with `__` are Prometheus' own: a
    /// scrape that has them fails as a whole.
    pub fn declare(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&str],
        kind: Kind,
    ) -> Result<(), MetricsError> {
        let shown = format!("{}{name}", self.prefix);
        if let Some(label) = labels.iter().find(|label| label.starts_with("__")) {
            let message = format!("the label {label} is Prometheus' own");
            return Err(MetricsError::Invalid(
                shown,
                prometheus::Error::Msg(message),
            ));
        }
        let family = self
            .metrics
            .declare(&self.owner, &shown, help, labels, &kind)?;
        let buckets = match &kind {
            Kind::Histogram(buckets) if self.metrics.has_native_histograms(&self.owner) => {
                buckets.len() + native::MAX_BUCKETS
            }
            Kind::Histogram(buckets) => buckets.len(),
            Kind::Counter | Kind::Gauge | Kind::Sum => 0,
        };
        let declared = Declared {
            family,
            shape: Shape {
                name: shown.len(),
                help: help.len(),
                labels: labels.iter().map(|label| label.len()).sum(),
                label_count: labels.len(),
                buckets,
            },
            series: Mutex::default(),
        };
        if labels.is_empty() {
            declared.count(name, &[], &self.size, || declared.family.vec.begin())?;
        }
        if let Some(old) = self.families.insert(name.to_owned(), declared) {
            self.metrics.release(&shown, old.family);
        }
        Ok(())
    }

    /// Adds to a counter. The value must not be negative.
    pub fn add(&self, name: &str, labels: &[&str], value: f64) -> Result<(), MetricsError> {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(MetricsError::Value(name.to_owned()));
        }
        let declared = self.declared(name, "counter")?;
        let FamilyVec::Counter(vec) = &declared.family.vec else {
            return Err(MetricsError::Undeclared(name.to_owned(), "counter"));
        };
        declared.count(name, labels, &self.size, || {
            vec.get_metric_with_label_values(labels)
                .map(|series| series.inc_by(value))
        })
    }

    /// Sets a gauge, or the part of a key in a sum: 0 removes the part.
    pub fn set(
        &self,
        name: &str,
        labels: &[&str],
        key: &str,
        value: f64,
    ) -> Result<(), MetricsError> {
        let declared = self.declared(name, "gauge")?;
        match &declared.family.vec {
            FamilyVec::Gauge(vec) => declared.count(name, labels, &self.size, || {
                vec.get_metric_with_label_values(labels)
                    .map(|series| series.set(value))
            }),
            FamilyVec::Sum(_) if !value.is_finite() => Err(MetricsError::Value(name.to_owned())),
            FamilyVec::Sum(sums) => {
                let room = || MAX_SIZE.saturating_sub(self.size());
                let mut has_room = true;
                declared.count(name, labels, &self.size, || {
                    has_room = sums.set(labels, key, value, room)?;
                    Ok(())
                })?;
                if has_room {
                    Ok(())
                } else {
                    Err(MetricsError::TooLarge(name.to_owned(), MAX_SIZE))
                }
            }
            _ => Err(MetricsError::Undeclared(name.to_owned(), "gauge")),
        }
    }

    /// The size of all series in bytes, in memory and in an exposition.
    pub fn size(&self) -> usize {
        self.size.load(Relaxed) + self.parts_size()
    }

    /// The size of the parts of all sums in bytes.
    fn parts_size(&self) -> usize {
        let families = self.families.values();
        families
            .map(|declared| match &declared.family.vec {
                FamilyVec::Sum(sums) => sums.size(),
                _ => 0,
            })
            .sum()
    }

    /// Observes a value in a histogram.
    pub fn observe(&self, name: &str, labels: &[&str], value: f64) -> Result<(), MetricsError> {
        let declared = self.declared(name, "histogram")?;
        let FamilyVec::Histogram(vec, _) = &declared.family.vec else {
            return Err(MetricsError::Undeclared(name.to_owned(), "histogram"));
        };
        declared.count(name, labels, &self.size, || {
            vec.get_metric_with_label_values(labels)
                .map(|series| series.observe(value))
        })
    }

    fn declared(&self, name: &str, kind: &'static str) -> Result<&Declared, MetricsError> {
        self.families
            .get(name)
            .ok_or_else(|| MetricsError::Undeclared(name.to_owned(), kind))
    }
}

impl FamilyVec {
    /// Creates the series of a family without labels, except for sums.
    fn begin(&self) -> prometheus::Result<()> {
        match self {
            Self::Counter(vec) => vec.get_metric_with_label_values::<&str>(&[]).map(drop),
            Self::Gauge(vec) => vec.get_metric_with_label_values::<&str>(&[]).map(drop),
            Self::Histogram(vec, _) => vec.get_metric_with_label_values::<&str>(&[]).map(drop),
            Self::Sum(_) | Self::Collected => Ok(()),
        }
    }
}

impl Declared {
    /// Runs `count` if the family has the series or may have another one.
    fn count(
        &self,
        name: &str,
        labels: &[&str],
        size: &AtomicUsize,
        count: impl FnOnce() -> prometheus::Result<()>,
    ) -> Result<(), MetricsError> {
        if labels.iter().any(|label| label.len() > MAX_LABEL_LENGTH) {
            return Err(MetricsError::Value(name.to_owned()));
        }
        let own = self.shape.size(labels);
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let mut series = self.series.lock();
        let is_new = !series.contains(&labels);
        if is_new && series.len() >= MAX_SERIES {
            return Err(MetricsError::TooManySeries(name.to_owned(), MAX_SERIES));
        }
        if is_new && size.load(Relaxed) + own > MAX_SIZE {
            return Err(MetricsError::TooLarge(name.to_owned(), MAX_SIZE));
        }
        count().map_err(|_| MetricsError::Value(name.to_owned()))?;
        if series.insert(labels) {
            size.fetch_add(own, Relaxed);
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (name, declared) in std::mem::take(&mut self.families) {
            let shown = format!("{}{name}", self.prefix);
            self.metrics.release(&shown, declared.family);
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_fakes::memory::{is_alone, resident};

    use super::*;

    fn greeter(metrics: &Metrics, labels: &[&str]) -> Group {
        let mut group = metrics.group("greeter");
        group
            .declare("greetings_total", "Greetings.", labels, Kind::Counter)
            .expect("the name is free");
        group
    }

    #[test]
    fn a_new_version_continues_the_counts_of_the_old_one() {
        let metrics = Metrics::default();
        let old = greeter(&metrics, &["to"]);
        old.add("greetings_total", &["a"], 1.0).expect("declared");
        let new = greeter(&metrics, &["to"]);
        drop(old);
        new.add("greetings_total", &["a"], 1.0).expect("declared");
        assert!(metrics.render().contains("greetings_total{to=\"a\"} 2\n"));
        drop(new);
        assert_eq!(metrics.render(), "");
    }

    #[test]
    fn a_family_without_labels_is_served_as_zero_from_its_declaration() {
        let metrics = Metrics::default();
        let group = greeter(&metrics, &[]);
        assert!(metrics.render().contains("greetings_total 0\n"));
        group.add("greetings_total", &[], 1.0).expect("declared");
        let newer = greeter(&metrics, &[]);
        drop(group);
        assert!(metrics.render().contains("greetings_total 1\n"));
        drop(newer);
        let _labelled = greeter(&metrics, &["to"]);
        assert!(!metrics.render().contains("greetings_total 0\n"));
    }

    #[test]
    fn a_new_version_may_change_the_labels_and_the_old_one_does_not_remove_the_family() {
        let metrics = Metrics::default();
        let old = greeter(&metrics, &["to"]);
        let new = greeter(&metrics, &["to", "from"]);
        old.add("greetings_total", &["a"], 1.0).expect("declared");
        drop(old);
        new.add("greetings_total", &["a", "b"], 1.0)
            .expect("declared");
        assert!(
            metrics
                .render()
                .contains("greetings_total{from=\"b\",to=\"a\"} 1\n"),
            "{}",
            metrics.render()
        );
    }

    #[test]
    fn a_plugin_can_not_declare_families_of_the_host_or_of_another_plugin() {
        let metrics = Metrics::default();
        metrics
            .counter("workqueue_adds_total", "Adds.", &["name"])
            .expect("the name is free");
        let _greeter = greeter(&metrics, &[]);
        let mut other = metrics.group("other");
        for name in ["workqueue_adds_total", "greetings_total"] {
            let error = other
                .declare(name, "Adds.", &["name"], Kind::Counter)
                .expect_err("the name is taken");
            assert!(matches!(error, MetricsError::Taken(..)), "{error}");
        }
        for (name, label) in [("no name", "a"), ("name", "no label"), ("name", "__name__")] {
            assert!(matches!(
                other.declare(name, "", &[label], Kind::Gauge),
                Err(MetricsError::Invalid(..))
            ));
        }
    }

    #[test]
    fn a_group_with_a_prefix_takes_no_name_of_another_one() {
        let metrics = Metrics::default();
        let mut other = metrics.group_with_prefix("other", "plugin_other__");
        let declared = other.declare("greetings_total", "Adds.", &[], Kind::Counter);
        declared.expect("the name is free");
        other.add("greetings_total", &[], 1.0).expect("declared");
        let own = greeter(&metrics, &[]);
        own.add("greetings_total", &[], 2.0).expect("declared");
        let text = metrics.render();
        for line in [
            "\ngreetings_total 2\n",
            "\nplugin_other__greetings_total 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        drop((other, own));
        assert_eq!(metrics.render(), "");
    }

    #[test]
    fn invalid_values_of_a_guest_are_errors_and_never_panics() {
        let metrics = Metrics::default();
        let group = greeter(&metrics, &["to"]);
        assert!(matches!(
            group.add("greetings_total", &[], 1.0),
            Err(MetricsError::Value(_))
        ));
        assert!(matches!(
            group.add("greetings_total", &["a"], -1.0),
            Err(MetricsError::Value(_))
        ));
        assert!(matches!(
            group.add("greetings_total", &["a"], f64::NAN),
            Err(MetricsError::Value(_))
        ));
        let long = "x".repeat(MAX_LABEL_LENGTH + 1);
        assert!(matches!(
            group.add("greetings_total", &[&long], 1.0),
            Err(MetricsError::Value(_))
        ));
        assert!(matches!(
            group.set("greetings_total", &["a"], "", 1.0),
            Err(MetricsError::Undeclared(..))
        ));
        assert!(matches!(
            group.observe("other", &["a"], 1.0),
            Err(MetricsError::Undeclared(..))
        ));
        let count = |i: usize| group.add("greetings_total", &[&i.to_string()], 1.0);
        (0..MAX_SERIES).for_each(|i| assert!(count(i).is_ok()));
        assert!(matches!(
            count(MAX_SERIES),
            Err(MetricsError::TooManySeries(..))
        ));
    }

    /// Names, helps and bounds of buckets that each series repeats are a part of its cost.
    #[test]
    fn an_exposition_is_no_larger_than_the_limit_of_the_group() {
        let metrics = Metrics::default();
        let mut group = metrics.group("greeter");
        let long = |letter: &str| letter.repeat(1024);
        let buckets: Vec<f64> = (0..64).map(f64::from).collect();
        let labels = [long("a"), long("b")];
        let labels = labels.each_ref().map(String::as_str);
        for number in 0..4 {
            let (name, kind) = (
                format!("{}{number}", long("m")),
                Kind::Histogram(buckets.clone()),
            );
            let declared = group.declare(&name, &long("h"), &labels, kind);
            declared.expect("the name is free");
            for series in 0..MAX_SERIES {
                // Each quote is escaped.
                let value = format!("{}{series}", "\"".repeat(1000));
                let _ = group.observe(&name, &[&value, &value], 1.0);
            }
        }
        let size = metrics.render().len();
        assert!((MAX_SIZE / 4..=MAX_SIZE).contains(&size), "{size} bytes");
    }

    /// Many small series cost the most in addition to their texts.
    #[test]
    fn groups_that_are_full_take_no_more_memory_than_they_may() {
        const TEST: &str =
            "metrics::group::tests::groups_that_are_full_take_no_more_memory_than_they_may";
        const GROUPS: usize = 16;
        if !is_alone(TEST) {
            return;
        }
        let metrics = Metrics::default();
        let before = resident();
        let mut groups = Vec::new();
        for owner in 0..GROUPS {
            let mut group = metrics.group(owner.to_string());
            'full: for number in 0.. {
                let name = format!("o{owner}m{number}");
                let declared = group.declare(&name, "h", &["a"], Kind::Counter);
                declared.expect("the name is free");
                for series in 0..MAX_SERIES {
                    match group.add(&name, &[&series.to_string()], 1.0) {
                        Ok(()) => {}
                        Err(MetricsError::TooLarge(..)) => break 'full,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            groups.push(group);
        }
        let grown = resident().saturating_sub(before);
        assert!(grown <= GROUPS * MAX_SIZE, "{grown} bytes");
    }

    #[test]
    fn a_sum_shows_what_each_key_has_set_last() {
        let metrics = Metrics::default();
        let sum = || {
            let mut group = metrics.group("greeter");
            let declared = group.declare("guests", "Guests.", &["room"], Kind::Sum);
            declared.expect("the name is free");
            group
        };
        let old = sum();
        let set = |group: &Group, room, key, value| group.set("guests", &[room], key, value);
        set(&old, "a", "x", 3.0).expect("declared");
        set(&old, "a", "y", 4.0).expect("declared");
        set(&old, "b", "x", 1.0).expect("declared");
        let new = sum();
        drop(old);
        set(&new, "a", "x", 1.0).expect("declared");
        set(&new, "b", "x", 0.0).expect("declared");
        let text = metrics.render();
        for line in ["guests{room=\"a\"} 5\n", "guests{room=\"b\"} 0\n"] {
            assert!(text.contains(line), "{text}");
        }
        for invalid in [f64::NAN, f64::INFINITY] {
            assert!(matches!(
                set(&new, "a", "x", invalid),
                Err(MetricsError::Value(_))
            ));
        }
    }

    #[test]
    fn the_parts_of_sums_are_limited_in_size_and_removed_parts_make_room() {
        let metrics = Metrics::default();
        let mut group = metrics.group("greeter");
        let declared = group.declare("guests", "Guests.", &[], Kind::Sum);
        declared.expect("the name is free");
        let set = |key: usize, value| group.set("guests", &[], &key.to_string(), value);
        let refused = (0..).find_map(|key| Some((key, set(key, 1.0).err()?)));
        let (parts, error) = refused.expect("an infinite range");
        assert!(matches!(error, MetricsError::TooLarge(..)), "{error}");
        assert!((10_000..40_000).contains(&parts), "{parts}");
        set(0, 2.0).expect("a known key goes on");
        set(0, 0.0).expect("it is removed");
        set(parts, 1.0).expect("there is room again");
        assert!(metrics.render().contains(&format!("guests {parts}\n")));
    }

    #[test]
    fn all_series_of_a_group_together_are_limited_in_size() {
        let metrics = Metrics::default();
        let mut group = metrics.group("greeter");
        for family in 0..10 {
            let buckets = Kind::Histogram(vec![1.0]);
            let name = format!("seconds_{family}");
            group
                .declare(&name, "Time.", &["to"], buckets)
                .expect("the name is free");
        }
        let observe = |series: usize| {
            let (name, label) = (format!("seconds_{}", series % 10), "x".repeat(1000));
            group.observe(&name, &[&format!("{series}{label}")], 1.0)
        };
        let refused = (0..).find_map(|series| Some((series, observe(series).err()?)));
        let (series, error) = refused.expect("an infinite range");
        assert!(matches!(error, MetricsError::TooLarge(..)), "{error}");
        assert!((200..1000).contains(&series), "{series}");
        assert!(observe(0).is_ok(), "a known series goes on");
    }
}
