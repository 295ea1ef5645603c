//! Whether a description makes sense: read once, when a plugin is loaded.

use std::collections::BTreeSet;

use super::{Change, Description, Discovered, FORMAT, Metric, MetricType, To, Watch};
use crate::{FieldPath, Kind, LabelSelector};

/// A description that can't be used; only another build of the plugin helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not the JSON document that it should be.
    #[error("`describe` did not return a description: {0}")]
    Parse(String),
    /// Made for a newer host.
    #[error(
        "the description has format {0}, and this host reads up to {FORMAT}: run a newer host, or build the plugin with an older SDK"
    )]
    Format(u32),
    /// What it says does not fit together.
    #[error("the description of `{plugin}` is not valid: {problem}")]
    Invalid {
        /// The plugin's name, as far as it can be read.
        plugin: String,
        /// What is wrong, and where.
        problem: String,
    },
}

impl Description {
    /// Reads and checks the document that `describe` returned.
    pub fn read(document: &str) -> Result<Self, DescriptionError> {
        let description: Self = serde_json::from_str(document)
            .map_err(|error| DescriptionError::Parse(error.to_string()))?;
        if description.format > FORMAT {
            return Err(DescriptionError::Format(description.format));
        }
        description.check()?;
        Ok(description)
    }

    /// Checks that names are well formed and that what is referred to is there.
    pub fn check(&self) -> Result<(), DescriptionError> {
        let invalid = |problem| DescriptionError::Invalid {
            plugin: self.name.clone(),
            problem,
        };
        self.find_problem()
            .map_or(Ok(()), |problem| Err(invalid(problem)))
    }

    fn find_problem(&self) -> Option<String> {
        if !is_name(&self.name) {
            return Some(format!(
                "`{}` is no name: use lower-case letters, digits and dashes",
                self.name
            ));
        }
        if self.queues.is_empty() {
            return Some("it has no queue".into());
        }
        let queues: BTreeSet<&str> = self
            .queues
            .iter()
            .map(|queue| queue.name.as_str())
            .collect();
        if queues.len() < self.queues.len() || queues.contains("") {
            return Some("two queues have the same name, or one has none".into());
        }
        let unknown_queue = |queue: &str| !queue.is_empty() && !queues.contains(queue);
        for queue in &self.queues {
            if !queue.qps.is_finite() || queue.qps < 0.0 || queue.base_delay_ms > queue.max_delay_ms
            {
                return Some(format!(
                    "the limits of the queue `{}` make no sense",
                    queue.name
                ));
            }
        }
        let watched: BTreeSet<&Kind> = self
            .watches
            .iter()
            .filter_map(|watch| watch.kind.as_ref())
            .collect();
        for (number, watch) in self.watches.iter().enumerate() {
            let what = match (&watch.kind, &watch.discovered) {
                (Some(kind), None) => kind.to_string(),
                (None, Some(_)) => "discovered kinds".into(),
                (Some(_), Some(_)) => {
                    return Some(format!("watch {number} names a kind and discovers others"));
                }
                (None, None) => return Some(format!("watch {number} names no kind")),
            };
            let problem = watch.find_problem(&watched, unknown_queue);
            let problem = problem.or_else(|| {
                watch
                    .discovered
                    .as_ref()
                    .and_then(|own| self.find_undiscoverable(own, watch))
            });
            if let Some(problem) = problem {
                return Some(format!("watch of {what}: {problem}"));
            }
        }
        if self
            .watches
            .iter()
            .filter(|watch| watch.discovered.is_some())
            .count()
            > 1
        {
            return Some(
                "two watches discover kinds: what one of them leaves out, the other would show"
                    .into(),
            );
        }
        for index in &self.indexes {
            if !watched.contains(&index.kind) {
                return Some(format!(
                    "the index `{}` is over {}, which is not watched",
                    index.name, index.kind
                ));
            }
            if let Err(error) = index.path.parse::<FieldPath>() {
                return Some(format!("the index `{}`: {error}", index.name));
            }
        }
        for ticker in &self.tickers {
            if ticker.period_ms == 0 || unknown_queue(&ticker.queue) {
                return Some(format!(
                    "the ticker of `{}` has no period, or its queue is not described",
                    ticker.key
                ));
            }
        }
        None
    }

    fn find_undiscoverable(&self, discovered: &Discovered, watch: &Watch) -> Option<String> {
        if discovered.period_ms == 0 {
            return Some("it has no period".into());
        }
        let counter = |metric: &Metric| {
            metric.name == discovered.errors && metric.metric_type == MetricType::Counter
        };
        if !discovered.errors.is_empty() && !self.metrics.iter().any(counter) {
            return Some(format!(
                "it counts into `{}`, which is no counter among the metrics",
                discovered.errors
            ));
        }
        if !watch.field_selector.is_empty() {
            return Some(
                "it has a field selector, and not every kind knows the same fields".into(),
            );
        }
        if let Some(path) = watch
            .fields
            .iter()
            .find(|path| !path.starts_with("metadata"))
        {
            return Some(format!(
                "it reads `{path}`, and only metadata is kept of discovered kinds"
            ));
        }
        let itself = watch.map.iter().any(|mapping| mapping.to == To::Itself);
        itself
            .then(|| "a mapping to `itself` does not tell the kinds apart: use `reference`".into())
    }
}

impl super::Watch {
    fn find_problem(
        &self,
        watched: &BTreeSet<&Kind>,
        unknown_queue: impl Fn(&str) -> bool,
    ) -> Option<String> {
        if let Err(error) = self.label_selector.parse::<LabelSelector>() {
            return Some(error.to_string());
        }
        let changes = self.changes.iter().filter_map(|change| match change {
            Change::Path(path) => Some(path),
            _ => None,
        });
        for path in self.fields.iter().chain(changes) {
            if let Err(error) = path.parse::<FieldPath>() {
                return Some(error.to_string());
            }
        }
        for mapping in &self.map {
            if unknown_queue(&mapping.queue) {
                return Some(format!(
                    "a mapping names the queue `{}`, which is not described",
                    mapping.queue
                ));
            }
            if let Some(error) = mapping
                .having
                .iter()
                .find_map(|having| having.path.parse::<FieldPath>().err())
            {
                return Some(error.to_string());
            }
            match &mapping.to {
                To::Named { path, .. } => {
                    if let Err(error) = path.parse::<FieldPath>() {
                        return Some(error.to_string());
                    }
                }
                To::Selecting { kind, path, whose } => {
                    if !watched.contains(kind) {
                        return Some(format!("a mapping selects {kind}, which is not watched"));
                    }
                    let mut paths =
                        std::iter::once(path).chain(whose.iter().map(|whose| &whose.path));
                    if let Some(error) = paths.find_map(|path| path.parse::<FieldPath>().err()) {
                        return Some(error.to_string());
                    }
                }
                To::InNamespace { kind } | To::All { kind } if !watched.contains(kind) => {
                    return Some(format!("a mapping is to {kind}, which is not watched"));
                }
                _ => {}
            }
        }
        None
    }
}

fn is_name(name: &str) -> bool {
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

    const GOOD: &str = r#"{
        "format": 1, "name": "replicaset-controller", "queues": [{"name": "replicaset"}],
        "watches": [
            {"kind": "apps/v1/ReplicaSet", "fields": ["."], "map": [{"to": "itself"}]},
            {"kind": "v1/Pod", "fields": ["status.phase"], "map": [
                {"to": "controller", "kind": "apps/v1/ReplicaSet"},
                {"to": "selecting", "kind": "apps/v1/ReplicaSet", "path": "spec.selector", "orphans": true, "delayMs": 5}
            ]}
        ],
        "unknown": true
    }"#;

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
            let asked = format!(
                r#""permissions": [{{"kind": "{kind}", "verbs": ["delete"]}}], "unknown": true"#
            );
            Description::read(&GOOD.replace(r#""unknown": true"#, &asked))
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
            (r#""kind": "v1/Pod""#, "names a kind and discovers others"),
            (r#""fields": ["spec"]"#, "only metadata is kept"),
            (
                r#""fieldSelector": "metadata.name=a""#,
                "not every kind knows",
            ),
            (r#""map": [{"to": "itself"}]"#, "use `reference`"),
            (
                r#""map": [{"to": "reference", "having": {"path": "a..b", "value": ""}}]"#,
                "a..b",
            ),
            (r#""discovered": {"periodMs": 0}"#, "duplicate field"),
        ] {
            let error = following(watch).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let timeless = GOOD.replacen(r#"{"kind""#, r#"{"discovered": {}}, {"kind""#, 1);
        assert!(
            Description::read(&timeless)
                .unwrap_err()
                .to_string()
                .contains("no period")
        );
        let counting = r#"{"discovered": {"periodMs": 1, "errors": "lost"}}, {"kind""#;
        let error = Description::read(&GOOD.replacen(r#"{"kind""#, counting, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`lost`, which is no counter"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_the_place() {
        for (from, to, expected) in [
            (r#""format": 1"#, r#""format": 9"#, "format 9"),
            ("replicaset-controller", "Replica Set", "no name"),
            (r#"[{"name": "replicaset"}]"#, "[]", "no queue"),
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

    /// The names under `properties`, everywhere in a schema; those under `$defs` describe texts.
    fn properties(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
        match schema {
            serde_json::Value::Object(fields) => {
                if let Some(serde_json::Value::Object(properties)) = fields.get("properties") {
                    found.extend(properties.keys().cloned());
                }
                fields.values().for_each(|value| properties(value, found));
            }
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| properties(item, found))
            }
            _ => {}
        }
    }

    /// The names of all fields that a value has.
    fn fields(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(name, value)| {
                found.insert(name.clone());
                fields(value, found);
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
            _ => {}
        }
    }

    #[test]
    fn the_schema_names_each_field_that_there_is_and_no_other() {
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
                    {"to": "reference", "deleting": true, "having": {"path": "metadata.finalizers", "value": "orphan"}},
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
        let mut there = BTreeSet::new();
        fields(
            &serde_json::to_value(description).expect("it is written"),
            &mut there,
        );
        // The one key of `config` is the example's own.
        there.remove("period");
        let schema = include_str!("../../../../wit/describe.schema.json");
        let mut described = BTreeSet::new();
        properties(
            &serde_json::from_str(schema).expect("the schema is JSON"),
            &mut described,
        );
        assert_eq!(described, there);
    }
}
