//! Figures of all rounds and their medians, as a table, a JSON file and a plot.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xtask::run::{command, output};

use super::plot;
use super::workloads::of_languages;

/// The markers around the figures in a document.
const BEGIN: &str = "<!-- figures: written by `cargo xtask bench` -->\n";
const END: &str = "<!-- end of the figures -->";
/// The file of the figures.
const FILE: &str = "performance.json";

/// The figures of a run. Each has a name with its unit, and a value.
#[derive(Default)]
pub(super) struct Figures(Vec<(String, f64)>);

impl Figures {
    pub(super) fn push(&mut self, name: impl Into<String>, value: f64) {
        self.0.push((name.into(), value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds percentiles of values. Each part has a name and a fraction from 0 to 1.
    ///
    /// # Errors
    /// There are no values.
    pub(super) fn push_percentiles<const N: usize>(
        &mut self,
        parts: [(&'static str, f64); N],
        mut values: Vec<f64>,
    ) -> Result<()> {
        for (name, part) in parts {
            self.push(
                name,
                percentile(&mut values, part)
                    .with_context(|| format!("nothing was measured for `{name}`"))?,
            );
        }
        Ok(())
    }
}

/// The figures of all workloads.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Report {
    workloads: Vec<Workload>,
}

/// The figures of one workload.
#[derive(Serialize, Deserialize)]
pub(super) struct Workload {
    name: String,
    what: String,
    /// The commit that was measured.
    version: String,
    rows: Vec<Row>,
}

/// A figure in all rounds: of Flyball, of stock, and of stock as a control.
#[derive(Serialize, Deserialize)]
struct Row {
    figure: String,
    flyball: Vec<f64>,
    stock: Vec<f64>,
    again: Vec<f64>,
}

/// The rounds of one workload: of Flyball, of stock, and of stock as a control.
pub(super) type Rounds = [Vec<Figures>; 3];

impl Report {
    /// Adds a workload, and prints its part of the table.
    pub(super) fn add(&mut self, name: &str, what: &str, rounds: &Rounds) {
        let figures = rounds[0].first().map_or(&[][..], |figures| &figures.0);
        let of = |subject: usize, at: usize| {
            rounds[subject]
                .iter()
                .map(|figures| figures.0[at].1)
                .collect()
        };
        let row = |(at, (figure, _)): (usize, &(String, f64))| Row {
            figure: figure.clone(),
            flyball: of(0, at),
            stock: of(1, at),
            again: of(2, at),
        };
        let rows = figures.iter().enumerate().map(row).collect();
        let workload = Workload {
            name: name.into(),
            what: what.into(),
            version: version(),
            rows,
        };
        workload.print();
        self.workloads.push(workload);
    }

    /// Reads the report in a folder. Returns an empty report if there is none.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .with_context(|| format!("can't read {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// Adds the workloads of an earlier report that this one doesn't have. Sorts by the position of the name in
    /// `order`.
    pub(super) fn join(self, before: Self, order: &[&str]) -> Self {
        let mut workloads = self.workloads;
        for workload in before.workloads {
            if workloads.iter().all(|own| own.name != workload.name) {
                workloads.push(workload);
            }
        }
        workloads.sort_by_key(|workload| order.iter().position(|name| *name == workload.name));
        Self { workloads }
    }

    /// The figures of a workload whose ratio to stock's is larger than the bound of the first entry whose text their
    /// name contains.
    pub(super) fn excesses(&self, name: &str, bounds: &[(&str, f64)]) -> Vec<String> {
        let workloads = self.workloads.iter().filter(|one| one.name == name);
        let excess = |row: &Row| {
            let (_, bound) = bounds.iter().find(|(text, _)| row.figure.contains(text))?;
            let ratio = row.ratio().filter(|ratio| ratio > bound)?;
            Some(format!(
                "{name}, {}: {ratio:.2} of stock's, more than {bound}",
                row.figure
            ))
        };
        workloads
            .flat_map(|one| &one.rows)
            .filter_map(excess)
            .collect()
    }

    /// The figures of the selected workloads as tables in Markdown.
    pub(super) fn figures(&self, is_selected: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        for Workload {
            name,
            what,
            version,
            rows,
        } in &self.workloads
        {
            if !is_selected(name) {
                continue;
            }
            text.push_str(&format!("\n**{name}**: {what} (at {version})\n\n"));
            text.push_str(&match of_languages(name) {
                true => by_subject(rows),
                false => against_stock(rows),
            });
        }
        text + "\n"
    }

    /// The ratios to stock as one table in Markdown, with a line for each workload of which the CPU time or the memory
    /// was compared.
    pub(super) fn ratios(&self) -> String {
        let mut text =
            "\n| workload | time | CPU | peak memory | API writes |\n|---|---|---|---|---|\n"
                .to_owned();
        for Workload {
            name, what, rows, ..
        } in &self.workloads
        {
            let [time, cpu, memory, writes] =
                ["time", "CPU, s", "peak memory", "API writes"].map(|part| {
                    let rows = rows.iter().filter(|row| row.figure.contains(part));
                    let ratios: Vec<String> = rows
                        .filter_map(|row| Some(format!("{:.2}", row.ratio()?)))
                        .collect();
                    (!ratios.is_empty()).then(|| ratios.join(", "))
                });
            if cpu.is_none() && memory.is_none() {
                continue;
            }
            let cells = [time, cpu, memory, writes].map(|cell| cell.unwrap_or("–".to_owned()));
            text.push_str(&format!("| {name}: {what} | {} |\n", cells.join(" | ")));
        }
        text + "\n"
    }

    /// Writes the figures as JSON and the ratios as a plot into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't create {}", folder.display()))?;
        let json = serde_json::to_string_pretty(self)? + "\n";
        let ratios: Vec<plot::Group> = self.workloads.iter().filter_map(Workload::group).collect();
        for (name, text) in [(FILE, json), ("performance.svg", plot::svg(&ratios))] {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("can't write {}", path.display()))?;
            println!("wrote {}", path.display());
        }
        Ok(())
    }
}

/// A table with a line for each figure, beside stock's.
fn against_stock(rows: &[Row]) -> String {
    let mut text =
        "| | Flyball | stock | ours/stock | stock/stock |\n|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let [ours, stock, _] = row.medians();
        let [ours, stock, ratio, noise] = [ours, stock, row.ratio(), row.noise()]
            .map(|value| value.map_or("–".into(), |value| format!("{value:.2}")));
        text.push_str(&format!(
            "| {} | {ours} | {stock} | {ratio} | {noise} |\n",
            row.figure
        ));
    }
    text
}

/// A table of figures with names such as `go: warm call, µs`, with a line for each subject.
fn by_subject(rows: &[Row]) -> String {
    let parts = |row: &Row| {
        let (subject, figure) = row.figure.split_once(": ")?;
        Some((subject.to_owned(), figure.to_owned(), row.medians()[0]?))
    };
    let cells: Vec<_> = rows.iter().filter_map(parts).collect();
    let (mut subjects, mut figures) = (Vec::new(), Vec::new());
    for (subject, figure, _) in &cells {
        for (seen, name) in [(&mut subjects, &**subject), (&mut figures, &**figure)] {
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
    }
    let mut text = format!("| | {} |\n", figures.join(" | "));
    text += &format!("|---|{}\n", "---|".repeat(figures.len()));
    for subject in subjects {
        let value = |figure: &&str| {
            let cell = cells
                .iter()
                .find(|(of, name, _)| of == subject && name == figure);
            cell.map_or("–".to_owned(), |(.., value)| short(*value))
        };
        let values: Vec<String> = figures.iter().map(value).collect();
        text += &format!("| {subject} | {} |\n", values.join(" | "));
    }
    text
}

/// A value with two digits after the point, or none if it is whole.
fn short(value: f64) -> String {
    match value.fract() {
        0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Replaces the text between the markers in a document.
pub(super) fn show(document: &Path, figures: &str) -> Result<()> {
    let text = std::fs::read_to_string(document)
        .with_context(|| format!("can't read {}", document.display()))?;
    let places = text
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) =
        places.with_context(|| format!("{} has no markers for the figures", document.display()))?;
    let text = [before, BEGIN, figures, END, after].concat();
    std::fs::write(document, text).with_context(|| format!("can't write {}", document.display()))
}

impl Workload {
    fn print(&self) {
        println!(
            "{:<42} {:>10} {:>10} {:>12} {:>13}",
            self.name, "Flyball", "stock", "ours/stock", "stock/stock"
        );
        for row in &self.rows {
            let number =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
            let [ours, stock, _] = row.medians();
            println!(
                "  {:<40} {:>10} {:>10} {:>12} {:>13}",
                row.figure,
                number(ours),
                number(stock),
                number(row.ratio()),
                number(row.noise())
            );
        }
    }

    /// The bars of the plot; `None` if stock was not measured.
    fn group(&self) -> Option<plot::Group> {
        let bars = self
            .rows
            .iter()
            .filter_map(|row| Some((row.figure.clone(), row.ratio()?)));
        let group = plot::Group {
            name: self.name.clone(),
            bars: bars.collect(),
        };
        (!group.bars.is_empty()).then_some(group)
    }
}

impl Row {
    fn medians(&self) -> [Option<f64>; 3] {
        [&self.flyball, &self.stock, &self.again].map(|values| percentile(&mut values.clone(), 0.5))
    }

    /// The ratio of Flyball's median to stock's; `None` if stock was not measured or is 0.
    fn ratio(&self) -> Option<f64> {
        let [ours, stock, _] = self.medians();
        Some(ours? / stock.filter(|stock| *stock > 0.0)?)
    }

    /// The ratio of the control's median to stock's, which shows the noise of a ratio.
    fn noise(&self) -> Option<f64> {
        let [_, stock, again] = self.medians();
        Some(again? / stock.filter(|stock| *stock > 0.0)?)
    }
}

/// The commit that is checked out, with a mark if anything outside docs/ has uncommitted changes.
fn version() -> String {
    let commit =
        output(command("git").args(["describe", "--always", "--exclude=*"])).unwrap_or_default();
    let changed = output(command("git").args(["status", "--porcelain", "--", ".", ":!docs"]))
        .unwrap_or_default();
    if changed.is_empty() {
        commit
    } else {
        commit + " and changes"
    }
}

/// The value below which this fraction of the values lies; `None` if there are no values.
fn percentile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values
        .get(((values.len() as f64 * part) as usize).min(last))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians() {
        let row = Row {
            figure: "time, s".into(),
            flyball: vec![9.0, 1.0, 2.0],
            stock: vec![4.0, 4.0, 100.0],
            again: vec![5.0, 1.0, 6.0],
        };
        assert_eq!((row.ratio(), row.noise()), (Some(0.5), Some(1.25)));
        let alone = Row {
            figure: "time, s".into(),
            flyball: vec![1.0],
            stock: vec![],
            again: vec![],
        };
        assert_eq!((alone.ratio(), alone.noise()), (None, None));
    }

    #[test]
    fn a_figure_is_excessive_if_its_ratio_is_larger_than_its_bound() {
        let mut report = Report::default();
        let figures = |values: [f64; 3]| {
            let mut figures = Figures::default();
            for (name, value) in ["rollout: time, s", "CPU, s", "pods"]
                .into_iter()
                .zip(values)
            {
                figures.push(name, value);
            }
            vec![figures]
        };
        let rounds = [figures([1.0, 3.0, 9.0]), figures([1.0, 4.0, 1.0]), vec![]];
        report.add("daemons", "", &rounds);
        let excesses = |bounds: &[(&str, f64)]| report.excesses("daemons", bounds);
        assert!(excesses(&[("time", 1.0), ("CPU", 0.75)]).is_empty());
        assert_eq!(
            excesses(&[("time", 1.0), ("CPU", 0.6)]),
            ["daemons, CPU, s: 0.75 of stock's, more than 0.6"]
        );
        assert!(report.excesses("others", &[("CPU", 0.1)]).is_empty());
    }

    #[test]
    fn figures_of_languages_are_a_table_with_a_line_for_each() {
        let row = |figure: &str, value| Row {
            figure: figure.into(),
            flyball: vec![value],
            stock: vec![],
            again: vec![],
        };
        let rows = [
            row("go: component, MB", 1.5),
            row("go: warm call, µs", 20.0),
            row("c: component, MB", 0.25),
        ];
        assert_eq!(
            by_subject(&rows),
            "| | component, MB | warm call, µs |\n|---|---|---|\n| go | 1.50 | 20 |\n| c | 0.25 | – |\n"
        );
    }

    #[test]
    fn new_figures_of_a_workload_replace_its_old_figures() {
        let report = |figures: &[(&str, &str)]| Report {
            workloads: figures
                .iter()
                .map(|(name, what)| Workload {
                    name: (*name).into(),
                    what: (*what).into(),
                    version: String::new(),
                    rows: Vec::new(),
                })
                .collect(),
        };
        let joined = report(&[("b", "new")]).join(
            report(&[("c", "old"), ("b", "old"), ("a", "old")]),
            &["a", "b", "c"],
        );
        let names: Vec<(&str, &str)> = joined
            .workloads
            .iter()
            .map(|own| (&*own.name, &*own.what))
            .collect();
        assert_eq!(names, [("a", "old"), ("b", "new"), ("c", "old")]);
    }

    #[test]
    fn the_documents_show_the_figures_of_the_last_runs() -> Result<()> {
        let root = xtask::run::workspace();
        let report = Report::read(&root.join("docs"))?;
        for (document, figures) in [
            ("docs/performance.md", report.ratios()),
            ("docs/languages.md", report.figures(of_languages)),
            (
                "tests/bench/figures.md",
                report.figures(|name| !of_languages(name)),
            ),
        ] {
            let text = std::fs::read_to_string(root.join(document))?;
            let shown = [BEGIN, &figures, END].concat();
            assert!(text.contains(&shown), "{document} shows other figures");
        }
        Ok(())
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            [0.5, 0.99, 0.999].map(|part| percentile(&mut values, part)),
            [51.0, 100.0, 100.0].map(Some)
        );
        assert_eq!(percentile(&mut [], 0.5), None);
    }
}
