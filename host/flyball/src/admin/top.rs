//! `flyball top`: the plugins of a running host in a terminal, live.
//!
//! `state.rs` holds what is shown and what keys do to it, `screen.rs` draws it. This file asks the host and reads keys.

mod screen;
mod state;

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::bail;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::state::{Answer, Shown, State};
use super::client::{self, RunningHost};

/// The interval between two looks at the host.
const PERIOD: Duration = Duration::from_secs(1);
/// The interval between two looks at the last hour of all plugins, which the host samples every ten seconds.
const TRENDS: Duration = Duration::from_secs(5);
/// How long the terminal waits for a key before it shows new answers.
const KEYS: Duration = Duration::from_millis(100);

/// Shows the plugins until the user quits.
pub(super) fn run(host: &RunningHost) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("`flyball top` needs a terminal: `flyball status` prints the plugins elsewhere");
    }
    // Without a host, the user learns so here, and the terminal stays as it is.
    let first = client::plugins(host)?;
    let (answers, wanted) = ask_again_and_again(host.clone())?;
    let mut state = State::default();
    state.take(Answer::Plugins(Ok(first)));
    ratatui::run(|terminal| show(terminal, &mut state, &answers, &wanted))
}

fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    answers: &mpsc::Receiver<Answer>,
    wanted: &mpsc::Sender<Shown>,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| screen::draw(frame, state))?;
        let mut is_new = false;
        while !is_new {
            if event::poll(KEYS)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        let before = state.shown().clone();
                        state.press(key);
                        if state.has_ended() {
                            return Ok(());
                        }
                        if *state.shown() != before {
                            // The thread that asks ends only with the process.
                            let _ = wanted.send(state.shown().clone());
                        }
                        is_new = true;
                    }
                    Event::Resize(..) => is_new = true,
                    _ => {}
                }
            }
            for answer in answers.try_iter() {
                state.take(answer);
                is_new = true;
            }
        }
    }
}

/// Asks the host in a thread of its own, so that keys don't wait for it. Returns its answers, and the channel that tells
/// what is shown.
fn ask_again_and_again(
    host: RunningHost,
) -> anyhow::Result<(mpsc::Receiver<Answer>, mpsc::Sender<Shown>)> {
    let (sender, answers) = mpsc::channel();
    let (wanted, wants) = mpsc::channel();
    let ask = move || {
        let mut shown = Shown::Plugins;
        let mut trends: Option<Instant> = None;
        loop {
            let mut all = vec![Answer::Plugins(client::plugins(&host))];
            if trends.is_none_or(|at| at.elapsed() >= TRENDS) {
                trends = Some(Instant::now());
                all.push(Answer::Trends(client::trends(&host)));
            }
            if let Shown::Plugin(name) = &shown {
                let details = client::details(&host, name).map(Box::new);
                all.push(Answer::Details(details));
            }
            for answer in all {
                if sender.send(answer).is_err() {
                    return;
                }
            }
            match wants.recv_timeout(PERIOD) {
                Ok(wanted) => shown = wanted,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new()
        .name("asking".to_owned())
        .spawn(ask)?;
    Ok((answers, wanted))
}
