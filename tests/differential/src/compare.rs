//! Plays scenarios under Flyball and compares their outcomes with the goldens.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};

use crate::golden::Differences;
use crate::metrics::{self, Series};
use crate::plane::Plane;
use crate::{Golden, Outcome, Played, Scenario, Subject, play_all, texts};

/// The result of a comparison.
#[derive(Debug)]
pub struct Report {
    pub(crate) rows: Vec<Row>,
    /// The differences of the metrics from stock's, by plane, of the planes that were played whole.
    pub(crate) metrics: BTreeMap<&'static str, Vec<String>>,
    /// The texts that stock never wrote.
    pub(crate) texts: Vec<String>,
    /// The calls that parted from their recordings.
    pub(crate) parted: Vec<String>,
}

/// The result for one scenario.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    /// The name of its plane.
    pub(crate) plane: &'static str,
    /// The reasons of known differences from stock.
    pub(crate) known: Vec<String>,
    /// The number of writes of each play. All plays but the first are repetitions.
    pub(crate) writes: Vec<usize>,
    /// The differences of the plays that were repeated.
    pub(crate) repeated: Vec<String>,
    /// The comparison of the last play, or the error of the play.
    pub(crate) result: Result<Compared>,
}

#[derive(Debug)]
pub(crate) struct Compared {
    /// The maximum number of writes in a run of stock.
    pub(crate) limit: usize,
    pub(crate) differences: Differences,
}

/// How often a scenario is repeated that differs only in how often something was written.
const REPETITIONS: usize = 2;

/// Plays scenarios and compares them. A scenario is repeated if it differs only in how often something was written: it
/// took more writes than any run of stock, or other managers set fields last. On a busy machine, a write is retried more
/// often, and fewer changes of a status become one; a write that Flyball makes too much is in each play. A repetition has
/// only the other repeated scenarios beside it.
///
/// # Errors
/// A control plane or its controllers couldn't be started or stopped.
pub async fn compare_all(scenarios: &[Scenario]) -> Result<Report> {
    let Played {
        mut outcomes,
        metrics,
        texts: mut written,
        mut parted,
    } = play_all(Subject::Flyball, scenarios).await?;
    let mut rows: Vec<Row> = scenarios
        .iter()
        .map(|scenario| Row::new(scenario, outcomes.remove(&scenario.name)))
        .collect();
    for _ in 0..REPETITIONS {
        let repeated: Vec<Scenario> = scenarios
            .iter()
            .zip(&rows)
            .filter(|(_, row)| row.only_wrote_more_often())
            .map(|(scenario, _)| scenario.clone())
            .collect();
        if repeated.is_empty() {
            break;
        }
        let played = play_all(Subject::Flyball, &repeated).await?;
        let mut outcomes = played.outcomes;
        texts::add(&mut written, played.texts);
        parted.extend(played.parted);
        for (scenario, row) in scenarios.iter().zip(&mut rows) {
            if row.only_wrote_more_often() {
                row.repeat(scenario, outcomes.remove(&scenario.name));
            }
        }
    }
    let metrics = metrics.into_iter().map(|(plane, ours)| {
        let stock = metrics::read(plane)?;
        Ok((plane, compare_metrics(stock.as_ref(), &ours)))
    });
    let mut report = Report {
        rows,
        metrics: metrics.collect::<Result<_>>()?,
        texts: Vec::new(),
        parted,
    };
    report.texts = texts::unknown(&written, &report.known_differences())?;
    Ok(report)
}

/// The differences of a plane's metrics from stock's.
fn compare_metrics(stock: Option<&Series>, ours: &Series) -> Vec<String> {
    let Some(stock) = stock else {
        return vec!["there is no golden: write it with `cargo xtask differential --bless`".into()];
    };
    let missing = stock.difference(ours).map(|one| format!("missing: {one}"));
    let surplus = ours.difference(stock).map(|one| format!("too many: {one}"));
    missing.chain(surplus).collect()
}

impl Report {
    /// The differences from stock, one line each.
    pub fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        for Row {
            scenario, result, ..
        } in &self.rows
        {
            match result {
                Ok(compared) => {
                    let all = compared.differences.all().into_iter();
                    found.extend(all.map(|text| format!("{scenario}: {text}")));
                }
                Err(error) => found.push(format!("{scenario}: {error:#}")),
            }
        }
        found.extend(self.texts.clone());
        found.extend(self.parted.clone());
        found
    }

    /// The known differences from stock, one line for each scenario.
    pub fn known_differences(&self) -> Vec<String> {
        let mut known = Vec::new();
        for row in &self.rows {
            if let Ok(compared) = &row.result
                && !compared.differences.known.is_empty()
            {
                let (reasons, found) =
                    (row.known.join("; "), compared.differences.known.join("; "));
                known.push(format!("{}: {reasons}: {found}", row.scenario));
            }
        }
        known
    }
}

impl Row {
    fn new(scenario: &Scenario, outcome: Option<Result<Outcome>>) -> Self {
        let mut row = Self {
            scenario: scenario.name.clone(),
            plane: scenario.plane().map_or("", Plane::name),
            known: scenario.known.values().cloned().collect(),
            writes: Vec::new(),
            repeated: Vec::new(),
            result: Err(anyhow!("the scenario was not played")),
        };
        row.add(scenario, outcome);
        row
    }

    /// Adds the outcome of a play, whose comparison replaces the previous one.
    fn add(&mut self, scenario: &Scenario, outcome: Option<Result<Outcome>>) {
        let mut outcome = outcome.unwrap_or_else(|| Err(anyhow!("the scenario was not played")));
        if let Ok(outcome) = &mut outcome
            && scenario.lifts_a_policy()
        {
            outcome.writes.count_refusals_once();
        }
        self.writes
            .extend(outcome.as_ref().ok().map(|outcome| outcome.writes.total()));
        self.result = outcome
            .context("the scenario failed")
            .and_then(|outcome| compare(scenario, &outcome, Golden::read(&scenario.name)?));
    }

    /// Adds the outcome of a repetition.
    fn repeat(&mut self, scenario: &Scenario, outcome: Option<Result<Outcome>>) {
        if let Ok(compared) = &self.result {
            self.repeated.extend(compared.differences.all());
        }
        self.add(scenario, outcome);
    }

    fn only_wrote_more_often(&self) -> bool {
        let Ok(Compared { differences, .. }) = &self.result else {
            return false;
        };
        let Differences {
            objects,
            events,
            managers,
            writes,
            ..
        } = differences;
        objects.is_empty() && events.is_empty() && (writes.is_some() || !managers.is_empty())
    }
}

fn compare(scenario: &Scenario, outcome: &Outcome, mut golden: Golden) -> Result<Compared> {
    if scenario.lifts_a_policy() {
        golden.most_writes.count_refusals_once();
    }
    let more = scenario.more_writes.as_ref().map_or(0, |(more, _)| *more);
    Ok(Compared {
        limit: golden.limit() + more,
        differences: golden.compare(outcome, &scenario.known, more),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(differences: Differences) -> Row {
        Row {
            scenario: "job/one".into(),
            plane: "cronjob",
            known: Vec::new(),
            writes: vec![7],
            repeated: Vec::new(),
            result: Ok(Compared {
                limit: 5,
                differences,
            }),
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report {
            rows,
            metrics: BTreeMap::new(),
            texts: Vec::new(),
            parted: Vec::new(),
        }
    }

    #[test]
    fn metrics_differ_if_a_series_is_missing_or_there_is_no_golden() {
        let series = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Series>()
        };
        let stock = series(&["a", "b"]);
        assert!(compare_metrics(Some(&stock), &stock).is_empty());
        assert_eq!(
            compare_metrics(Some(&stock), &series(&["b", "c"])),
            ["missing: a", "too many: c"]
        );
        assert_eq!(compare_metrics(None, &stock).len(), 1);
    }

    fn too_many_writes() -> Differences {
        Differences {
            writes: Some("7 writes".into()),
            ..Differences::default()
        }
    }

    #[test]
    fn a_scenario_is_repeated_only_for_how_often_it_wrote() {
        assert!(row(too_many_writes()).only_wrote_more_often());
        assert!(!row(Differences::default()).only_wrote_more_often());
        let other_manager = Differences {
            managers: vec!["missing: ResourceQuota/quota kube-apiserver".into()],
            ..Differences::default()
        };
        assert!(row(other_manager).only_wrote_more_often());
        let objects_too = Differences {
            objects: vec!["Job/one differs".into()],
            ..too_many_writes()
        };
        assert!(!row(objects_too).only_wrote_more_often());
    }

    #[test]
    fn a_scenario_that_was_not_played_differs() {
        let row = Row {
            result: Err(anyhow!("the scenario was not played")),
            ..row(Differences::default())
        };
        assert_eq!(
            report(vec![row]).differences(),
            ["job/one: the scenario was not played"]
        );
    }
}
