//! Plays scenarios under Flyball and compares their outcomes with the goldens. The report is a table
//! with a row for each scenario.

use std::fmt;

use anyhow::{Context, Result, anyhow};

use crate::golden::Differences;
use crate::{Golden, Outcome, Scenario, Subject, play_all};

/// The result of a comparison.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
}

/// The result for one scenario.
#[derive(Debug)]
struct Row {
    scenario: String,
    /// Why the number of writes varies, if the scenario may be repeated because of its writes.
    repeat_writes: Option<String>,
    /// The reasons of known differences from stock.
    known: Vec<String>,
    /// The number of writes of each play. A second play is a repetition.
    writes: Vec<usize>,
    /// The comparison of the last play, or the error of the play.
    result: Result<Compared>,
}

#[derive(Debug)]
struct Compared {
    /// The maximum number of writes in a run of stock.
    limit: usize,
    differences: Differences,
}

/// Plays scenarios and compares them. If the only difference is that a scenario took more writes than
/// any run of stock, it is played a second time, provided that its file has `repeat-writes`.
///
/// # Errors
/// A control plane or its controllers couldn't be started or stopped.
pub async fn compare_all(scenarios: &[Scenario]) -> Result<Report> {
    let mut outcomes = play_all(Subject::Flyball, scenarios).await?;
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
        let mut outcomes = play_all(Subject::Flyball, &repeated).await?;
        for (scenario, row) in scenarios.iter().zip(&mut rows) {
            if row.is_to_be_repeated() {
                row.add(scenario, outcomes.remove(&scenario.name));
            }
        }
    }
    Ok(Report { rows })
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
        let only_took_more_writes = |compared: &Compared| {
            let Differences {
                objects,
                events,
                writes,
                ..
            } = &compared.differences;
            writes.is_some() && objects.is_empty() && events.is_empty()
        };
        self.repeat_writes.is_some() && self.result.as_ref().is_ok_and(only_took_more_writes)
    }

    /// The cells of the table, without the name.
    fn cells(&self) -> [String; 4] {
        let Ok(Compared { limit, differences }) = &self.result else {
            return ["-", "-", "-", ""].map(str::to_owned);
        };
        let verdict = |differs: bool| if differs { "DIFFER" } else { "equal" };
        let objects = if differences.objects.is_empty() && !differences.known.is_empty() {
            "known"
        } else {
            verdict(!differences.objects.is_empty())
        };
        let writes: Vec<String> = self.writes.iter().map(usize::to_string).collect();
        let repeated = if writes.len() > 1 { "repeated" } else { "" };
        [
            objects.to_owned(),
            verdict(!differences.events.is_empty()).to_owned(),
            format!("{} / {limit}", writes.join(", then ")),
            repeated.to_owned(),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, [objects, events, writes, repeated]: [&str; 4]| {
            let cells = format!("{name:<60} {objects:>8} {events:>8} {writes:>22}  {repeated}");
            writeln!(f, "{}", cells.trim_end())
        };
        line(
            "scenario",
            ["objects", "events", "writes: ours / stock's", ""],
        )?;
        for row in &self.rows {
            let cells = row.cells();
            line(&row.scenario, cells.each_ref().map(String::as_str))?;
        }
        for row in self.rows.iter().filter(|row| row.writes.len() > 1) {
            let reason = row.repeat_writes.as_deref().unwrap_or_default();
            writeln!(f, "repeated: {}: {reason}", row.scenario)?;
        }
        Ok(())
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
            repeat_writes: repeat_writes.map(str::to_owned),
            known: Vec::new(),
            writes: vec![7],
            result: Ok(Compared {
                limit: 5,
                differences,
            }),
        }
    }

    fn too_many_writes() -> Differences {
        Differences {
            writes: Some("7 writes".into()),
            ..Differences::default()
        }
    }

    #[test]
    fn a_scenario_is_repeated_only_for_too_many_writes_and_with_a_reason() {
        assert!(row(Some("a reason"), too_many_writes()).is_to_be_repeated());
        assert!(!row(None, too_many_writes()).is_to_be_repeated());
        assert!(!row(Some("a reason"), Differences::default()).is_to_be_repeated());
        let objects_too = Differences {
            objects: vec!["Job/one differs".into()],
            ..too_many_writes()
        };
        assert!(!row(Some("a reason"), objects_too).is_to_be_repeated());
    }

    #[test]
    fn the_table_shows_each_play_of_a_repeated_scenario_and_the_reason() {
        let mut row = row(Some("retries depend on timing"), Differences::default());
        row.writes.push(5);
        let table = Report { rows: vec![row] }.to_string();
        let lines: Vec<&str> = table.lines().skip(1).collect();
        assert!(
            lines[0].ends_with("equal    equal          7, then 5 / 5  repeated"),
            "{table}"
        );
        assert_eq!(lines[1], "repeated: job/one: retries depend on timing");
    }

    #[test]
    fn a_scenario_that_was_not_played_differs() {
        let row = Row {
            result: Err(anyhow!("the scenario was not played")),
            ..row(None, Differences::default())
        };
        let report = Report { rows: vec![row] };
        assert_eq!(
            report.differences(),
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
