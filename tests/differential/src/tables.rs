//! The table of fidelity: for each controller, in how many of its scenarios Flyball is equal to stock.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::{Compared, Report};

/// A row for each controller.
pub(crate) struct Table(BTreeMap<String, Line>);

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

impl Table {
    pub(crate) fn of(report: &Report) -> Self {
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

impl fmt::Display for Table {
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
    use crate::compare::Row;
    use crate::golden::Differences;

    #[test]
    fn a_controller_has_the_number_of_its_equal_scenarios() {
        let row = |scenario: &str, differences: Differences| Row {
            scenario: scenario.into(),
            plane: "job",
            repeat_writes: None,
            known: Vec::new(),
            writes: vec![9, 4],
            result: Ok(Compared {
                limit: 5,
                differences,
            }),
        };
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
        };
        let table = Table::of(&report);
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
