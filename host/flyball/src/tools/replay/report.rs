//! What `flyball replay` prints.

use std::path::Path;
use std::process::ExitCode;

use flyball_recording::{Call, Header};
use flyball_rehearse::Verdict;
use flyball_types::{excerpt, printable};
use serde_json::{Value, json};

use crate::output::Format;
use crate::tools::output::{Done, pretty_json};

/// The part of a digest that is shown.
const DIGEST: usize = 12;
/// The longest name of a call, and the longest way in which one ended, in bytes. A recording chooses them.
const LABEL: usize = 1000;
/// The most bytes of text, and the most calls in JSON. A recording may have millions of calls.
const MAX_TEXT: usize = 16 << 20;
const MAX_CALLS: usize = 100_000;

/// Collects verdicts.
pub(super) struct Report {
    /// Whether calls that are repeated have no line of their own.
    is_check: bool,
    logs: bool,
    /// Whether calls that failed must no longer fail.
    must_be_fixed: bool,
    out: String,
    /// Lines that are more than the text may have.
    more_lines: u64,
    files: Vec<Value>,
    /// The recording that is being repeated.
    current: Option<Current>,
    has_failed: bool,
}

struct Current {
    path: String,
    /// Of the version that repeats it.
    digest: String,
    /// The first calls, for JSON.
    calls: Vec<Value>,
    count: usize,
    parted: usize,
}

impl Report {
    pub(super) fn new(is_check: bool, logs: bool, must_be_fixed: bool) -> Self {
        Self {
            is_check,
            logs,
            must_be_fixed,
            out: String::new(),
            more_lines: 0,
            files: Vec::new(),
            current: None,
            has_failed: false,
        }
    }

    /// Begins a recording, which is repeated with the component of this digest.
    pub(super) fn begin(&mut self, path: &Path, header: &Header, digest: &str) {
        let path = path.display().to_string();
        if !self.is_check {
            let Header {
                plugin,
                version,
                host,
                at,
                ..
            } = header;
            let by = format!("{path}: {plugin} {version}, recorded by flyball {host} at {at}");
            self.line(&by);
            if *digest != header.digest {
                let (recorded, now) = (short(&header.digest), short(digest));
                self.line(&format!(
                    "recorded: sha256:{recorded}, repeated with: sha256:{now}"
                ));
            }
        }
        self.current = Some(Current {
            path,
            digest: digest.to_owned(),
            calls: Vec::new(),
            count: 0,
            parted: 0,
        });
    }

    pub(super) fn add(&mut self, line: usize, call: &Call, verdict: &Verdict) {
        let label = excerpt(&call.call.label(), LABEL);
        let ended = excerpt(&call.ended.to_string(), LABEL);
        let place = match (&self.current, self.is_check) {
            (Some(current), true) => format!("{} line {line}, {label}", current.path),
            _ => format!("line {line}, {label}"),
        };
        let note = verdict.note(call);
        let judged = self.must_be_fixed && call.ended.is_failure();
        let is_fixed = judged && verdict.is_fixed();
        let has_failed = match judged {
            true => !is_fixed,
            false => verdict.parted.is_some(),
        };
        match &verdict.parted {
            Some(_) if is_fixed => {
                if !self.is_check {
                    self.line(&format!("{place}: fixed; before, it {ended}"));
                }
            }
            None if judged => self.line(&format!("{place}: not fixed; it still {ended}")),
            Some(parted) => {
                self.line(&format!("{place}: parts"));
                let lines = parted.to_string();
                lines
                    .lines()
                    .for_each(|line| self.line(&format!("    {line}")));
                if call.hidden > 0 {
                    let hidden = call.hidden;
                    self.line(&format!(
                        "    note: {hidden} texts of the call are hidden, because they are data of Secrets; that may be why"
                    ));
                }
            }
            None if self.is_check => {}
            None => {
                self.line(&format!("{place}: repeated; it {ended}"));
                if let Some(note) = note {
                    self.line(&format!("    note: {note}"));
                }
            }
        }
        if self.logs {
            for (level, message) in &verdict.log {
                self.line(&format!("    {}: {message}", level.name()));
            }
        }
        if let Some(current) = &mut self.current {
            current.parted += usize::from(has_failed);
            current.count += 1;
            if current.calls.len() < MAX_CALLS {
                current.calls.push(json!({
                    "line": line,
                    "call": label,
                    "recorded": ended,
                    "parted": verdict.parted.as_ref().map(|parted| json!({"how": parted.sort(), "text": parted.to_string()})),
                    "note": note,
                    "fixed": judged.then_some(is_fixed),
                }));
            }
        }
        self.has_failed |= has_failed;
    }

    /// Notes that the recording was cut off at a line.
    pub(super) fn cut_off(&mut self, line: usize) {
        self.line(&format!(
            "line {line} is incomplete, because the recording was cut off: the calls before it are complete"
        ));
    }

    pub(super) fn end(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let (calls, parted) = (current.count, current.parted);
        let repeated = calls - parted;
        let place = match self.is_check {
            true => format!("{}: ", current.path),
            false => String::new(),
        };
        let summary = match parted {
            0 if self.must_be_fixed => {
                format!("{place}{}, all repeated or fixed", counted(calls))
            }
            _ if self.must_be_fixed => format!(
                "{place}{}: {repeated} repeated or fixed, {parted} not",
                counted(calls)
            ),
            0 => format!("{place}{}, all repeated", counted(calls)),
            _ => format!(
                "{place}{}: {repeated} repeated, {parted} part from the recording",
                counted(calls)
            ),
        };
        self.push(&summary);
        let Current {
            path,
            digest,
            calls,
            count,
            parted: _,
        } = current;
        let left_out = count - calls.len();
        let file = json!({"file": path, "digest": digest, "calls": calls, "leftOut": left_out});
        self.files.push(file);
    }

    /// Notes that a recording can't be repeated.
    pub(super) fn failed(&mut self, path: &Path, error: &anyhow::Error) {
        self.current = None;
        self.has_failed = true;
        let error = flyball_types::error_chain(error.as_ref());
        self.line(&error);
        self.files
            .push(json!({"file": path.display().to_string(), "error": error}));
    }

    pub(super) fn done(mut self, output: Format) -> Done {
        if self.more_lines > 0 {
            let more = format!("… and {} more lines\n", self.more_lines);
            self.out.push_str(&more);
        }
        Done {
            out: match output {
                Format::Text => self.out,
                Format::Json => pretty_json(&self.files.into()),
            },
            err: String::new(),
            code: match self.has_failed {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            },
        }
    }

    /// Adds a line, unless there are very many. It may quote a recording or a plugin.
    fn line(&mut self, text: &str) {
        match self.out.len() > MAX_TEXT {
            true => self.more_lines += 1,
            false => self.push(text),
        }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(&printable(text));
        self.out.push('\n');
    }
}

fn counted(calls: usize) -> String {
    match calls {
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    }
}

fn short(digest: &str) -> &str {
    &digest[..digest.floor_char_boundary(DIGEST)]
}

#[cfg(test)]
mod tests {
    use flyball_recording::{Ended, Input, Kept, Parted};

    use super::*;

    fn call() -> Call {
        Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "team/web".into(),
                attempt: 0,
            },
            digest: String::new(),
            began: String::new(),
            took_ms: 0.0,
            kept: Kept::Asked,
            hidden: 0,
            steps: Vec::new(),
            ended: Ended::Done {},
        }
    }

    fn report(is_check: bool, parted: Option<Parted>) -> (String, bool) {
        let mut report = Report::new(is_check, false, false);
        let header = Header {
            plugin: "a\u{1b}[2J".into(),
            digest: "0123".into(),
            ..Header::default()
        };
        report.begin(Path::new("calls.fbrec"), &header, "4567");
        let verdict = Verdict {
            parted,
            ended: None,
            log: Vec::new(),
        };
        report.add(3, &call(), &verdict);
        report.end();
        let has_failed = report.has_failed;
        (report.done(Format::Text).out, has_failed)
    }

    fn parted() -> Parted {
        Parted::Ends {
            unasked: None,
            before: Ended::Done {},
            now: Ended::RequeueAfter { ms: 5 },
        }
    }

    #[test]
    fn each_call_has_a_line_and_a_control_character_is_an_escape() {
        let (text, has_failed) = report(false, None);
        assert!(text.contains("repeated with: sha256:4567"), "{text}");
        assert!(
            text.contains("line 3, reconcile team/web: repeated; it is done"),
            "{text}"
        );
        assert!(text.ends_with("1 call, all repeated\n"), "{text}");
        assert!(!text.contains('\u{1b}') && !has_failed);
    }

    #[test]
    fn a_report_of_very_many_or_very_long_calls_is_bounded() {
        let mut report = Report::new(false, false, false);
        let header = Header::default();
        report.begin(Path::new("calls.fbrec"), &header, "4567");
        let long = Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "k".repeat(1 << 20),
                attempt: 0,
            },
            ended: Ended::Failed {
                message: "m".repeat(1 << 20),
            },
            ..call()
        };
        let verdict = Verdict {
            parted: Some(Parted::Ends {
                unasked: None,
                before: long.ended.clone(),
                now: Ended::Done {},
            }),
            ended: None,
            log: Vec::new(),
        };
        (0..4000).for_each(|line| report.add(line, &long, &verdict));
        report.end();
        assert!(report.files[0].to_string().len() < 4000 * 8 * LABEL);
        let text = report.done(Format::Text).out;
        assert!(text.len() < MAX_TEXT + 8 * LABEL, "{} bytes", text.len());
        let last = text.lines().last().unwrap_or_default();
        assert!(last.ends_with(" more lines"), "{last}");
    }

    #[test]
    fn a_call_that_parts_is_shown_with_its_recording() {
        for is_check in [false, true] {
            let (text, has_failed) = report(is_check, Some(parted()));
            assert!(
                text.contains("line 3, reconcile team/web: parts\n"),
                "{text}"
            );
            assert!(
                text.contains("now:    it is done, and asks to be called again after 5 ms"),
                "{text}"
            );
            assert!(has_failed);
        }
        let (text, _) = report(true, None);
        assert_eq!(text, "calls.fbrec: 1 call, all repeated\n");
    }
}
