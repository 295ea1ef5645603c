//! Goldens: files with the outcomes under the stock controllers, and the comparison with an outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Outcome;
use crate::earlier_release::hide_differences;
use crate::folders::{Written, controllers};
use crate::writes::Writes;

/// The outcomes of several runs of a scenario under the stock controllers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Golden {
    /// The writes of the run with the most of them.
    pub most_writes: Writes,
    /// The number of writes of each run.
    pub writes: Vec<usize>,
    /// The distinct sets of events of the runs.
    pub events: Vec<BTreeSet<String>>,
    /// The distinct lists of objects of the runs.
    pub objects: Vec<Vec<Value>>,
    /// The distinct sets of fields' managers of the runs. A golden that was written before they were compared has none,
    /// and differs.
    #[serde(default)]
    pub managers: Vec<BTreeSet<String>>,
}

/// The differences of an outcome from those of stock.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// Differences of the objects from the nearest run of stock.
    pub objects: Vec<String>,
    /// Differences of the objects that the scenario declares as known. [`Differences::all`] does not
    /// include them.
    pub known: Vec<String>,
    /// Differences of the events from the nearest run of stock.
    pub events: Vec<String>,
    /// Differences of the fields' managers from the nearest run of stock.
    pub managers: Vec<String>,
    /// Set if there are more writes than in any run of stock.
    pub writes: Option<String>,
}

impl Golden {
    /// Creates a golden from the runs of one scenario. Returns `None` if there are no runs.
    pub fn of(runs: &[Outcome]) -> Option<Self> {
        let most = runs.iter().max_by_key(|run| run.writes.total())?;
        let mut golden = Self {
            most_writes: most.writes.clone(),
            writes: runs.iter().map(|run| run.writes.total()).collect(),
            events: Vec::new(),
            objects: Vec::new(),
            managers: Vec::new(),
        };
        for run in runs {
            if !golden.events.contains(&run.events) {
                golden.events.push(run.events.clone());
            }
            if !golden.objects.contains(&run.objects) {
                golden.objects.push(run.objects.clone());
            }
            if !golden.managers.contains(&run.managers) {
                golden.managers.push(run.managers.clone());
            }
        }
        Some(golden)
    }

    /// Reads the golden of a scenario.
    ///
    /// # Errors
    /// The golden does not exist or is not valid.
    pub fn read(scenario: &str) -> Result<Self> {
        let written = file(scenario)?;
        let path = written.to_read();
        if !path.exists() {
            bail!(
                "there is no golden {}: if stock has the controller, write it with `cargo xtask differential --bless`",
                path.display()
            );
        }
        let text =
            fs::read(path).with_context(|| format!("can't read the golden {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a valid golden", path.display()))
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let mut golden: Self = serde_json::from_slice(text)?;
        hide_differences(&mut golden.objects, &mut golden.managers)?;
        Ok(golden)
    }

    /// Writes the golden of a scenario. An earlier release of Kubernetes gets one of its own only where it differs from
    /// the current release.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, scenario: &str) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        file(scenario)?.write(&text, |current| {
            Self::parse(current).is_ok_and(|current| self.is_within(&current))
        })
    }

    /// Whether the runs are among those of another golden. The numbers of writes depend on timing, so they only have to be
    /// within its limit.
    fn is_within(&self, other: &Self) -> bool {
        let Self {
            events,
            objects,
            managers,
            ..
        } = self;
        events.iter().all(|one| other.events.contains(one))
            && objects.iter().all(|one| other.objects.contains(one))
            && managers.iter().all(|one| other.managers.contains(one))
            && self.limit() <= other.limit()
    }

    /// The maximum number of writes in a run of stock.
    pub fn limit(&self) -> usize {
        self.most_writes.total()
    }

    /// Compares an outcome, which may have `more` writes. `known` has the prefixes of paths that are known to differ, with
    /// the reasons. It is a difference if they are equal.
    pub fn compare(
        &self,
        outcome: &Outcome,
        known: &BTreeMap<String, String>,
        more: usize,
    ) -> Differences {
        let objects = self.objects.iter().map(|objects| {
            let mut found = Vec::new();
            differ(
                "",
                &Value::Array(objects.clone()),
                &Value::Array(outcome.objects.clone()),
                &mut found,
            );
            found
        });
        let objects = objects.min_by_key(Vec::len).unwrap_or_default();
        let is_known = |difference: &String| known.keys().any(|path| difference.starts_with(path));
        let (known_objects, mut objects): (Vec<String>, Vec<String>) =
            objects.into_iter().partition(is_known);
        let is_missing = |path: &&String| {
            !known_objects
                .iter()
                .any(|difference| difference.starts_with(*path))
        };
        objects.extend(
            known
                .keys()
                .filter(is_missing)
                .map(|path| format!("{path} is declared to differ, but is equal")),
        );
        let managers = if self.managers.is_empty() {
            vec!["the golden has none: write it with `cargo xtask differential --bless`".to_owned()]
        } else {
            nearest(&self.managers, &outcome.managers)
        };
        let (ours, most) = (outcome.writes.total(), self.limit());
        let writes = format!(
            "{ours} writes ({}), but stock needed at most {most} ({})",
            outcome.writes, self.most_writes
        );
        Differences {
            objects,
            known: known_objects,
            events: nearest(&self.events, &outcome.events),
            managers,
            writes: (ours > most + more).then_some(writes),
        }
    }
}

impl Differences {
    /// All differences except for the known ones, one sentence each.
    pub fn all(&self) -> Vec<String> {
        let objects = self.objects.iter().map(|text| format!("objects: {text}"));
        let events = self.events.iter().map(|text| format!("events: {text}"));
        let managers = self.managers.iter().map(|text| format!("managers: {text}"));
        let sets = objects.chain(events).chain(managers);
        sets.chain(self.writes.clone()).collect()
    }
}

/// Returns the differences of a set from the most similar set of stock.
fn nearest(stock: &[BTreeSet<String>], ours: &BTreeSet<String>) -> Vec<String> {
    let differences = stock.iter().map(|stock| {
        let missing = stock.difference(ours).map(|one| format!("missing: {one}"));
        let surplus = ours.difference(stock).map(|one| format!("too many: {one}"));
        missing.chain(surplus).collect()
    });
    differences.min_by_key(Vec::len).unwrap_or_default()
}

fn file(scenario: &str) -> Result<Written> {
    let (controller, name) = scenario.split_once('/').unwrap_or((scenario, ""));
    let folder = controllers().join(controller);
    Written::in_folder(&folder, "goldens", &format!("{name}.json"))
}

/// Collects the differences of two values, each with its path, such as
/// `Deployment/web.status.conditions[Progressing].reason`.
fn differ(path: &str, stock: &Value, ours: &Value, found: &mut Vec<String>) {
    match (stock, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let (a, b) = (
                    a.get(key).unwrap_or(&Value::Null),
                    b.get(key).unwrap_or(&Value::Null),
                );
                differ(&format!("{path}.{key}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                let part = if label(a) == label(b) { label(a) } else { None };
                differ(
                    &format!("{path}{}", part.unwrap_or_else(|| format!("[{index}]"))),
                    a,
                    b,
                    found,
                );
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path} is {b}, but {a} under stock")),
    }
}

/// The label of a list item in a path: an object's kind and name, or a condition's type. `None` for
/// other items.
fn label(item: &Value) -> Option<String> {
    match (
        item["kind"].as_str(),
        item["metadata"]["name"].as_str(),
        item["type"].as_str(),
    ) {
        (Some(kind), Some(name), _) => Some(format!("{kind}/{name}")),
        (None, None, Some(text)) => Some(format!("[{text}]")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(replicas: u32, event: &str, writes: usize) -> Outcome {
        Outcome {
            objects: vec![
                json!({"kind": "Job", "metadata": {"name": "a"}, "status": {"replicas": replicas}}),
            ],
            events: [event.to_owned()].into(),
            managers: ["manager".to_owned()].into(),
            writes: Writes([("create pods".to_owned(), writes)].into()),
        }
    }

    #[test]
    fn an_outcome_equal_to_one_of_the_runs_has_no_differences() {
        let golden =
            Golden::of(&[outcome(1, "A", 3), outcome(1, "A", 5), outcome(2, "A", 4)]).unwrap();
        assert_eq!(
            (golden.objects.len(), golden.events.len(), golden.limit()),
            (2, 1, 5)
        );
        assert!(
            golden
                .compare(&outcome(2, "A", 5), &BTreeMap::new(), 0)
                .all()
                .is_empty()
        );
    }

    #[test]
    fn each_difference_is_named() {
        let golden = Golden::of(&[outcome(1, "A", 3)]).unwrap();
        let all = golden
            .compare(&outcome(2, "B", 4), &BTreeMap::new(), 0)
            .all();
        assert_eq!(
            all,
            [
                "objects: Job/a.status.replicas is 2, but 1 under stock",
                "events: missing: A",
                "events: too many: B",
                "4 writes (4 × create pods), but stock needed at most 3 (3 × create pods)"
            ]
        );
    }

    #[test]
    fn known_differences_are_reported_separately_and_must_exist() {
        let golden = Golden::of(&[outcome(1, "A", 3)]).unwrap();
        let known = BTreeMap::from([(
            "Job/a.status.replicas".to_owned(),
            "stock counts differently".to_owned(),
        )]);
        let differences = golden.compare(&outcome(2, "A", 3), &known, 0);
        assert_eq!(
            differences.known,
            ["Job/a.status.replicas is 2, but 1 under stock"]
        );
        assert!(differences.all().is_empty());
        let all = golden.compare(&outcome(1, "A", 3), &known, 0).all();
        assert_eq!(
            all,
            ["objects: Job/a.status.replicas is declared to differ, but is equal"]
        );
    }

    #[test]
    fn the_managers_of_the_fields_are_compared_and_a_golden_must_have_them() {
        let mut golden = Golden::of(&[outcome(1, "A", 3)]).unwrap();
        let mut ours = outcome(1, "A", 3);
        ours.managers = ["another".to_owned()].into();
        let all = golden.compare(&ours, &BTreeMap::new(), 0).all();
        assert_eq!(
            all,
            ["managers: missing: manager", "managers: too many: another"]
        );
        golden.managers.clear();
        let all = golden.compare(&ours, &BTreeMap::new(), 0).all();
        assert_eq!(all.len(), 1);
        assert!(
            all[0].starts_with("managers: the golden has none"),
            "{all:?}"
        );
    }
}
