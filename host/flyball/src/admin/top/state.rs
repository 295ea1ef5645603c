//! What `flyball top` shows, and what keys do to it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use flyball_manager::{PluginDetails, PluginState, PluginStatus};
use flyball_runtime::trend::TrendBrief;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

/// Rows that a page up or down moves by.
const PAGE: usize = 20;

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Shown {
    #[default]
    Plugins,
    Plugin(String),
}

/// An answer of the host.
pub(super) enum Answer {
    Plugins(anyhow::Result<Vec<PluginStatus>>),
    Trends(anyhow::Result<BTreeMap<String, TrendBrief>>),
    Details(anyhow::Result<Box<PluginDetails>>),
}

/// The order of the plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Those in trouble first.
    #[default]
    State,
    Name,
    Rate,
    Errors,
    Cpu,
    Memory,
}

impl Order {
    const ALL: [Self; 6] = [
        Self::State,
        Self::Name,
        Self::Rate,
        Self::Errors,
        Self::Cpu,
        Self::Memory,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self);
        Self::ALL[(at.unwrap_or_default() + 1) % Self::ALL.len()]
    }
}

/// All that is shown.
#[derive(Default)]
pub(super) struct State {
    shown: Shown,
    plugins: Vec<PluginStatus>,
    trends: BTreeMap<String, TrendBrief>,
    details: Option<Box<PluginDetails>>,
    problem: Option<String>,
    order: Order,
    filter: String,
    /// Whether keys are letters of the filter.
    is_filtering: bool,
    has_ended: bool,
    /// The place in the table of plugins, which drawing moves too.
    pub(super) table: TableState,
}

impl State {
    /// Takes an answer. Without one, what was shown before stays, with the problem.
    pub(super) fn take(&mut self, answer: Answer) {
        let problem = match answer {
            Answer::Plugins(Ok(plugins)) => {
                self.set_plugins(plugins);
                self.problem = None;
                return;
            }
            Answer::Trends(Ok(trends)) => {
                self.trends = trends;
                return;
            }
            Answer::Details(Ok(details)) => {
                self.details = Some(details);
                return;
            }
            Answer::Plugins(Err(problem))
            | Answer::Trends(Err(problem))
            | Answer::Details(Err(problem)) => problem,
        };
        self.problem = Some(format!("{problem:#}"));
    }

    /// Sets the plugins. The selected one stays selected, wherever it is now.
    fn set_plugins(&mut self, plugins: Vec<PluginStatus>) {
        let selected = self.selected().map(|plugin| plugin.name.clone());
        self.plugins = plugins;
        self.select(selected);
    }

    fn select(&mut self, name: Option<String>) {
        let rows = self.rows();
        let at = rows
            .iter()
            .position(|plugin| Some(&plugin.name) == name.as_ref());
        let at = at.unwrap_or_else(|| self.table.selected().unwrap_or_default());
        let last = rows.len().checked_sub(1);
        self.table.select(last.map(|last| at.min(last)));
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => self.has_ended = true,
            _ if self.is_filtering => self.type_filter(key.code),
            KeyCode::Char('q') => self.has_ended = true,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.go_back(),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(|at| at.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(|at| at.saturating_sub(1)),
            KeyCode::PageDown => self.move_by(|at| at.saturating_add(PAGE)),
            KeyCode::PageUp => self.move_by(|at| at.saturating_sub(PAGE)),
            KeyCode::Home => self.move_by(|_| 0),
            KeyCode::End => self.move_by(|_| usize::MAX),
            KeyCode::Char('s') => self.change(|state| state.order = state.order.next()),
            KeyCode::Char('/') if self.shown == Shown::Plugins => self.is_filtering = true,
            KeyCode::Enter | KeyCode::Right => self.open(),
            _ => {}
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter | KeyCode::Down | KeyCode::Up => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.change(|state| state.filter.clear());
            }
            KeyCode::Backspace => self.change(|state| {
                state.filter.pop();
            }),
            KeyCode::Char(letter) => self.change(|state| state.filter.push(letter)),
            _ => {}
        }
    }

    /// Changes what the table shows. The selected plugin stays selected, if it is still there.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let selected = self.selected().map(|plugin| plugin.name.clone());
        change(self);
        self.select(selected);
    }

    fn go_back(&mut self) {
        match self.shown {
            Shown::Plugin(_) => {
                self.shown = Shown::Plugins;
                self.details = None;
            }
            Shown::Plugins => self.change(|state| state.filter.clear()),
        }
    }

    fn move_by(&mut self, step: impl FnOnce(usize) -> usize) {
        let last = self.rows().len().checked_sub(1);
        let at = self.table.selected().unwrap_or_default();
        self.table.select(last.map(|last| step(at).min(last)));
    }

    fn open(&mut self) {
        if let Some(plugin) = self.selected() {
            self.shown = Shown::Plugin(plugin.name.clone());
            self.details = None;
        }
    }

    pub(super) fn shown(&self) -> &Shown {
        &self.shown
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// The filter, and whether it is being typed.
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.is_filtering)
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// All plugins, whether the filter leaves them or not.
    pub(super) fn plugins(&self) -> &[PluginStatus] {
        &self.plugins
    }

    pub(super) fn trend(&self, plugin: &str) -> TrendBrief {
        self.trends.get(plugin).cloned().unwrap_or_default()
    }

    /// The details of the plugin that is shown; none until the host has sent them.
    pub(super) fn details(&self) -> Option<&PluginDetails> {
        self.details.as_deref()
    }

    pub(super) fn selected(&self) -> Option<&PluginStatus> {
        let at = self.table.selected()?;
        self.rows().get(at).copied()
    }

    /// The plugins that the filter leaves, in their order.
    pub(super) fn rows(&self) -> Vec<&PluginStatus> {
        let filter = self.filter.to_lowercase();
        let plugins = self.plugins.iter();
        let mut rows: Vec<&PluginStatus> = plugins
            .filter(|plugin| plugin.name.to_lowercase().contains(&filter))
            .collect();
        rows.sort_by(|a, b| self.compare(a, b).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    fn compare(&self, a: &PluginStatus, b: &PluginStatus) -> Ordering {
        let errors =
            |plugin: &PluginStatus| self.trends.get(&plugin.name).map_or(0, |own| own.errors);
        let cores =
            |plugin: &PluginStatus| self.trends.get(&plugin.name).map_or(0.0, |own| own.cores);
        let rate = |plugin: &PluginStatus| plugin.performance.per_second;
        match self.order {
            Order::State => rank(a.state)
                .cmp(&rank(b.state))
                .then_with(|| (errors(b) > 0).cmp(&(errors(a) > 0))),
            Order::Name => Ordering::Equal,
            Order::Rate => rate(b).total_cmp(&rate(a)),
            Order::Errors => errors(b).cmp(&errors(a)),
            Order::Cpu => cores(b).total_cmp(&cores(a)),
            Order::Memory => b.memory.cmp(&a.memory),
        }
    }
}

/// The less, the more an operator is needed.
fn rank(state: PluginState) -> u8 {
    match state {
        PluginState::Failed | PluginState::Quarantined => 0,
        PluginState::Pending | PluginState::WaitingForKind => 1,
        PluginState::Starting | PluginState::Loading | PluginState::Standby => 2,
        PluginState::Running => 3,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use anyhow::anyhow;
    use serde_json::json;

    use super::*;

    pub(in super::super) fn plugin(name: &str, state: &str, per_second: f64) -> PluginStatus {
        let status = json!({
            "name": name, "version": "1.0.0", "digest": "0123", "origin": format!("{name}.wasm"), "state": state,
            "reason": null, "rolledBack": false, "queued": 3, "reconciles": 10, "errors": 1, "perSecond": per_second,
            "p50Ms": 1.0, "p99Ms": 2.5, "lastWhy": null, "memory": 1 << 20, "memo": 0, "instances": 1, "cpuSeconds": 1.0,
        });
        serde_json::from_value(status).expect("a status")
    }

    pub(in super::super) fn state_of(plugins: Vec<PluginStatus>) -> State {
        let mut state = State::default();
        state.take(Answer::Plugins(Ok(plugins)));
        state
    }

    pub(in super::super) fn press(state: &mut State, keys: &[KeyCode]) {
        for key in keys {
            state.press(KeyEvent::new(*key, KeyModifiers::NONE));
        }
    }

    fn names(state: &State) -> Vec<&str> {
        let rows = state.rows().into_iter();
        rows.map(|plugin| plugin.name.as_str()).collect()
    }

    fn three() -> State {
        state_of(vec![
            plugin("a", "running", 1.0),
            plugin("b", "failed", 0.0),
            plugin("c", "running", 9.0),
        ])
    }

    #[test]
    fn plugins_in_trouble_are_first_and_s_changes_the_order() {
        let mut state = three();
        assert_eq!(names(&state), ["b", "a", "c"]);
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(
            (state.order(), names(&state)),
            (Order::Name, vec!["a", "b", "c"])
        );
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(
            (state.order(), names(&state)),
            (Order::Rate, vec!["c", "a", "b"])
        );
        press(&mut state, &[KeyCode::Char('s'); 4]);
        assert_eq!(state.order(), Order::State);
    }

    #[test]
    fn the_selected_plugin_stays_selected_wherever_it_goes() {
        let mut state = three();
        press(&mut state, &[KeyCode::Down]);
        assert_eq!(state.selected().map(|plugin| &*plugin.name), Some("a"));
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(state.selected().map(|plugin| &*plugin.name), Some("a"));
        state.take(Answer::Plugins(Ok(vec![
            plugin("z", "failed", 0.0),
            plugin("a", "failed", 0.0),
        ])));
        assert_eq!(state.selected().map(|plugin| &*plugin.name), Some("a"));
        press(
            &mut state,
            &[KeyCode::End, KeyCode::Down, KeyCode::PageDown],
        );
        assert_eq!(state.selected().map(|plugin| &*plugin.name), Some("z"));
        press(&mut state, &[KeyCode::Home]);
        assert_eq!(state.selected().map(|plugin| &*plugin.name), Some("a"));
        state.take(Answer::Plugins(Ok(Vec::new())));
        assert_eq!(state.selected(), None);
        press(&mut state, &[KeyCode::Down, KeyCode::Enter]);
        assert_eq!(*state.shown(), Shown::Plugins);
    }

    #[test]
    fn a_slash_filters_and_letters_are_no_commands_then() {
        let mut state = three();
        press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('q')]);
        assert!(!state.has_ended());
        assert!(names(&state).is_empty());
        press(&mut state, &[KeyCode::Backspace, KeyCode::Char('C')]);
        assert_eq!(names(&state), ["c"]);
        press(&mut state, &[KeyCode::Enter, KeyCode::Enter]);
        assert_eq!(*state.shown(), Shown::Plugin("c".to_owned()));
        press(&mut state, &[KeyCode::Esc, KeyCode::Esc]);
        assert_eq!((state.shown(), names(&state).len()), (&Shown::Plugins, 3));
        press(&mut state, &[KeyCode::Char('q')]);
        assert!(state.has_ended());
    }

    #[test]
    fn a_host_that_does_not_answer_leaves_what_was_shown() {
        let mut state = three();
        state.take(Answer::Plugins(Err(anyhow!("it is gone"))));
        assert_eq!(
            (state.problem(), state.plugins().len()),
            (Some("it is gone"), 3)
        );
        state.take(Answer::Plugins(Ok(vec![plugin("a", "running", 1.0)])));
        assert_eq!(state.problem(), None);
    }
}
