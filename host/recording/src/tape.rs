//! A recorded call as a tape: it is asked what the guest asks, and answers what the host answered then, until the guest
//! asks something else.
//!
//! Reads, writes, events and the like are compared in their order. What is *ambient* is not: the clock, randomness, the
//! log, metrics and the configuration (see [`is_ambient`]). A call gets the recorded values of those in their order, as
//! long as there are any, whatever else it asks in between.
//!
//! For example, a recorded call read a ReplicaSet, listed its pods, and created one:
//!
//! ```text
//! recorded   lister.get   clock.now   lister.list   writer.run(create)   → done
//! now        lister.get   lister.list   clock.now   writer.run(delete)
//!                                                   ^ parts here
//! ```
//!
//! From there on, every answer is that the call has parted.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::{self, Time};
use crate::asked::{CLOCK_NOW, CONFIG_GET, HTTP, LOG_ENABLED, RANDOM_BYTES, is_ambient};
use crate::secrets::Hider;
use crate::{Asked, Call, Document, Ended, Header, Malformed, Parted, Step};

/// The time of a recording that has none: 2026-01-01.
const SOME_TIME: Time = Time {
    seconds: 1_767_225_600,
    nanoseconds: 0,
};

/// The answer of a tape.
#[derive(Debug)]
pub enum Reply {
    /// The recorded answer.
    Answer(Box<RawValue>),
    /// The recorded call was stopped here, or earlier in its own code: the call must be stopped, too.
    Stop,
    /// The call has parted from the recording, here or before: it must be stopped, and its end doesn't count.
    Parted,
}

/// A recorded call that is repeated.
pub struct Tape {
    /// What is compared, with the numbers of the steps, from 1.
    steps: VecDeque<(usize, Step)>,
    /// The number of all steps.
    count: usize,
    ended: Ended,
    /// Hides what the recording hides; none if it has the data of Secrets.
    hider: Option<Hider>,
    times: VecDeque<Time>,
    last_time: Option<Time>,
    /// The recorded random bytes that were not given yet.
    random: VecDeque<Vec<u8>>,
    /// The state of the generator for further random bytes: xorshift.
    seed: u64,
    config: BTreeMap<String, Option<String>>,
    levels: BTreeMap<String, bool>,
    is_stopped: bool,
    parted: Option<Parted>,
}

impl Tape {
    /// A call of the recording with this header.
    ///
    /// # Errors
    /// The recorded answer of something ambient is malformed.
    pub fn new(header: &Header, call: &Call) -> Result<Self, Malformed> {
        let mut tape = Self {
            steps: VecDeque::new(),
            count: call.steps.len(),
            ended: call.ended.clone(),
            hider: (!header.with_secrets).then(|| Hider::new(header.reads_secrets)),
            times: VecDeque::new(),
            last_time: None,
            random: VecDeque::new(),
            seed: 0x9e37_79b9_7f4a_7c15,
            config: BTreeMap::new(),
            levels: BTreeMap::new(),
            is_stopped: false,
            parted: None,
        };
        for (number, step) in call.steps.iter().enumerate() {
            let place = |error: Malformed| Malformed(format!("step {}: {}", number + 1, error.0));
            if is_ambient(&step.import) {
                tape.add_ambient(step).map_err(place)?;
            } else {
                tape.steps.push_back((number + 1, step.clone()));
            }
        }
        Ok(tape)
    }

    fn add_ambient(&mut self, step: &Step) -> Result<(), Malformed> {
        let Some(answered) = &step.answered else {
            return Ok(());
        };
        let text = |name: &str| -> Result<String, Malformed> {
            let asked: Value = serde_json::from_str(step.asked.get())?;
            let text = asked.get(name).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| Malformed(format!("`{}` lacks {name}", step.import)))
        };
        match step.import.as_str() {
            CLOCK_NOW => self.times.push_back(answer::read_ok(answered)?),
            RANDOM_BYTES => {
                let Document(bytes) = answer::read_ok(answered)?;
                self.random.push_back(bytes);
            }
            CONFIG_GET => {
                let value = answer::read_ok(answered)?;
                self.config.entry(text("key")?).or_insert(value);
            }
            LOG_ENABLED => {
                let enabled = answer::read_ok(answered)?;
                self.levels.entry(text("level")?).or_insert(enabled);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the recorded answer to a question that is not ambient. Notes the first question that differs.
    pub fn ask(&mut self, mut now: Asked) -> Reply {
        if self.parted.is_some() {
            return Reply::Parted;
        }
        if self.is_stopped {
            return Reply::Stop;
        }
        if let Some(hider) = &mut self.hider {
            hider.hide_asked(now.import, &mut now.arguments);
        }
        let Some((number, step)) = self.steps.pop_front() else {
            if self.ended.is_by_time() {
                self.is_stopped = true;
                return Reply::Stop;
            }
            return self.part(Parted::Asks {
                step: self.count + 1,
                before: None,
                now,
                ended: self.ended.clone(),
            });
        };
        let before: Value = match serde_json::from_str(step.asked.get()) {
            Ok(before) => before,
            Err(error) => {
                let problem = error.to_string();
                return self.part(Parted::Malformed {
                    step: number,
                    problem,
                });
            }
        };
        if step.import != now.import || before != now.arguments {
            return self.part(Parted::Asks {
                step: number,
                before: Some((step.import, before)),
                now,
                ended: self.ended.clone(),
            });
        }
        if now.import == HTTP {
            let what = "requests over HTTP are not recorded".to_owned();
            return self.part(Parted::NotRecorded { step: number, what });
        }
        match step.answered {
            Some(answered) => Reply::Answer(answered),
            // The call was stopped while it waited for this answer, or for another one that was asked at the same time.
            None => {
                self.is_stopped = true;
                Reply::Stop
            }
        }
    }

    fn part(&mut self, parted: Parted) -> Reply {
        self.parted = Some(parted);
        Reply::Parted
    }

    /// Notes that the answer to the last question is malformed.
    pub fn note_malformed(&mut self, error: &Malformed) {
        let left = self
            .steps
            .front()
            .map_or(self.count + 1, |(number, _)| *number);
        let (step, problem) = (left.saturating_sub(1), error.0.clone());
        self.parted
            .get_or_insert(Parted::Malformed { step, problem });
    }

    /// Returns the next recorded time. After the last one, time stands still.
    pub fn clock(&mut self) -> Time {
        let time = self
            .times
            .pop_front()
            .or(self.last_time)
            .unwrap_or(SOME_TIME);
        self.last_time = Some(time);
        time
    }

    /// Returns the next recorded random bytes. After the last ones, and if the number of bytes is another one, they are
    /// the same in each repetition.
    pub fn random(&mut self, count: usize) -> Vec<u8> {
        if self
            .random
            .front()
            .is_some_and(|bytes| bytes.len() == count)
        {
            return self.random.pop_front().unwrap_or_default();
        }
        let mut next = || {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            (self.seed >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    /// Returns the recorded value of a configuration key; none if the recorded call did not ask for it.
    pub fn config(&self, key: &str) -> Option<Option<String>> {
        self.config.get(key).cloned()
    }

    /// Returns whether lines of a level were logged. A level that the recorded call did not ask for is.
    pub fn is_enabled(&self, level: &str) -> bool {
        self.levels.get(level).copied().unwrap_or(true)
    }

    /// Whether the call must be stopped.
    pub fn must_stop(&self) -> bool {
        self.is_stopped || self.parted.is_some()
    }

    /// Returns the point at which the call has parted from the recording; none if it has repeated it. `now` is how the
    /// call has ended; none if it was stopped because a reply said so.
    pub fn end(self, now: Option<Ended>) -> Option<Parted> {
        if self.parted.is_some() {
            return self.parted;
        }
        let now = match now {
            Some(now) if !self.is_stopped => now,
            _ => return None,
        };
        let unasked = self.steps.front().map(|(number, step)| {
            let asked = serde_json::from_str(step.asked.get()).unwrap_or_default();
            (*number, step.import.clone(), asked)
        });
        if unasked.is_none() && self.ended.is_like(&now) {
            return None;
        }
        Some(Parted::Ends {
            unasked,
            before: self.ended,
            now,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Input, Kept, StopLimit, asked};

    fn step(asked: Asked, answered: Option<Value>) -> Step {
        Step {
            import: asked.import.into(),
            asked: answer::write(&asked.arguments),
            answered: answered.map(|answered| answer::write(&answered)),
        }
    }

    fn get(name: &str) -> Asked {
        asked::lister_get("v1/Pod", "a", name, &["metadata"])
    }

    fn call(steps: Vec<Step>, ended: Ended) -> Call {
        Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "a/b".into(),
                attempt: 0,
            },
            digest: String::new(),
            began: String::new(),
            took_ms: 0.0,
            kept: Kept::Asked,
            hidden: 0,
            steps,
            ended,
        }
    }

    fn tape(steps: Vec<Step>, ended: Ended) -> Tape {
        Tape::new(&Header::default(), &call(steps, ended)).unwrap()
    }

    fn answer_of(reply: Reply) -> String {
        match reply {
            Reply::Answer(answered) => answered.get().to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_call_that_asks_the_same_gets_the_same_answers() {
        let steps = vec![
            step(get("x"), Some(json!({"ok": {}}))),
            step(asked::clock_now(), Some(json!({"ok": {"seconds": 7}}))),
            step(get("y"), Some(json!({"ok": 1}))),
        ];
        let mut tape = tape(steps, Ended::Done {});
        assert_eq!(answer_of(tape.ask(get("x"))), "{\"ok\":{}}");
        assert_eq!(answer_of(tape.ask(get("y"))), "{\"ok\":1}");
        assert_eq!(
            tape.clock().seconds,
            7,
            "the clock has no place in the order"
        );
        assert_eq!(tape.clock().seconds, 7, "time stands still");
        assert_eq!(tape.end(Some(Ended::Done {})), None);
    }

    #[test]
    fn the_first_question_that_differs_parts() {
        let steps = vec![
            step(get("x"), Some(json!({"ok": {}}))),
            step(get("y"), Some(json!({"ok": {}}))),
        ];
        let mut tape = tape(steps, Ended::Done {});
        tape.ask(get("x"));
        assert_eq!(answer_of(tape.ask(get("z"))), "Parted");
        assert_eq!(answer_of(tape.ask(get("y"))), "Parted", "from there on");
        let Some(Parted::Asks {
            step: 2,
            before: Some((_, before)),
            now,
            ..
        }) = tape.end(Some(Ended::Done {}))
        else {
            panic!("it parts at step 2")
        };
        assert_eq!((before, now), (get("y").arguments, get("z")));
    }

    #[test]
    fn questions_that_are_missing_or_more_part() {
        let steps = || vec![step(get("x"), Some(json!({"ok": {}})))];
        let unasked = tape(steps(), Ended::Done {}).end(Some(Ended::Done {}));
        assert!(matches!(
            unasked,
            Some(Parted::Ends {
                unasked: Some((1, ..)),
                ..
            })
        ));
        let mut more = tape(steps(), Ended::Done {});
        more.ask(get("x"));
        more.ask(get("y"));
        let more = more.end(None);
        assert!(matches!(
            more,
            Some(Parted::Asks {
                step: 2,
                before: None,
                ..
            })
        ));
        let mut other = tape(steps(), Ended::Done {});
        other.ask(get("x"));
        let other = other.end(Some(Ended::RequeueAfter { ms: 1 }));
        assert!(matches!(other, Some(Parted::Ends { unasked: None, .. })));
    }

    #[test]
    fn a_call_that_was_stopped_by_time_is_stopped_after_its_last_step() {
        let stopped = || Ended::Stopped {
            limit: StopLimit::Cpu,
            message: "used 1 s".into(),
            backtrace: None,
        };
        let steps = || vec![step(get("x"), Some(json!({"ok": {}})))];
        let mut further = tape(steps(), stopped());
        further.ask(get("x"));
        assert_eq!(answer_of(further.ask(get("y"))), "Stop");
        assert_eq!(further.end(None), None);
        let mut returns = tape(steps(), stopped());
        returns.ask(get("x"));
        let parted = returns.end(Some(Ended::Done {}));
        assert!(parted.is_some(), "it does not compute without end any more");
        let mut waits = tape(vec![step(get("x"), None)], stopped());
        assert_eq!(answer_of(waits.ask(get("x"))), "Stop");
        assert_eq!(waits.end(None), None);
    }

    #[test]
    fn random_bytes_are_those_of_the_recording_and_then_always_the_same() {
        let recorded = json!({"ok": {"$base64": "AQID"}});
        let again = || {
            let mut tape = tape(
                vec![step(asked::random_bytes(3), Some(recorded.clone()))],
                Ended::Done {},
            );
            (tape.random(3), tape.random(3), tape.random(0))
        };
        let (first, second, none) = again();
        assert_eq!((first, none), (vec![1, 2, 3], vec![]));
        assert_eq!(again().1, second);
    }

    #[test]
    fn the_configuration_is_asked_by_its_keys() {
        let steps = vec![
            step(asked::config_get("a"), Some(json!({"ok": "1"}))),
            step(asked::config_get("b"), Some(json!({"ok": null}))),
        ];
        let tape = tape(steps, Ended::Done {});
        assert_eq!(tape.config("a"), Some(Some("1".into())));
        assert_eq!((tape.config("b"), tape.config("c")), (Some(None), None));
    }

    #[test]
    fn a_write_of_a_secret_is_compared_without_its_data() {
        let write = |data: &str| {
            let body = json!({"data": {"password": data}}).to_string();
            let write = asked::Write {
                verb: "create",
                kind: "v1/Secret",
                body: Some(body.as_bytes()),
                ..asked::Write::default()
            };
            asked::writer_run(vec![write.value()], None, false)
        };
        let mut recorded = call(
            vec![step(write("c2VjcmV0"), Some(json!({"ok": []})))],
            Ended::Done {},
        );
        crate::secrets::hide(&mut recorded, false).unwrap();
        let mut same = Tape::new(&Header::default(), &recorded).unwrap();
        assert_eq!(answer_of(same.ask(write("b3RoZXIh"))), "{\"ok\":[]}");
        let mut other = Tape::new(&Header::default(), &recorded).unwrap();
        assert_eq!(
            answer_of(other.ask(write("bG9uZ2VyIQ=="))),
            "Parted",
            "of another length"
        );
    }

    #[test]
    fn lies_are_malformed_and_not_believed() {
        let lie = step(asked::clock_now(), Some(json!({"ok": "noon"})));
        let Err(error) = Tape::new(&Header::default(), &call(vec![lie], Ended::Done {})) else {
            panic!("it is malformed")
        };
        assert!(error.to_string().starts_with("step 1: "), "{error}");
        let mut deep = step(get("x"), None);
        deep.asked =
            RawValue::from_string(format!("{}{}", "[".repeat(5000), "]".repeat(5000))).unwrap();
        let mut tape = tape(vec![deep], Ended::Done {});
        assert_eq!(answer_of(tape.ask(get("x"))), "Parted");
        assert!(matches!(
            tape.end(None),
            Some(Parted::Malformed { step: 1, .. })
        ));
    }
}
