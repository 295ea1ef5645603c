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
}

/// The result for one scenario.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    /// The name of its plane.
    pub(crate) plane: &'static str,
    /// Why the number of writes varies, if the scenario may be repeated because of its writes.
    pub(crate) repeat_writes: Option<String>,
    /// The reasons of known differences from stock.
    pub(crate) known: Vec<String>,
    /// The number of writes of each play. A second play is a repetition.
    pub(crate) writes: Vec<usize>,
    /// The comparison of the last play, or the error of the play.
    pub(crate) result: Result<Compared>,
}

#[derive(Debug)]
pub(crate) struct Compared {
    /// The maximum number of writes in a run of stock.
    pub(crate) limit: usize,
    pub(crate) differences: Differences,
}

/// Plays scenarios and compares them. If a scenario whose file has `repeat-writes` differs only in how often something
/// was written, it is played a second time: it took more writes than any run of stock, or other managers set fields last.
///
/// # Errors
/// A control plane or its controllers couldn't be started or stopped.
pub async fn compare_all(scenarios: &[Scenario]) -> Result<Report> {
    let Played {
        mut outcomes,
        metrics,
        texts: mut written,
    } = play_all(Subject::Flyball, scenarios).await?;
    let mut rows: Vec<Row> = scenarios
        .iter()
        .map(|scenario| Row::new(scenario, outcomes.remove(&scenario.name)))
        .collect();
    let repeated: Vec<Scenario> = scenarios
        .iter()
        .zip(&rows)
        .filter(|(_, row)| row.is_to_be_repeated())
        .map(|(scenario, _)| scenario.clone())
        .collect();
    if !repeated.is_empty() {
        let played = play_all(Subject::Flyball, &repeated).await?;
        let mut outcomes = played.outcomes;
        texts::add(&mut written, played.texts);
        for (scenario, row) in scenarios.iter().zip(&mut rows) {
            if row.is_to_be_repeated() {
                row.add(scenario, outcomes.remove(&scenario.name));
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
            repeat_writes: scenario.repeat_writes.clone(),
            known: scenario.known.values().cloned().collect(),
            writes: Vec::new(),
            result: Err(anyhow!("the scenario was not played")),
        };
        row.add(scenario, outcome);
        row
    }

    /// Adds the outcome of a play, whose comparison replaces the previous one.
    fn add(&mut self, scenario: &Scenario, outcome: Option<Result<Outcome>>) {
        let outcome = outcome.unwrap_or_else(|| Err(anyhow!("the scenario was not played")));
        self.writes
            .extend(outcome.as_ref().ok().map(|outcome| outcome.writes.total()));
        self.result = outcome
            .context("the scenario failed")
            .and_then(|outcome| compare(scenario, &outcome, &Golden::read(&scenario.name)?));
    }

    fn is_to_be_repeated(&self) -> bool {
        let only_wrote_more_often = |compared: &Compared| {
            let Differences {
                objects,
                events,
                managers,
                writes,
                ..
            } = &compared.differences;
            objects.is_empty() && events.is_empty() && (writes.is_some() || !managers.is_empty())
        };
        self.repeat_writes.is_some() && self.result.as_ref().is_ok_and(only_wrote_more_often)
    }
}

fn compare(scenario: &Scenario, outcome: &Outcome, golden: &Golden) -> Result<Compared> {
    Ok(Compared {
        limit: golden.limit(),
        differences: golden.compare(outcome, &scenario.known),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(repeat_writes: Option<&str>, differences: Differences) -> Row {
        Row {
            scenario: "job/one".into(),
            plane: "cronjob",
            repeat_writes: repeat_writes.map(str::to_owned),
            known: Vec::new(),
            writes: vec![7],
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
    fn a_scenario_is_repeated_only_for_its_writes_and_with_a_reason() {
        assert!(row(Some("a reason"), too_many_writes()).is_to_be_repeated());
        assert!(!row(None, too_many_writes()).is_to_be_repeated());
        assert!(!row(Some("a reason"), Differences::default()).is_to_be_repeated());
        let other_manager = Differences {
            managers: vec!["missing: ResourceQuota/quota kube-apiserver".into()],
            ..Differences::default()
        };
        assert!(row(Some("a reason"), other_manager).is_to_be_repeated());
        let objects_too = Differences {
            objects: vec!["Job/one differs".into()],
            ..too_many_writes()
        };
        assert!(!row(Some("a reason"), objects_too).is_to_be_repeated());
    }

    #[test]
    fn a_scenario_that_was_not_played_differs() {
        let row = Row {
            result: Err(anyhow!("the scenario was not played")),
            ..row(None, Differences::default())
        };
        assert_eq!(
            report(vec![row]).differences(),
            ["job/one: the scenario was not played"]
        );
    }

    #[test]
    fn only_scenarios_whose_writes_vary_under_stock_are_repeated() -> Result<()> {
        let mut scenarios = Scenario::all()?;
        scenarios.retain(|scenario| scenario.repeat_writes.is_some());
        assert!(!scenarios.is_empty());
        for scenario in scenarios {
            let writes = Golden::read(&scenario.name)?.writes;
            assert!(
                writes.iter().any(|count| *count != writes[0]),
                "{} always took {} writes under stock: remove `repeat-writes` from its file",
                scenario.name,
                writes[0]
            );
        }
        Ok(())
    }
}
