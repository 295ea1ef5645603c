//! Checks of a description, made once when a plugin is loaded: names are well formed, and references have a target.

use std::collections::BTreeSet;

use super::{
    Change, Description, Discovered, FORMAT, IMPORTS, Index, Mapping, Metric, MetricType,
    Permission, Queue, Ticker, To, VERBS, Watch,
};
use crate::{FieldPath, FieldSelector, Kind, LabelSelector, printable};

/// The longest name of a queue in bytes.
const MAX_QUEUE_NAME: usize = 63;
/// Bytes of a name that a message shows.
const MAX_SHOWN: usize = 80;
/// The longest name of an index, a metric, a label or a configuration key, and the longest help of a metric, in bytes.
/// Each stands in many lines of the host's metrics, or in messages.
const MAX_NAME: usize = 1024;
/// The longest version of a plugin, in bytes. Log lines, metrics and `flyball status` show it.
const MAX_VERSION: usize = 128;
/// The longest key in bytes. The API's longest namespace and name with a kind and a UID are shorter.
pub const MAX_KEY: usize = 1024;

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
        /// Describes the mistake and its place in the document.
        problem: String,
    },
}

/// The result of one check. The error is a sentence without the plugin's name.
type Checked = Result<(), String>;

/// The mistakes that checks have found, in the order of the document.
type Mistakes = Vec<String>;

/// The most mistakes that a message names: a document may have thousands.
const MAX_MISTAKES: usize = 10;
/// The most bytes of all mistakes but the first.
const MAX_MISTAKES_BYTES: usize = 4096;

impl Description {
    /// Checks that names are well formed and that what is referred to exists. The error has all mistakes.
    pub fn check(&self) -> Result<(), DescriptionError> {
        self.invalid(self.mistakes())
    }

    /// Fails with these mistakes, if there are any.
    pub fn invalid(&self, mut mistakes: Vec<String>) -> Result<(), DescriptionError> {
        if mistakes.is_empty() {
            return Ok(());
        }
        let mut bytes = 0;
        let shown = mistakes.iter().take(MAX_MISTAKES).take_while(|mistake| {
            let is_first = bytes == 0;
            bytes += mistake.len();
            is_first || bytes <= MAX_MISTAKES_BYTES
        });
        let shown = shown.count();
        let hidden = mistakes.len() - shown;
        mistakes.truncate(shown);
        if hidden > 0 {
            mistakes.push(format!("and {hidden} more"));
        }
        Err(DescriptionError::Invalid {
            plugin: self::shown(&self.name),
            problem: mistakes.join("; "),
        })
    }

    /// Returns a sentence about each mistake: a name that is not well formed, or a reference to something that does not
    /// exist.
    pub fn mistakes(&self) -> Vec<String> {
        // A list that is too long is not checked.
        if let Err(problem) = self.check_counts() {
            return vec![problem];
        }
        let mut mistakes = Mistakes::new();
        if !is_dns_label(&self.name) {
            mistakes.push(format!(
                "the name `{}` is not a DNS label: use lower-case letters, digits and dashes",
                shown(&self.name)
            ));
        }
        mistakes.extend(check_length("its version", &self.version, MAX_VERSION).err());
        mistakes.extend(self.mistakes_of_names());
        mistakes.extend(self.mistakes_of_queues());
        mistakes.extend(self.mistakes_of_watches());
        mistakes.extend(self.mistakes_of_indexes());
        mistakes.extend(self.mistakes_of_tickers());
        mistakes.extend(self.permissions.iter().flat_map(Permission::mistakes));
        let is_known = |import: &&String| IMPORTS.contains(&import.as_str());
        let unknown = self.imports.iter().filter(|import| !is_known(import));
        mistakes.extend(unknown.map(|import| {
            let meant = meant(import, &IMPORTS);
            format!("the import `{}` is unknown: {meant}", shown(import))
        }));
        mistakes
    }

    /// Checks the lengths of all lists. Each entry costs the host memory, and some cost time with each change of an
    /// object.
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
        // Each is a permission of its own.
        let namespaces = self.permissions.iter().map(|asked| asked.namespaces.len());
        at_most(namespaces.sum(), 1000, "namespaces of permissions")?;
        self.watches.iter().try_for_each(Watch::check_counts)?;
        self.watched_kinds()
            .into_iter()
            .try_for_each(|kind| self.check_counts_of(kind))?;
        let selecting = self.watches.iter().filter(|watch| watch.is_of_a_part());
        at_most(selecting.count(), 16, "watches of a part of a kind")?;
        self.metrics.iter().try_for_each(Metric::check_counts)
    }

    /// Checks the lengths of names that have no other check.
    fn mistakes_of_names(&self) -> Mistakes {
        let indexes = self.indexes.iter().map(|index| &index.name);
        let metrics = self.metrics.iter().flat_map(|metric| {
            let Metric {
                name,
                help,
                labels,
                metric_type: _,
            } = metric;
            labels.iter().chain([name, help])
        });
        let names = indexes.chain(metrics).chain(self.config.keys());
        let too_long =
            |name: &String| check_length(&format!("`{}`", shown(name)), name, MAX_NAME).err();
        names.filter_map(too_long).collect()
    }

    /// Limits the cost of one kind: each watch of a different part of its objects may need a cache of its own, and each
    /// index is updated with each change.
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

    fn mistakes_of_queues(&self) -> Mistakes {
        if self.queues.is_empty() {
            return vec!["it has no queue".into()];
        }
        let mut mistakes = Mistakes::new();
        let names: BTreeSet<&str> = self.queue_names().collect();
        if names.len() < self.queues.len() || names.contains("") {
            mistakes.push("two queues have the same name, or one has none".into());
        }
        mistakes.extend(self.queues.iter().flat_map(Queue::mistakes));
        mistakes
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

    fn mistakes_of_watches(&self) -> Mistakes {
        let (queues, watched) = (self.queue_names().collect(), self.watched_kinds());
        let mut mistakes = Mistakes::new();
        for (number, watch) in self.watches.iter().enumerate() {
            let (place, of_discovered) = match (&watch.kind, &watch.discovered) {
                (Some(kind), None) => (format!("watch of {kind}"), None),
                (None, Some(discovered)) => (
                    "watch of discovered kinds".into(),
                    self.check_discovered(discovered, watch).err(),
                ),
                (Some(_), Some(_)) => {
                    mistakes.push(format!(
                        "watch {number} has both a `kind` and `discovered`: use one of them"
                    ));
                    continue;
                }
                (None, None) => {
                    mistakes.push(format!(
                        "watch {number} has neither a `kind` nor `discovered`"
                    ));
                    continue;
                }
            };
            let mut found = watch.mistakes(&watched, &queues);
            found.extend(of_discovered);
            // The mask repeats what is wrong with a path.
            if found.is_empty() {
                found.extend(self.check_mask(watch).err());
            }
            mistakes.extend(found.iter().map(|problem| format!("{place}: {problem}")));
        }
        let discovering = self
            .watches
            .iter()
            .filter(|watch| watch.discovered.is_some());
        if discovering.count() > 1 {
            mistakes.push(
                "two watches discover kinds: a kind that one of them excludes, the other may show"
                    .into(),
            );
        }
        mistakes
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
                shown(&discovered.errors)
            ));
        }
        if !watch.field_selector.is_empty() {
            return Err("it has a field selector, which not every kind supports".into());
        }
        let beyond_metadata = |path: &&String| {
            let first = path.split(['.', '[']).next();
            first != Some("metadata")
        };
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

    fn mistakes_of_indexes(&self) -> Mistakes {
        let watched = self.watched_kinds();
        let mistakes_of = |index: &Index| {
            let name = format!("the index `{}`", shown(&index.name));
            let of_kind = check_watched(&index.kind, &watched).err();
            let of_path = check_path(&index.path).err();
            [
                of_kind.map(|problem| format!("{name} is over {problem}")),
                of_path.map(|problem| format!("{name}: {problem}")),
            ]
        };
        self.indexes
            .iter()
            .flat_map(mistakes_of)
            .flatten()
            .collect()
    }

    fn mistakes_of_tickers(&self) -> Mistakes {
        let queues: BTreeSet<&str> = self.queue_names().collect();
        let mistakes_of = |ticker: &Ticker| {
            let has_no_period = ticker.period_ms == 0;
            let mistakes = [
                has_no_period.then(|| "`periodMs` is 0: it must be at least 1".into()),
                check_length("the key", &ticker.key, MAX_KEY).err(),
                check_queue(&ticker.queue, &queues).err(),
            ];
            let key = shown(&ticker.key);
            mistakes.map(|found: Option<String>| {
                found.map(|problem| format!("the ticker of `{key}`: {problem}"))
            })
        };
        self.tickers
            .iter()
            .flat_map(mistakes_of)
            .flatten()
            .collect()
    }
}

impl Queue {
    fn mistakes(&self) -> Mistakes {
        // It is a label of the host's metrics.
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = self.name.len() <= MAX_QUEUE_NAME && self.name.chars().all(is_in_name);
        let is_rate = self.qps.is_finite() && self.qps >= 0.0;
        let mistakes = [
            (
                is_name,
                "its name must have at most 63 letters, digits, `-`, `_` and `.`",
            ),
            (is_rate, "`qps` must be zero or more"),
            (
                self.base_delay_ms <= self.max_delay_ms,
                "`baseDelayMs` is greater than `maxDelayMs`",
            ),
        ];
        let mistakes = mistakes.into_iter().filter(|(is_so, _)| !is_so);
        mistakes
            .map(|(_, problem)| format!("the queue `{}`: {problem}", shown(&self.name)))
            .collect()
    }
}

impl Permission {
    fn mistakes(&self) -> Mistakes {
        let is_known = self.subresource.is_empty()
            || self.subresource == "*"
            || is_dns_label(&self.subresource);
        let of_subresource = (!is_known).then(|| {
            format!(
                "the subresource `{}` is not a name: use lower-case letters, digits and dashes",
                shown(&self.subresource)
            )
        });
        let allowed: Vec<&str> = VERBS.into_iter().chain(["*"]).collect();
        let mistakes = [of_subresource, check_verbs(&self.verbs, &allowed).err()];
        let wrong = self.namespaces.iter().filter(|name| !is_dns_label(name));
        let of_namespaces =
            wrong.map(|name| format!("`{}` is not the name of a namespace", shown(name)));
        mistakes
            .into_iter()
            .flatten()
            .chain(of_namespaces)
            .map(|problem| format!("the permission on {}: {problem}", self.kind))
            .collect()
    }
}

impl Watch {
    /// Whether the watch covers only some objects of its kind: the objects of a namespace, or the objects that a
    /// selector matches.
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
                To::Selecting { whose, .. } | To::Named { whose, .. } => whose.len(),
                _ => 0,
            };
            at_most(mapping.while_any.len(), 8, "kinds of `whileAny`")?;
            let paths = mapping.having_any.len() + mapping.unless.len();
            let values = mapping.having.len() + paths + whose;
            at_most(values, 16, "values of a mapping")
        })
    }

    fn mistakes(&self, watched: &BTreeSet<&Kind>, queues: &BTreeSet<&str>) -> Mistakes {
        let mut mistakes = Mistakes::new();
        if !self.namespace.is_empty() && !is_dns_label(&self.namespace) {
            mistakes.push(format!(
                "`{}` is not the name of a namespace",
                shown(&self.namespace)
            ));
        }
        let labels = self.label_selector.parse::<LabelSelector>();
        mistakes.extend(labels.err().map(|error| error.to_string()));
        let fields = self.field_selector.parse::<FieldSelector>();
        mistakes.extend(fields.err().map(|error| error.to_string()));
        let changes = self.changes.iter().filter_map(|change| match change {
            Change::Path(path) => Some(path),
            Change::Generation | Change::Labels => None,
        });
        let paths = self.fields.iter().chain(changes);
        mistakes.extend(paths.filter_map(|path| check_path(path).err()));
        let mappings = self.map.iter();
        mistakes.extend(mappings.flat_map(|mapping| mapping.mistakes(watched, queues)));
        mistakes
    }
}

impl Mapping {
    fn mistakes(&self, watched: &BTreeSet<&Kind>, queues: &BTreeSet<&str>) -> Mistakes {
        let mut mistakes = Mistakes::new();
        let queue = check_queue(&self.queue, queues).err();
        mistakes.extend(queue.map(|problem| format!("a mapping: {problem}")));
        let values = self.having.iter().map(|value| &value.path);
        let unless = self.unless.iter().map(|unless| &unless.path);
        let paths = values.chain(&self.having_any).chain(unless);
        mistakes.extend(paths.filter_map(|path| check_path(path).err()));
        let kinds = self.while_any.iter();
        mistakes.extend(
            kinds
                .filter_map(|kind| check_watched(kind, watched).err())
                .map(|problem| format!("a mapping has `whileAny` of {problem}")),
        );
        match &self.to {
            To::Named {
                path,
                kind,
                whose,
                missing,
                ..
            } => {
                let paths = whose.iter().map(|value| &value.path).chain([path]);
                mistakes.extend(paths.filter_map(|path| check_path(path).err()));
                match kind {
                    Some(kind) => mistakes.extend(check_target(kind, watched).err()),
                    None if *missing || !whose.is_empty() => mistakes.push(
                        "a mapping to `named` has `whose` or `missing`, but not the `kind` of the named object".into(),
                    ),
                    None => {}
                }
                if *missing && !whose.is_empty() {
                    mistakes.push(
                        "a mapping to `named` has both `whose` and `missing`: a missing object has no fields".into(),
                    );
                }
            }
            To::Selecting { kind, path, whose } => {
                let paths = whose.iter().map(|value| &value.path).chain([path]);
                mistakes.extend(paths.filter_map(|path| check_path(path).err()));
                mistakes.extend(check_target(kind, watched).err());
            }
            To::InNamespace { kind } | To::All { kind } => {
                mistakes.extend(check_target(kind, watched).err());
            }
            _ => {}
        }
        mistakes
    }
}

impl Metric {
    fn check_counts(&self) -> Checked {
        at_most(self.labels.len(), 16, "labels of a metric")?;
        match &self.metric_type {
            MetricType::Histogram(buckets) => at_most(buckets.len(), 64, "buckets of a metric"),
            MetricType::Counter | MetricType::Gauge | MetricType::Sum => Ok(()),
        }
    }
}

fn at_most(count: usize, most: usize, what: &str) -> Checked {
    if count <= most {
        return Ok(());
    }
    Err(format!("it has {count} {what}, more than {most}"))
}

fn check_length(what: &str, text: &str, most: usize) -> Checked {
    if text.len() <= most {
        return Ok(());
    }
    Err(format!("{what} has {} bytes, more than {most}", text.len()))
}

fn check_target(kind: &Kind, watched: &BTreeSet<&Kind>) -> Checked {
    check_watched(kind, watched).map_err(|problem| format!("a mapping is to {problem}"))
}

fn check_watched(kind: &Kind, watched: &BTreeSet<&Kind>) -> Checked {
    if watched.contains(kind) {
        return Ok(());
    }
    let (kind, watched) = (kind.to_string(), watched.iter().map(ToString::to_string));
    let meant = meant(&kind, &watched.collect::<Vec<_>>());
    Err(format!("{}, which is not watched: {meant}", shown(&kind)))
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
    Err(format!(
        "the queue `{}` is not among the queues: {}",
        shown(name),
        meant(name, &queues.iter().collect::<Vec<_>>())
    ))
}

fn check_verbs(verbs: &BTreeSet<String>, allowed: &[&str]) -> Checked {
    match verbs.iter().find(|verb| !allowed.contains(&verb.as_str())) {
        Some(verb) => Err(format!(
            "the verb `{}` is unknown: {}",
            shown(verb),
            meant(verb, allowed)
        )),
        None => Ok(()),
    }
}

/// Suggests the most similar of the known names, or else lists them.
fn meant(name: &str, known: &[impl AsRef<str>]) -> String {
    let known = || known.iter().map(AsRef::as_ref);
    #[cfg(feature = "host")]
    if let Some(near) = crate::nearest::nearest(name, known()) {
        return format!("did you mean `{}`?", shown(near));
    }
    #[cfg(not(feature = "host"))]
    let _ = name;
    let names: Vec<String> = known().map(shown).collect();
    match names.as_slice() {
        [] => "there is none".into(),
        names => format!("use {}", names.join(", ")),
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
mod tests;
