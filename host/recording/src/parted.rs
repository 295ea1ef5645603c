//! The first point at which a call parts from its recording, for people.

use std::fmt;

use flyball_types::excerpt;
use serde_json::{Value, json};

use crate::diff::differences;
use crate::{Asked, Ended};

/// How many fields are shown.
const FIELDS: usize = 20;
/// The longest path by which calls are grouped, in characters.
const PLACE: usize = 200;
/// The longest question that is shown, in bytes.
const QUESTION: usize = 2000;
/// The longest text on a line, in bytes. A message may be as long as a line of a recording.
const LINE: usize = 4000;

/// The first point at which a call parts from its recording. Steps are counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Parted {
    /// It asks something else.
    Asks {
        step: usize,
        /// The import and its arguments; none if the recorded call asked nothing more.
        before: Option<(String, Value)>,
        now: Asked,
        /// How the recorded call ended.
        ended: Ended,
    },
    /// It ends in another way, or earlier.
    Ends {
        /// The first question that it has not asked.
        unasked: Option<(usize, String, Value)>,
        before: Ended,
        now: Ended,
    },
    /// A step of the recording is not what the format says.
    Malformed { step: usize, problem: String },
    /// The step can't be repeated, because the recording does not have what crossed the boundary there.
    NotRecorded { step: usize, what: String },
}

impl Parted {
    /// Whether the recorded call failed and this one gets past that: it ends well, or it has asked all that the failed
    /// call asked, and asks more. A recording has no answer to that, so the call is not followed any further.
    pub fn is_past_failure(&self) -> bool {
        match self {
            Self::Asks {
                before: None,
                ended,
                ..
            } => ended.is_failure(),
            Self::Ends { before, now, .. } => before.is_failure() && !now.is_failure(),
            Self::Asks { .. } | Self::Malformed { .. } | Self::NotRecorded { .. } => false,
        }
    }

    /// A word for the way in which it parts, by which calls can be grouped.
    pub fn sort(&self) -> String {
        match self {
            Self::Asks { before, now, .. } => {
                let is_write = now.import == crate::asked::WRITER_RUN
                    || before
                        .as_ref()
                        .is_some_and(|(import, _)| import == crate::asked::WRITER_RUN);
                let verb = if is_write { "writes" } else { "asks" };
                match before {
                    Some((before, arguments)) if before == now.import => {
                        let place = place(arguments, &now.arguments);
                        format!("{verb} otherwise: {before} {place}")
                    }
                    Some((before, _)) => format!("{verb} {} instead of {before}", now.import),
                    None => format!("{verb} more ({})", now.import),
                }
            }
            Self::Ends {
                unasked: Some((_, import, _)),
                ..
            } => format!("does not ask {import}"),
            Self::Ends { .. } => "ends otherwise".to_owned(),
            Self::Malformed { .. } => "has a malformed recording".to_owned(),
            Self::NotRecorded { .. } => "can't be repeated".to_owned(),
        }
    }
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks {
                step,
                before,
                now,
                ended,
            } => {
                let verb = if is_write(now.import) {
                    "writes"
                } else {
                    "asks"
                };
                writeln!(f, "at step {step}:")?;
                match before {
                    Some((import, arguments)) => {
                        let was = if is_write(import) { "wrote" } else { "asked" };
                        writeln!(f, "  {was} before: {}", question(import, arguments))?;
                    }
                    None => writeln!(
                        f,
                        "  before:       asked nothing more, and it {}",
                        line(&ended.to_string())
                    )?,
                }
                write!(
                    f,
                    "  {:<14}{}",
                    format!("{verb} now:"),
                    question(now.import, &now.arguments)
                )?;
                match before {
                    Some((import, arguments)) if import == now.import => {
                        fields(f, arguments, &now.arguments)
                    }
                    _ => Ok(()),
                }
            }
            Self::Ends {
                unasked,
                before,
                now,
            } => {
                if let Some((step, import, arguments)) = unasked {
                    writeln!(f, "at step {step}:")?;
                    let was = if is_write(import) { "wrote" } else { "asked" };
                    writeln!(f, "  {was} before: {}", question(import, arguments))?;
                    return write!(
                        f,
                        "  now:          asks nothing more, and it {}",
                        line(&now.to_string())
                    );
                }
                writeln!(f, "at its end:")?;
                writeln!(f, "  before: it {}", line(&before.to_string()))?;
                write!(f, "  now:    it {}", line(&now.to_string()))?;
                match (before, now) {
                    (Ended::Described { description }, Ended::Described { description: other }) => {
                        let value = crate::call::described;
                        fields(f, &value(description), &value(other))
                    }
                    (Ended::Answered { document }, Ended::Answered { document: other }) => {
                        let value = crate::Document::value;
                        fields(f, &value(&document.0), &value(&other.0))
                    }
                    _ => Ok(()),
                }
            }
            Self::Malformed { step, problem } => {
                write!(
                    f,
                    "at step {step}: the recording is malformed: {}",
                    line(problem)
                )
            }
            Self::NotRecorded { step, what } => {
                write!(
                    f,
                    "at step {step}: it can't be repeated further: {}",
                    line(what)
                )
            }
        }
    }
}

/// The path of the first field that differs, without the numbers of elements.
fn place(before: &Value, now: &Value) -> String {
    let first = differences(before, now, 1)
        .into_iter()
        .next()
        .unwrap_or_default();
    let path = first
        .trim_start_matches(['+', '-', ' '])
        .split(": ")
        .next()
        .unwrap_or_default();
    let mut place = String::new();
    let mut is_number = false;
    for c in path.chars().take(PLACE) {
        is_number = (is_number && c.is_ascii_digit()) || c == '[';
        if !(is_number && c.is_ascii_digit()) {
            place.push(c);
        }
    }
    line(&place)
}

fn is_write(import: &str) -> bool {
    import == crate::asked::WRITER_RUN
}

/// A text of a recording or of a guest, on one line, without control characters.
fn line(text: &str) -> String {
    excerpt(text, LINE)
}

/// A question on one line. Fields that are empty are left out.
fn question(import: &str, arguments: &Value) -> String {
    let mut shown = arguments.clone();
    if let Value::Object(members) = &mut shown {
        members.retain(|_, value| *value != json!("") && *value != json!([]) && !value.is_null());
    }
    let mut text = shown.to_string();
    if text.len() > QUESTION {
        text.truncate(text.floor_char_boundary(QUESTION));
        text.push('…');
    }
    line(&format!("{import} {text}"))
}

fn fields(f: &mut fmt::Formatter<'_>, before: &Value, now: &Value) -> fmt::Result {
    for difference in differences(before, now, FIELDS) {
        write!(f, "\n    {}", line(&difference))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked;

    #[test]
    fn a_call_is_past_its_failure_if_it_ends_well_or_asks_more_than_was_recorded() {
        let failed = || Ended::Failed {
            message: "no".into(),
        };
        let asks = |before: Option<(String, Value)>, ended: Ended| Parted::Asks {
            step: 2,
            before,
            now: asked::lister_get("v1/Pod", "a", "b", &["spec"]),
            ended,
        };
        let ends = |before: Ended, now: Ended| Parted::Ends {
            unasked: None,
            before,
            now,
        };
        let recorded = || Some((asked::WRITER_RUN.to_owned(), Value::Null));
        let terminal = Ended::Terminal {
            message: "other".into(),
        };
        for (parted, is_past) in [
            (asks(None, failed()), true),
            (asks(recorded(), failed()), false),
            (asks(None, Ended::Done {}), false),
            (ends(failed(), Ended::RequeueAfter { ms: 1 }), true),
            (ends(failed(), terminal), false),
            (ends(Ended::Done {}, failed()), false),
        ] {
            assert_eq!(parted.is_past_failure(), is_past, "{parted}");
        }
    }

    #[test]
    fn a_write_that_differs_is_shown_with_its_fields() {
        let write = |replicas: u32| {
            let body = format!("{{\"spec\":{{\"replicas\":{replicas}}}}}");
            let write = asked::Write {
                verb: "update",
                kind: "apps/v1/ReplicaSet",
                namespace: "team",
                name: "web",
                body: Some(body.as_bytes()),
                ..asked::Write::default()
            };
            asked::writer_run(vec![write.value()], None, false)
        };
        let parted = Parted::Asks {
            step: 3,
            before: Some((asked::WRITER_RUN.into(), write(3).arguments)),
            now: write(4),
            ended: Ended::Done {},
        };
        let text = parted.to_string();
        assert!(
            text.starts_with("at step 3:\n  wrote before: writer.run"),
            "{text}"
        );
        assert!(
            text.ends_with("\n    writes[0].body.spec.replicas: 3 → 4"),
            "{text}"
        );
        assert_eq!(
            parted.sort(),
            "writes otherwise: writer.run writes[].body.spec.replicas"
        );
    }

    #[test]
    fn texts_of_recordings_and_guests_can_not_forge_lines() {
        let parted = Parted::Ends {
            unasked: None,
            before: Ended::Done {},
            now: Ended::Failed {
                message: "a\nat step 1: \u{1b}[2J".into(),
            },
        };
        let text = parted.to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
