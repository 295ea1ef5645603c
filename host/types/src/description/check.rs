//! Checks of a description, made once when a plugin is loaded: names are well formed, and what is
//! referred to exists.

use std::collections::BTreeSet;

use super::{
    Change, Description, Discovered, FORMAT, Having, IMPORTS, Mapping, Metric, MetricType,
    Permission, Queue, To, VERBS, Watch,
};
use crate::{FieldPath, FieldSelector, Kind, LabelSelector, printable};

/// The longest name of a queue in bytes.
const MAX_QUEUE_NAME: usize = 63;
/// Bytes of a name that a message shows.
const MAX_SHOWN: usize = 80;

/// A description that can't be used. Only another build of the plugin helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The document is not JSON, or it has an unknown or missing field.
    #[error("`describe` did not return a valid description: {0}")]
    Parse(String),
    /// The format is newer than [`FORMAT`].
    #[error(
        "the description has format {0}, but this host reads formats up to {FORMAT}: run a newer host, or build the plugin with an older SDK"
    )]
    Format(u32),
    /// The document is larger than any plugin needs.
    #[error("`describe` returned a document that is too large: {0}")]
    TooLarge(String),
    /// Parts of the description contradict each other, or there are too many.
    #[error("the description of `{plugin}` is not valid: {problem}")]
    Invalid {
        /// The beginning of the plugin's name.
        plugin: String,
        /// What is wrong, and where.
        problem: String,
    },
}

/// The result of one check. The error is a sentence without the plugin's name.
type Checked = Result<(), String>;

impl Description {
    /// Checks that names are well formed and that what is referred to exists.
    pub fn check(&self) -> Result<(), DescriptionError> {
        self.check_all()
            .map_err(|problem| DescriptionError::Invalid {
                plugin: shown(&self.name),
                problem,
            })
    }

    fn check_all(&self) -> Checked {
        if !is_dns_label(&self.name) {
            return Err(format!(
                "the name `{}` is not a DNS label: use lower-case letters, digits and dashes",
                shown(&self.name)
            ));
        }
        self.check_counts()?;
        self.check_queues()?;
        self.check_watches()?;
        self.check_indexes()?;
        self.check_tickers()?;
        self.permissions
            .iter()
            .try_for_each(Permission::check_names)?;
        match self
            .imports
            .iter()
            .find(|import| !IMPORTS.contains(&import.as_str()))
        {
            Some(import) => Err(format!(
                "the import `{}` is unknown: the imports that need a grant are {}",
                shown(import),
                IMPORTS.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Checks the lengths of all lists. Each entry costs the host memory, and some cost time with each change of an object.
    fn check_counts(&self) -> Checked {
        let mappings = self.watches.iter().map(|watch| watch.map.len()).sum();
        for (count, most, what) in [
            (self.watches.len(), 64, "watches"),
            (mappings, 256, "mappings"),
            (self.indexes.len(), 64, "indexes"),
            (self.queues.len(), 32, "queues"),
            (self.tickers.len(), 64, "tickers"),
            (self.permissions.len(), 1000, "permissions"),
            (self.config.len(), 256, "configuration keys"),
            (self.metrics.len(), 256, "metrics"),
        ] {
            at_most(count, most, what)?;
        }
        self.watches.iter().try_for_each(Watch::check_counts)?;
        self.watched_kinds()
            .into_iter()
            .try_for_each(|kind| self.check_counts_of(kind))?;
        let selecting = self.watches.iter().filter(|watch| watch.is_of_a_part());
        at_most(selecting.count(), 16, "watches of a part of a kind")?;
        self.metrics.iter().try_for_each(Metric::check_counts)
    }

    /// Checks what one kind costs: each watch of another part of it may have a cache of its own, and the cache applies each
    /// index to each change.
    fn check_counts_of(&self, kind: &Kind) -> Checked {
        let watches = self.watches.iter();
        let watches = watches.filter(|watch| watch.kind.as_ref() == Some(kind));
        let mappings = self.watches.iter().flat_map(|watch| &watch.map);
        let selectors = mappings.filter_map(|mapping| match &mapping.to {
            To::Selecting { kind: of, path, .. } if of == kind => Some(path),
            _ => None,
        });
        let indexes = self.indexes.iter().filter(|index| index.kind == *kind);
        let indexes = indexes.map(|index| &index.path).collect::<BTreeSet<_>>();
        let selectors = selectors.collect::<BTreeSet<_>>();
        [
            (watches.count(), 4, "watches"),
            (indexes.len(), 8, "indexed paths"),
            (selectors.len(), 4, "paths of selectors"),
        ]
        .into_iter()
        .try_for_each(|(count, most, what)| {
            at_most(count, most, what)
                .map_err(|problem| format!("{}: {problem}", shown(&kind.to_string())))
        })
    }

    fn check_queues(&self) -> Checked {
        if self.queues.is_empty() {
            return Err("it has no queue".into());
        }
        let names: BTreeSet<&str> = self.queue_names().collect();
        if names.len() < self.queues.len() || names.contains("") {
            return Err("two queues have the same name, or one has none".into());
        }
        self.queues.iter().try_for_each(Queue::check)
    }

    fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|queue| queue.name.as_str())
    }

    fn watched_kinds(&self) -> BTreeSet<&Kind> {
        self.watches
            .iter()
            .filter_map(|watch| watch.kind.as_ref())
            .collect()
    }

    fn check_watches(&self) -> Checked {
        let (queues, watched) = (self.queue_names().collect(), self.watched_kinds());
        for (number, watch) in self.watches.iter().enumerate() {
            let (place, checked) = match (&watch.kind, &watch.discovered) {
                (Some(kind), None) => (format!("watch of {kind}"), Ok(())),
                (None, Some(discovered)) => (
                    "watch of discovered kinds".into(),
                    self.check_discovered(discovered, watch),
                ),
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "watch {number} has both a `kind` and `discovered`: use one of them"
                    ));
                }
                (None, None) => {
                    return Err(format!(
                        "watch {number} has neither a `kind` nor `discovered`"
                    ));
                }
            };
            watch
                .check(&watched, &queues)
                .and(checked)
                .and_then(|()| self.check_mask(watch))
                .map_err(|problem| format!("{place}: {problem}"))?;
        }
        let discovering = self
            .watches
            .iter()
            .filter(|watch| watch.discovered.is_some());
        if discovering.count() > 1 {
            return Err(
                "two watches discover kinds: a kind that one of them excludes, the other may show"
                    .into(),
            );
        }
        Ok(())
    }

    /// Checks that the fields of a watch together are not too complex.
    fn check_mask(&self, watch: &Watch) -> Checked {
        let discovered = Kind::new("", "", "");
        let kind = watch.kind.as_ref().unwrap_or(&discovered);
        let mask = self.watched_paths(watch, kind).mask();
        mask.map(drop).map_err(|error| error.to_string())
    }

    fn check_discovered(&self, discovered: &Discovered, watch: &Watch) -> Checked {
        if discovered.period_ms == 0 {
            return Err("`periodMs` is 0: it must be at least 1".into());
        }
        check_verbs(&discovered.verbs, &VERBS)?;
        let is_counter = self.metrics.iter().any(|metric| {
            metric.name == discovered.errors && metric.metric_type == MetricType::Counter
        });
        if !discovered.errors.is_empty() && !is_counter {
            return Err(format!(
                "`errors` names `{}`, which is not a counter among the metrics",
                discovered.errors
            ));
        }
        if !watch.field_selector.is_empty() {
            return Err("it has a field selector, which not every kind supports".into());
        }
        let beyond_metadata = |path: &&String| !path.starts_with("metadata");
        if let Some(path) = watch.fields.iter().find(beyond_metadata) {
            return Err(format!(
                "it reads `{path}`, but only the metadata of discovered kinds is cached"
            ));
        }
        if watch.map.iter().any(|mapping| mapping.to == To::Itself) {
            return Err(
                "the keys of a mapping to `itself` do not contain the kind: use `reference`".into(),
            );
        }
        Ok(())
    }

    fn check_indexes(&self) -> Checked {
        let watched = self.watched_kinds();
        for index in &self.indexes {
            if !watched.contains(&index.kind) {
                return Err(format!(
                    "the index `{}` is over {}, which is not watched",
                    index.name, index.kind
                ));
            }
            check_path(&index.path)
                .map_err(|problem| format!("the index `{}`: {problem}", index.name))?;
        }
        Ok(())
    }

    fn check_tickers(&self) -> Checked {
        let queues: BTreeSet<&str> = self.queue_names().collect();
        for ticker in &self.tickers {
            let place = |problem| format!("the ticker of `{}`: {problem}", shown(&ticker.key));
            if ticker.period_ms == 0 {
                return Err(place("`periodMs` is 0: it must be at least 1".into()));
            }
            check_queue(&ticker.queue, &queues).map_err(place)?;
        }
        Ok(())
    }
}

impl Queue {
    fn check(&self) -> Checked {
        let place = |problem| Err(format!("the queue `{}`: {problem}", shown(&self.name)));
        // It is a label of the host's metrics.
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.len() > MAX_QUEUE_NAME || !self.name.chars().all(is_in_name) {
            return place("its name must have at most 63 letters, digits, `-`, `_` and `.`");
        }
        if !self.qps.is_finite() || self.qps < 0.0 {
            return place("`qps` must be zero or more");
        }
        if self.base_delay_ms > self.max_delay_ms {
            return place("`baseDelayMs` is greater than `maxDelayMs`");
        }
        Ok(())
    }
}

impl Permission {
    fn check_names(&self) -> Checked {
        let place = |problem| format!("the permission on {}: {problem}", self.kind);
        let is_known = self.subresource.is_empty()
            || self.subresource == "*"
            || is_dns_label(&self.subresource);
        if !is_known {
            return Err(place(format!(
                "the subresource `{}` is not a name: use lower-case letters, digits and dashes",
                shown(&self.subresource)
            )));
        }
        let allowed: Vec<&str> = VERBS.into_iter().chain(["*"]).collect();
        check_verbs(&self.verbs, &allowed).map_err(place)
    }
}

impl Watch {
    /// Whether it shows only the objects of a namespace or those that a selector matches.
    fn is_of_a_part(&self) -> bool {
        let selectors = [&self.namespace, &self.label_selector, &self.field_selector];
        selectors.into_iter().any(|selector| !selector.is_empty())
    }

    fn check_counts(&self) -> Checked {
        at_most(self.fields.len(), 512, "fields of a watch")?;
        at_most(self.changes.len(), 64, "predicates of a watch")?;
        at_most(self.map.len(), 64, "mappings of a watch")?;
        if let Some(discovered) = &self.discovered {
            at_most(discovered.except.len(), 256, "excluded kinds")?;
        }
        let broad =
            |mapping: &&Mapping| matches!(mapping.to, To::All { .. } | To::InNamespace { .. });
        at_most(
            self.map.iter().filter(broad).count(),
            4,
            "mappings of a watch to all objects",
        )?;
        self.map.iter().try_for_each(|mapping| {
            let whose = match &mapping.to {
                To::Selecting { whose, .. } => whose.len(),
                _ => 0,
            };
            let values = mapping.having.len() + mapping.having_any.len() + whose;
            at_most(values, 16, "values of a mapping")
        })
    }

    fn check(&self, watched: &BTreeSet<&Kind>, queues: &BTreeSet<&str>) -> Checked {
        if !self.namespace.is_empty() && !is_dns_label(&self.namespace) {
            return Err(format!(
                "`{}` is not the name of a namespace",
                shown(&self.namespace)
            ));
        }
        self.label_selector
            .parse::<LabelSelector>()
            .map_err(|error| error.to_string())?;
        self.field_selector
            .parse::<FieldSelector>()
            .map_err(|error| error.to_string())?;
        let changes = self.changes.iter().filter_map(|change| match change {
            Change::Path(path) => Some(path),
            Change::Generation | Change::Labels => None,
        });
        self.fields
            .iter()
            .chain(changes)
            .try_for_each(|path| check_path(path))?;
        self.map
            .iter()
            .try_for_each(|mapping| mapping.check(watched, queues))
    }
}

impl Mapping {
    fn check(&self, watched: &BTreeSet<&Kind>, queues: &BTreeSet<&str>) -> Checked {
        check_queue(&self.queue, queues).map_err(|problem| format!("a mapping: {problem}"))?;
        check_values(&self.having)?;
        self.having_any
            .iter()
            .try_for_each(|path| check_path(path))?;
        match &self.to {
            To::Named { path, .. } => check_path(path),
            To::Selecting { kind, path, whose } => {
                check_path(path)?;
                check_values(whose)?;
                check_watched(kind, watched)
            }
            To::InNamespace { kind } | To::All { kind } => check_watched(kind, watched),
            _ => Ok(()),
        }
    }
}

impl Metric {
    fn check_counts(&self) -> Checked {
        at_most(self.labels.len(), 16, "labels of a metric")?;
        match &self.metric_type {
            MetricType::Histogram(buckets) => at_most(buckets.len(), 64, "buckets of a metric"),
            MetricType::Counter | MetricType::Gauge => Ok(()),
        }
    }
}

fn at_most(count: usize, most: usize, what: &str) -> Checked {
    if count <= most {
        return Ok(());
    }
    Err(format!("it has {count} {what}, more than {most}"))
}

fn check_watched(kind: &Kind, watched: &BTreeSet<&Kind>) -> Checked {
    if watched.contains(kind) {
        return Ok(());
    }
    Err(format!("a mapping is to {kind}, which is not watched"))
}

fn check_values(values: &[Having]) -> Checked {
    values.iter().try_for_each(|value| check_path(&value.path))
}

fn check_path(path: &str) -> Checked {
    path.parse::<FieldPath>()
        .map(drop)
        .map_err(|error| error.to_string())
}

fn check_queue(name: &str, queues: &BTreeSet<&str>) -> Checked {
    if name.is_empty() || queues.contains(name) {
        return Ok(());
    }
    Err(format!("the queue `{name}` is not among the queues"))
}

fn check_verbs(verbs: &BTreeSet<String>, allowed: &[&str]) -> Checked {
    match verbs.iter().find(|verb| !allowed.contains(&verb.as_str())) {
        Some(verb) => Err(format!(
            "the verb `{}` is unknown: use {}",
            shown(verb),
            allowed.join(", ")
        )),
        None => Ok(()),
    }
}

/// The beginning of an untrusted name, for a message, on one line.
fn shown(name: &str) -> String {
    let (shown, hidden) = name.split_at(name.floor_char_boundary(MAX_SHOWN));
    let more = if hidden.is_empty() { "" } else { "…" };
    format!("{}{more}", printable(shown))
}

/// RFC 1123: at most 63 lower-case letters, digits and inner dashes.
fn is_dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KindPattern;
    use crate::description::Owners;

    const GOOD: &str = r#"{
        "format": 1, "name": "replicaset-controller", "queues": [{"name": "replicaset"}],
        "watches": [
            {"kind": "apps/v1/ReplicaSet", "fields": ["."], "map": [{"to": "itself"}]},
            {"kind": "v1/Pod", "fields": ["status.phase"], "map": [
                {"to": "controller", "kind": "apps/v1/ReplicaSet"},
                {"to": "selecting", "kind": "apps/v1/ReplicaSet", "path": "spec.selector", "orphans": true, "delayMs": 5}
            ]}
        ]
    }"#;

    /// `GOOD` with one more field.
    fn good_with(field: &str) -> String {
        GOOD.replacen(r#""format": 1"#, &format!(r#""format": 1, {field}"#), 1)
    }

    #[test]
    fn a_message_shows_the_beginning_of_a_name_on_one_line() {
        let long = "a".repeat(200_000);
        for (name, shown) in [("fau\nlty\u{1b}[2J", r"fau\nlty\u001b[2J"), (&long, "aaa")] {
            let description = Description {
                name: name.to_owned(),
                ..Description::default()
            };
            let error = description.check().unwrap_err().to_string();
            assert!(error.contains(&format!("`{shown}")), "{error}");
            assert!(error.len() < 500 && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_costs_the_caches_most_is_bounded_for_each_kind() {
        let refused = |watches: &str, more: &str| {
            let document = format!(
                r#"{{"format": 1, "name": "a", "queues": [{{"name": "a"}}], "watches": [{watches}]{more}}}"#
            );
            Description::read(&document).unwrap_err().to_string()
        };
        let list = |count: usize, one: &dyn Fn(usize) -> String| {
            Vec::from_iter((0..count).map(one)).join(",")
        };
        let watch = |map: String| format!(r#"{{"kind": "v1/Pod", "map": [{map}]}}"#);
        let part =
            |kind: usize| format!(r#"{{"kind": "example.com/v1/K{kind}", "labelSelector": "a"}}"#);
        let selecting = |path: usize| {
            format!(r#"{{"to": "selecting", "kind": "v1/Pod", "path": "spec.a{path}"}}"#)
        };
        let broad = |_| r#"{"to": "all", "kind": "v1/Pod"}"#.to_owned();
        let index = |path: usize| {
            format!(r#"{{"name": "i{path}", "kind": "v1/Pod", "path": "spec.a{path}"}}"#)
        };
        let indexes = format!(r#", "indexes": [{}]"#, list(9, &index));
        for (error, expected) in [
            (
                refused(&list(5, &|_| watch(String::new())), ""),
                "v1/Pod: it has 5 watches, more than 4",
            ),
            (
                refused(&list(17, &part), ""),
                "17 watches of a part of a kind, more than 16",
            ),
            (
                refused(&watch(list(5, &selecting)), ""),
                "v1/Pod: it has 5 paths of selectors, more than 4",
            ),
            (
                refused(&watch(list(5, &broad)), ""),
                "5 mappings of a watch to all objects, more than 4",
            ),
            (
                refused(&watch(String::new()), &indexes),
                "v1/Pod: it has 9 indexed paths, more than 8",
            ),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_description_is_read_and_written_again() {
        let description = Description::read(GOOD).unwrap();
        assert_eq!(description.watches.len(), 2);
        assert_eq!(description.watches[1].map[1].delay_ms, 5);
        assert_eq!(description.queues[0].base_delay_ms, 5);
        assert_eq!(
            Description::read(&serde_json::to_string(&description).unwrap()),
            Ok(description)
        );
    }

    #[test]
    fn a_permission_may_be_on_all_kinds() {
        let asking = |kind: &str| {
            let asked = format!(r#""permissions": [{{"kind": "{kind}", "verbs": ["delete"]}}]"#);
            Description::read(&good_with(&asked))
        };
        let description = asking("*").unwrap();
        assert_eq!(description.permissions[0].kind, KindPattern::All);
        assert_eq!(
            Description::read(&serde_json::to_string(&description).unwrap()),
            Ok(description)
        );
        assert!(
            asking("v1/*")
                .unwrap_err()
                .to_string()
                .contains("`v1/*` is not a kind")
        );
    }

    #[test]
    fn discovered_kinds_have_a_period_and_only_what_all_kinds_have() {
        let following = |watch: &str| {
            let watch = format!(
                r#"{{"discovered": {{"verbs": ["delete"], "periodMs": 30000}}, {watch}}}, {{"kind""#
            );
            Description::read(&GOOD.replacen(r#"{"kind""#, &watch, 1))
        };
        let description = following(
            r#""map": [{"to": "reference"}, {"to": "ownerReferences", "which": "missing"}]"#,
        );
        let description = description.unwrap();
        assert_eq!(
            Description::read(&serde_json::to_string(&description).unwrap()),
            Ok(description)
        );
        for (watch, expected) in [
            (r#""kind": "v1/Pod""#, "has both a `kind` and `discovered`"),
            (r#""fields": ["spec"]"#, "only the metadata"),
            (
                r#""fieldSelector": "metadata.name=a""#,
                "not every kind supports",
            ),
            (r#""map": [{"to": "itself"}]"#, "use `reference`"),
            (
                r#""map": [{"to": "reference", "having": {"path": "a..b", "value": ""}}]"#,
                "a..b",
            ),
            (
                r#""map": [{"to": "reference", "havingAny": ["c..d"]}]"#,
                "c..d",
            ),
            (r#""discovered": {"periodMs": 0}"#, "duplicate field"),
        ] {
            let error = following(watch).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let timeless = GOOD.replacen(
            r#"{"kind""#,
            r#"{"discovered": {"periodMs": 0}}, {"kind""#,
            1,
        );
        assert!(
            Description::read(&timeless)
                .unwrap_err()
                .to_string()
                .contains("`periodMs` is 0")
        );
        let counting = r#"{"discovered": {"periodMs": 1, "errors": "lost"}}, {"kind""#;
        let error = Description::read(&GOOD.replacen(r#"{"kind""#, counting, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`lost`, which is not a counter"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_the_place() {
        for (from, to, expected) in [
            (r#""format": 1"#, r#""format": 9"#, "format 9"),
            ("replicaset-controller", "Replica Set", "not a DNS label"),
            (r#"[{"name": "replicaset"}]"#, "[]", "no queue"),
            (
                r#"[{"name": "replicaset"}]"#,
                r#"[{"name": "a/b"}]"#,
                "the queue `a/b`: its name must have",
            ),
            (
                r#""path": "spec.selector""#,
                r#""path": "spec..selector""#,
                "spec..selector",
            ),
            (
                r#""path": "spec.selector""#,
                r#""path": "spec", "whose": {"path": "a..b", "value": ""}"#,
                "a..b",
            ),
            (
                r#""selecting", "kind": "apps/v1/ReplicaSet""#,
                r#""selecting", "kind": "v1/Service""#,
                "v1/Service, which is not",
            ),
            (
                r#"{"to": "itself"}"#,
                r#"{"to": "itself", "queue": "other"}"#,
                "queue `other`",
            ),
            (r#"{"to": "itself"}"#, r#"{"to": "elsewhere"}"#, "elsewhere"),
            (r#""status.phase""#, r#""status phase""#, "status phase"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = Description::read(&GOOD.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_description_with_every_field_reads_back_as_it_was_written() {
        let full = r#"{
            "format": 1, "name": "full", "version": "1", "concurrency": 2, "eventSource": "s", "memoSchema": 1,
            "watches": [{
                "kind": "v1/Pod", "namespace": "n", "labelSelector": "a=b", "fieldSelector": "metadata.name=x",
                "metadataOnly": true, "fields": ["spec"], "changes": ["generation", {"path": "spec"}],
                "map": [
                    {"to": "named", "path": "spec.nodeName", "namespaced": false},
                    {"to": "selecting", "kind": "v1/Pod", "path": "spec", "orphans": true, "whose": {"path": "spec", "value": "a"}},
                    {"to": "constant", "key": "k", "on": ["added"], "queue": "q", "delayMs": 5},
                    {"to": "route", "having": [{"path": "spec", "value": "a"}, {"path": "status", "value": "b"}]},
                    {"to": "reference", "deleting": true, "havingAny": ["spec", "status"], "having": {"path": "metadata.finalizers", "value": "orphan"}},
                    {"to": "ownerReferences", "which": "deleting"}
                ]
            }, {
                "discovered": {
                    "verbs": ["delete"], "except": ["v1/Event"], "periodMs": 1, "config": "period", "errors": "c"
                }
            }],
            "indexes": [{"name": "i", "kind": "v1/Pod", "path": "spec"}],
            "queues": [{"name": "q", "baseDelayMs": 1, "maxDelayMs": 2, "qps": 1, "burst": 1, "maxRetries": 1}],
            "tickers": [{"key": "k", "queue": "q", "periodMs": 1, "config": "period"}],
            "permissions": [{"kind": "v1/Pod", "subresource": "status", "verbs": ["update"]}],
            "imports": ["discovery"], "config": {"period": {"default": "1s", "help": "h"}},
            "metrics": [
                {"name": "m", "help": "h", "labels": ["l"], "type": {"histogram": [1.0]}},
                {"name": "c", "help": "h", "type": "counter"}
            ]
        }"#;
        let description = Description::read(full).expect("it is valid");
        let written = serde_json::to_string(&description).expect("it is written");
        assert_eq!(Description::read(&written), Ok(description));
    }

    #[test]
    fn a_mapping_to_each_target_reads_back_as_it_was_written() {
        let kind = Kind::new("", "v1", "Pod");
        let having = |value: &str| Having {
            path: "spec.a".into(),
            value: value.into(),
        };
        for to in [
            To::Itself,
            To::Controller { kind: kind.clone() },
            To::Owner { kind: kind.clone() },
            To::Named {
                path: "spec.a".into(),
                namespaced: true,
            },
            To::Selecting {
                kind: kind.clone(),
                path: "spec.a".into(),
                whose: vec![having("a"), having("b")],
            },
            To::InNamespace { kind: kind.clone() },
            To::All { kind },
            To::Namespace,
            To::Constant { key: "k".into() },
            To::Reference,
            To::Dependents,
            To::OwnerReferences {
                which: Owners::Missing,
            },
            To::Route,
        ] {
            let mapping = Mapping {
                to,
                on: vec![],
                queue: String::new(),
                delay_ms: 0,
                orphans: false,
                deleting: true,
                having: vec![having("a")],
                having_any: vec!["spec.b".into()],
            };
            let written = serde_json::to_string(&mapping).expect("it is written");
            assert_eq!(
                serde_json::from_str::<Mapping>(&written).expect(&written),
                mapping
            );
        }
    }

    #[test]
    fn names_that_could_break_out_of_a_manifest_are_refused() {
        for (asked, expected) in [
            (
                r#""permissions": [{"kind": "v1/Pod", "verbs": ["get\n---\nkind: Secret"]}]"#,
                r"the verb `get\n---\nkind: Secret` is unknown: use get, list,",
            ),
            (
                r#""permissions": [{"kind": "v1/Pod", "subresource": "a\nb", "verbs": ["get"]}]"#,
                r"the subresource `a\nb` is not a name",
            ),
            (r#""imports": ["clock"]"#, "the import `clock` is unknown"),
        ] {
            let error = Description::read(&good_with(asked))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        let all = r#""permissions": [{"kind": "v1/Pod", "verbs": ["*"]}]"#;
        assert!(Description::read(&good_with(all)).is_ok());
    }
}
