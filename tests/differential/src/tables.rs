//! The tables of a report: the result of each scenario, and for each controller, in how many of its scenarios Flyball is
//! equal to stock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::compare::{Compared, Report, Row};
use crate::metrics;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, [objects, events, managers, writes, repeated]: [&str; 5]| {
            let cells = format!(
                "{name:<60} {objects:>8} {events:>8} {managers:>8} {writes:>22}  {repeated}"
            );
            writeln!(f, "{}", cells.trim_end())
        };
        line(
            "scenario",
            [
                "objects",
                "events",
                "managers",
                "writes: ours / stock's",
                "",
            ],
        )?;
        for row in &self.rows {
            let cells = row.cells();
            line(&row.scenario, cells.each_ref().map(String::as_str))?;
        }
        for row in &self.rows {
            for differences in &row.repeated {
                writeln!(f, "repeated: {}: {differences}", row.scenario)?;
            }
        }
        write!(f, "\n{}", Fidelity::of(self))?;
        // They are reported and do not fail: which series exist depends on what happened.
        for (plane, differences) in &self.metrics {
            let families: BTreeSet<String> = differences
                .iter()
                .map(|text| metrics::family(text))
                .collect();
            for text in families {
                writeln!(f, "metrics of the plane of {plane}: {text}")?;
            }
        }
        Ok(())
    }
}

impl Row {
    /// The cells of the table, without the name.
    fn cells(&self) -> [String; 5] {
        let Ok(Compared { limit, differences }) = &self.result else {
            return ["-", "-", "-", "-", ""].map(str::to_owned);
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
            verdict(!differences.managers.is_empty()).to_owned(),
            format!("{} / {limit}", writes.join(", then ")),
            repeated.to_owned(),
        ]
    }
}

/// The table of fidelity, with a row for each controller.
struct Fidelity(BTreeMap<String, Line>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    scenarios: usize,
    objects: usize,
    events: usize,
    managers: usize,
    /// Whether the metrics of the plane are equal; `None` if not all of its scenarios were played.
    metrics: Option<bool>,
    /// The writes of all scenarios, and the most that stock needed.
    writes: (usize, usize),
}

impl Fidelity {
    fn of(report: &Report) -> Self {
        let mut lines: BTreeMap<String, Line> = BTreeMap::new();
        for row in &report.rows {
            let controller = row.scenario.split('/').next().unwrap_or_default();
            let line = lines.entry(controller.to_owned()).or_default();
            line.scenarios += 1;
            line.metrics = report.metrics.get(row.plane).map(Vec::is_empty);
            let Ok(Compared { limit, differences }) = &row.result else {
                continue;
            };
            line.objects += usize::from(differences.objects.is_empty());
            line.events += usize::from(differences.events.is_empty());
            line.managers += usize::from(differences.managers.is_empty());
            line.writes.0 += row.writes.last().copied().unwrap_or_default();
            line.writes.1 += limit;
        }
        Self(lines)
    }
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = ["scenarios", "objects", "events", "managers", "metrics"];
        let mut line = |name: &str, cells: [&str; 5], writes: &str| {
            let cells = cells.map(|cell| format!("{cell:>9}")).join(" ");
            writeln!(f, "{name:<36} {cells} {writes:>22}")
        };
        line("controller", titles, "writes: ours / stock's")?;
        for (controller, found) in &self.0 {
            let metrics = match found.metrics {
                Some(true) => "equal",
                Some(false) => "DIFFER",
                None => "-",
            };
            let counts = [found.scenarios, found.objects, found.events, found.managers]
                .map(|count| count.to_string());
            let [scenarios, objects, events, managers] = counts.each_ref().map(String::as_str);
            let (ours, most) = found.writes;
            line(
                controller,
                [scenarios, objects, events, managers, metrics],
                &format!("{ours} / {most}"),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::golden::Differences;

    fn row(scenario: &str, differences: Differences) -> Row {
        Row {
            scenario: scenario.into(),
            plane: "job",
            known: Vec::new(),
            writes: vec![9, 4],
            repeated: Vec::new(),
            result: Ok(Compared {
                limit: 5,
                differences,
            }),
        }
    }

    #[test]
    fn the_table_shows_each_play_of_a_repeated_scenario_and_its_differences() {
        let repeated = Row {
            repeated: vec!["9 writes".into()],
            ..row("job/one", Differences::default())
        };
        let report = Report {
            rows: vec![repeated],
            metrics: BTreeMap::new(),
            texts: Vec::new(),
            parted: Vec::new(),
        };
        let table = report.to_string();
        let lines: Vec<&str> = table.lines().skip(1).collect();
        assert!(
            lines[0].ends_with("equal    equal    equal          9, then 4 / 5  repeated"),
            "{table}"
        );
        assert_eq!(lines[1], "repeated: job/one: 9 writes");
    }

    #[test]
    fn a_controller_has_the_number_of_its_equal_scenarios() {
        let other = Differences {
            managers: vec!["missing: a".into()],
            ..Differences::default()
        };
        let failed = Row {
            result: Err(anyhow!("it failed")),
            ..row("cronjob/one", Differences::default())
        };
        let report = Report {
            rows: vec![
                row("job/one", Differences::default()),
                row("job/two", other),
                failed,
            ],
            metrics: [("job", vec!["too many: b".to_owned()])].into(),
            texts: Vec::new(),
            parted: Vec::new(),
        };
        let table = Fidelity::of(&report);
        let expected = Line {
            scenarios: 2,
            objects: 2,
            events: 2,
            managers: 1,
            metrics: Some(false),
            writes: (8, 10),
        };
        assert_eq!(table.0["job"], expected);
        assert_eq!(
            (table.0["cronjob"].scenarios, table.0["cronjob"].objects),
            (1, 0)
        );
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("controller"), "{text}");
        assert!(lines[2].starts_with("job"), "{text}");
        assert!(lines[2].ends_with("8 / 10"), "{text}");
    }
}
