//! Draws `flyball top`. Texts of plugins can't move the cursor or change colours: control characters are spelled out.

use flyball_manager::{PluginDetails, PluginState, PluginStatus};
use flyball_runtime::history::Reconciled;
use flyball_types::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::state::{Shown, State};

/// The parts of a character cell, from the least to the most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Characters of a rate over the hour in the table.
const BAR_WIDTH: usize = 15;
/// The least width for all columns.
const WIDE: u16 = 100;

/// Draws the state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(summary(state), head);
    match (state.shown().clone(), state.details()) {
        (Shown::Plugins, _) => plugins(frame, state, body),
        (Shown::Plugin(_), Some(details)) => plugin(frame, details, body),
        (Shown::Plugin(name), None) => {
            frame.render_widget(
                Paragraph::new(format!("{}: asking…", printable(&name))),
                body,
            );
        }
    }
    frame.render_widget(help(state), foot);
}

fn summary(state: &State) -> Paragraph<'static> {
    let plugins = state.plugins();
    let running = plugins
        .iter()
        .filter(|one| one.state == PluginState::Running);
    let troubled = plugins
        .iter()
        .filter(|one| look(one.state) != Color::Green && is_trouble(one.state));
    let (running, troubled) = (running.count(), troubled.count());
    let rate: f64 = plugins.iter().map(|one| one.performance.per_second).sum();
    let queued: usize = plugins.iter().map(|one| one.queued).sum();
    let memory: usize = plugins.iter().map(|one| one.memory).sum();
    let cores: f64 = plugins.iter().map(|one| state.trend(&one.name).cores).sum();
    let errors: u64 = plugins
        .iter()
        .map(|one| state.trend(&one.name).errors)
        .sum();
    let colour = |number: u64| if number > 0 { Color::Red } else { Color::Reset };
    let mut line = Line::from(vec![
        " Flyball ".bold().reversed(),
        format!("  {running} of {} running", plugins.len()).into(),
        format!("  {troubled} in trouble").fg(colour(troubled as u64)),
        format!("  {rate:.1} reconciles/s").into(),
        format!("  {errors} errors in 1 h").fg(colour(errors)),
        format!("  {queued} queued").into(),
        format!("  {cores:.2} cores").into(),
        format!("  {}", mebibytes(memory)).into(),
    ]);
    if let Some(problem) = state.problem() {
        line = Line::from(format!(" {} ", printable(problem)))
            .style(Style::new().fg(Color::White).bg(Color::Red));
    }
    Paragraph::new(line)
}

fn help(state: &State) -> Paragraph<'static> {
    let (filter, is_filtering) = state.filter();
    let text = match (state.shown(), is_filtering, filter) {
        (_, true, filter) => format!(
            " filter: {}▏  Enter keeps it, Esc clears it",
            printable(filter)
        ),
        (Shown::Plugin(_), ..) => " Esc back   q quit".to_owned(),
        (_, false, "") => format!(
            " ↑↓ move   Enter open   / filter   s sort (by {})   q quit",
            state.order().name()
        ),
        (_, false, filter) => format!(
            " only {}, Esc shows all   ↑↓ move   Enter open   s sort (by {})   q quit",
            printable(filter),
            state.order().name()
        ),
    };
    Paragraph::new(text).dim()
}

fn plugins(frame: &mut Frame<'_>, state: &mut State, area: Rect) {
    let is_wide = area.width >= WIDE;
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let row = |plugin: &PluginStatus| {
        let (work, trend) = (&plugin.performance, state.trend(&plugin.name));
        let errors = Style::new().fg(if trend.errors > 0 {
            Color::Red
        } else {
            Color::Reset
        });
        let mut cells = vec![
            Cell::from(printable(&plugin.name)),
            Cell::from(plugin.state.name().fg(look(plugin.state))),
            number(format!("{:.1}", work.per_second)),
            number(trend.errors.to_string()).style(errors),
        ];
        if is_wide {
            cells.extend([
                Cell::from(bars(&trend.rate).cyan()),
                number(plugin.queued.to_string()),
                number(milliseconds(trend.p99_ms)),
                number(format!("{:.2}", trend.cores)),
                number(mebibytes(plugin.memory)),
            ]);
        }
        Row::new(cells)
    };
    let rows: Vec<Row<'_>> = state.rows().into_iter().map(row).collect();
    let mut titles = vec!["PLUGIN", "STATE", "PER SECOND", "ERRORS 1 h"];
    let mut widths = vec![
        Constraint::Fill(1),
        Constraint::Length(16),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    if is_wide {
        titles.extend(["LAST HOUR", "QUEUED", "P99", "CORES", "MEMORY"]);
        widths.extend([BAR_WIDTH as u16, 8, 10, 8, 11].map(Constraint::Length));
    }
    let titles = Row::new(titles).style(Modifier::BOLD);
    let table = Table::new(rows, widths)
        .header(titles)
        .row_highlight_style(Modifier::REVERSED);
    frame.render_stateful_widget(table, area, &mut state.table);
}

fn plugin(frame: &mut Frame<'_>, details: &PluginDetails, area: Rect) {
    let [title, charts, below] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(7),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(facts(&details.status), title);

    let trend = &details.trend;
    let scaled = |values: &[f64]| values.iter().map(|value| (value * 1e3) as u64).collect();
    let last = |values: &[f64]| values.last().copied().unwrap_or_default();
    let memory = trend.memory.last().copied().unwrap_or_default() as usize;
    let drawn: [(String, Vec<u64>); 4] = [
        (
            format!("reconciles {:.1}/s", last(&trend.per_second)),
            scaled(&trend.per_second),
        ),
        (
            format!("p99 {}", milliseconds(last(&trend.p99_ms))),
            scaled(&trend.p99_ms),
        ),
        (
            format!("CPU {:.2} cores", last(&trend.cores)),
            scaled(&trend.cores),
        ),
        (
            format!("memory {}", mebibytes(memory)),
            trend.memory.clone(),
        ),
    ];
    let areas: [Rect; 4] = Layout::horizontal([Constraint::Fill(1); 4]).areas(charts);
    for ((title, values), area) in drawn.into_iter().zip(areas) {
        let block = Block::bordered().title(title);
        let fit = usize::from(block.inner(area).width);
        // The last ones: the width is seldom that of an hour.
        let values = values[values.len().saturating_sub(fit)..].to_vec();
        let line = Sparkline::default().block(block).data(values).cyan();
        frame.render_widget(line, area);
    }

    let [errors, recent, limits] = Layout::vertical([
        Constraint::Length(2 + 2 * details.failures.len().min(3) as u16),
        Constraint::Fill(1),
        Constraint::Length(2 + details.limits.len().min(8) as u16),
    ])
    .areas(below);
    let lines: Vec<Line<'_>> = details.failures.iter().take(3).flat_map(failure).collect();
    frame.render_widget(section("last errors", lines), errors);
    let lines: Vec<Line<'_>> = details.recent.iter().map(reconciled).collect();
    frame.render_widget(section("last reconciles", lines), recent);
    let lines = details.limits.iter().take(8).map(|limit| {
        let hits = match limit.hits {
            0 => Span::raw(""),
            hits => format!("  hit {hits} times").red(),
        };
        let part = limit.used.zip(limit.limit.filter(|most| *most > 0.0));
        let used = part.map(|(used, most)| format!("{:>4.0} %", used / most * 100.0));
        let used = used.unwrap_or_else(|| "      ".to_owned());
        Line::from(vec![
            format!(" {used}  ").into(),
            limit.name.clone().into(),
            hits,
        ])
    });
    frame.render_widget(section("limits", lines.collect()), limits);
}

fn facts(status: &PluginStatus) -> Paragraph<'static> {
    let digest: String = status.digest.chars().take(12).collect();
    let first = Line::from(vec![
        format!(" {} ", printable(&status.name)).bold(),
        status.state.name().fg(look(status.state)),
        format!(
            "  {}  {digest}  {}",
            printable(&status.version),
            printable(&status.origin)
        )
        .into(),
    ]);
    let second = match &status.reason {
        Some(reason) => Line::from(format!(" {}", printable(reason))).yellow(),
        None => Line::from(format!(
            " {} reconciles, {} failed, {} queued, {} instances",
            status.performance.reconciles,
            status.performance.errors,
            status.queued,
            status.instances
        )),
    };
    Paragraph::new(vec![first, second]).wrap(Wrap { trim: false })
}

fn section<'a>(title: &'static str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    let lines = match lines.is_empty() {
        true => vec![Line::from(" none").dim()],
        false => lines,
    };
    Paragraph::new(lines).block(Block::bordered().title(title))
}

fn failure(failed: &Reconciled) -> [Line<'static>; 2] {
    let error = failed.failed.as_deref().unwrap_or_default();
    [
        Line::from(format!(" {}  {}", time_of(failed), printable(&failed.key))),
        Line::from(format!("   {}", printable(error))).red(),
    ]
}

fn reconciled(done: &Reconciled) -> Line<'static> {
    let outcome = match &done.failed {
        Some(error) => printable(error).red(),
        None if done.wrote.is_empty() => "no writes".dim(),
        None => printable(&done.wrote.join(", ")).into(),
    };
    Line::from(vec![
        format!(" {}  {}  ", time_of(done), printable(&done.key)).into(),
        format!("{}  {}  ", milliseconds(done.took_ms), printable(&done.why)).dim(),
        outcome,
    ])
}

/// The time of day in UTC.
fn time_of(done: &Reconciled) -> String {
    let time = done.at.split_once('T').map_or(&*done.at, |(_, time)| time);
    printable(time.trim_end_matches('Z'))
}

fn is_trouble(state: PluginState) -> bool {
    matches!(look(state), Color::Red | Color::Yellow)
}

fn look(state: PluginState) -> Color {
    match state {
        PluginState::Running => Color::Green,
        PluginState::Failed | PluginState::Quarantined => Color::Red,
        PluginState::Pending | PluginState::WaitingForKind => Color::Yellow,
        PluginState::Loading | PluginState::Starting | PluginState::Standby => Color::Blue,
    }
}

/// Rates as bars, two to a character.
fn bars(rates: &[f64]) -> String {
    let pairs = rates.chunks(rates.len().div_ceil(BAR_WIDTH).max(1));
    let values: Vec<f64> = pairs.map(|pair| pair.iter().sum()).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let part = (value / most * (BARS.len() - 1) as f64).round() as usize;
        BARS[part.min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

fn milliseconds(value: f64) -> String {
    match value {
        0.0 => "–".to_owned(),
        value if value < 10.0 => format!("{value:.2} ms"),
        value => format!("{value:.0} ms"),
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flyball_runtime::trend::TrendBrief;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use serde_json::json;

    use super::super::state::Answer;
    use super::super::state::tests::{plugin, press, state_of};
    use super::*;

    fn drawn(state: &mut State, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 40)).expect("a terminal");
        let shown = terminal
            .draw(|frame| draw(frame, state))
            .expect("it is drawn");
        let cells = shown.buffer.content().chunks(usize::from(width));
        let lines = cells.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn the_table_has_a_line_for_each_plugin_and_fits_the_terminal() {
        let mut state = state_of(vec![
            plugin("greeter", "running", 2.5),
            plugin("broken", "failed", 0.0),
        ]);
        let trend = TrendBrief {
            rate: [vec![0.0; 29], vec![8.0]].concat(),
            errors: 7,
            p99_ms: 12.0,
            ..TrendBrief::default()
        };
        let trends = BTreeMap::from([("greeter".to_owned(), trend)]);
        state.take(Answer::Trends(Ok(trends)));
        let wide = drawn(&mut state, 140);
        assert!(
            wide.contains("1 of 2 running  1 in trouble  2.5 reconciles/s  7 errors in 1 h"),
            "{wide}"
        );
        let line = |name: &str| {
            let mut lines = wide.lines().skip(3);
            lines.find(|line| line.contains(name)).expect(name)
        };
        assert!(line("broken").contains("failed"));
        for shown in ["running", "2.5", "▁▁▁▁▁▁▁▁▁▁▁▁▁▁█", "12 ms", "1.0 MiB"]
        {
            assert!(line("greeter").contains(shown), "{shown} is not in {wide}");
        }
        let narrow = drawn(&mut state, 60);
        assert!(
            narrow.contains("greeter") && !narrow.contains("LAST HOUR"),
            "{narrow}"
        );
    }

    #[test]
    fn a_plugin_is_shown_with_its_errors_and_no_text_of_it_reaches_the_terminal_raw() {
        let status = plugin("greeter", "running", 2.5);
        let mut state = state_of(vec![status.clone()]);
        press(&mut state, &[KeyCode::Enter]);
        assert!(drawn(&mut state, 120).contains("asking"));
        let failed = json!({
            "at": "2026-01-01T10:11:12.345Z", "plugin": "greeter", "queue": "q", "key": "demo/web", "why": "retry",
            "coalesced": 0, "attempt": 1, "queuedMs": 0.1, "tookMs": 3.0, "failed": "\u{1b}[2J\u{202e}no", "wrote": [],
        });
        let details = json!({
            "status": status, "queues": [], "asks": [], "rules": [], "account": null, "versions": [],
            "trend": {"at": [0], "seconds": [10.0], "perSecond": [2.5], "errorsPerSecond": [0.0], "p50Ms": [1.0],
                "p99Ms": [2.0], "queued": [0], "memory": [1 << 20], "cores": [0.25]},
            "limits": [{"name": "instances", "unit": "count", "limit": 10.0, "used": 5.0, "hits": 3}],
            "failures": [failed.clone()], "recent": [failed],
        });
        let details = serde_json::from_value(details).expect("details");
        state.take(Answer::Details(Ok(Box::new(details))));
        let shown = drawn(&mut state, 120);
        for text in [
            "reconciles 2.5/s",
            "CPU 0.25 cores",
            "10:11:12.345  demo/web",
            r"\u001b[2J\u202eno",
            "50 %  instances  hit 3 times",
        ] {
            assert!(shown.contains(text), "{text} is not in {shown}");
        }
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
    }
}
