//! Counts what both versions have done in a step, over all processes that led while it lasted, and decides about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_runtime::split::{Counts, Measured, Rule, Split};

use super::decide::{Decision, Evidence, decide};
use super::state::Canary;

/// Judges the canaries of all plugins.
#[derive(Default)]
pub(crate) struct Judge {
    bases: BTreeMap<String, Base>,
}

/// What processes before this one have counted under a rule.
struct Base {
    rule: Arc<Rule>,
    running: Counts,
    candidate: Counts,
}

/// What both versions of a plugin did since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) running: Counts,
    pub(crate) candidate: Counts,
}

impl Judge {
    /// Adds what was done, and the time that has passed, to a canary at a step, and decides about it. None if its step is
    /// not in force, so that nothing can be said.
    pub(crate) fn judge(
        &mut self,
        plugin: &str,
        canary: &mut Canary,
        split: &Split,
        passed: Duration,
    ) -> Option<(Decision, News)> {
        canary.step()?;
        self.begin(plugin, canary, split);
        let evidence = self.evidence(plugin, canary, split)?;
        let news = News {
            running: evidence.running.counts.since(canary.running_did),
            candidate: evidence.candidate.counts.since(canary.candidate_did),
        };
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        canary.elapsed_ms = canary.elapsed_ms.saturating_add(passed);
        canary.running_did = evidence.running.counts;
        canary.candidate_did = evidence.candidate.counts;
        let evidence = Evidence {
            elapsed: canary.elapsed(),
            ..evidence
        };
        Some((decide(&canary.rollout, &evidence), news))
    }

    /// Notes what was counted before a rule came into force in this process.
    fn begin(&mut self, plugin: &str, canary: &Canary, split: &Split) {
        let Some(rule) = split.rule() else { return };
        let base = self.bases.get(plugin);
        if base.is_none_or(|base| !Arc::ptr_eq(&base.rule, &rule)) {
            let base = Base {
                rule,
                running: canary.running_did,
                candidate: canary.candidate_did,
            };
            self.bases.insert(plugin.to_owned(), base);
        }
    }

    /// Returns what both versions have done in the step of a canary; none if it is not in force.
    pub(crate) fn evidence(
        &self,
        plugin: &str,
        canary: &Canary,
        split: &Split,
    ) -> Option<Evidence> {
        let rule = split.rule()?;
        if Some(&rule.keys) != canary.keys(plugin).as_ref()
            || *rule.candidate != *canary.candidate.digest
        {
            return None;
        }
        let base = self.bases.get(plugin);
        let base = base.filter(|base| Arc::ptr_eq(&base.rule, &rule));
        let (before, candidate_before) = match base {
            Some(base) => (base.running, base.candidate),
            None => (canary.running_did, canary.candidate_did),
        };
        let (running, candidate) = rule.measured();
        let with = |measured: Measured, before: Counts| Measured {
            counts: measured.counts.plus(before),
            ..measured
        };
        Some(Evidence {
            elapsed: canary.elapsed(),
            running: with(running, before),
            candidate: with(candidate, candidate_before),
        })
    }

    /// Forgets the plugins whose canaries have ended.
    pub(crate) fn forget(&mut self, is_active: impl Fn(&str) -> bool) {
        self.bases.retain(|plugin, _| is_active(plugin));
    }
}

#[cfg(test)]
mod tests {
    use flyball_runtime::split::{Ended, How};

    use super::*;
    use crate::plugins::canary::state::tests::canary;
    use crate::plugins::canary::{Canaries, InForce, Position};

    const SECOND: Duration = Duration::from_secs(1);

    /// A process that leads.
    struct Process {
        in_force: InForce,
        judge: Judge,
    }

    impl Process {
        /// Starts with what is stored.
        fn start(canary: &Canary) -> Self {
            let process = Self {
                in_force: InForce::default(),
                judge: Judge::default(),
            };
            process.store(canary);
            process
        }

        fn store(&self, canary: &Canary) {
            let mut canaries = Canaries::default();
            canaries.add("greeter", canary.clone()).unwrap();
            self.in_force.apply(canaries.text().as_deref());
        }

        /// Both versions reconcile, and a second passes.
        fn works(&mut self, canary: &mut Canary, how: How) -> Decision {
            let split = self.in_force.split("greeter");
            let rule = split.rule().unwrap();
            let ended = |how: How| Ended {
                how,
                failed: None,
                writes: 0,
                took: SECOND / 1000,
            };
            rule.count_candidate(Some(ended(how)));
            rule.count_running(Some(ended(How::Well)));
            let judged = self.judge.judge("greeter", canary, &split, SECOND);
            judged.unwrap().0
        }
    }

    fn short() -> Canary {
        let mut canary = canary(Position::Step(0));
        canary.rollout.interval.0 = SECOND * 10;
        canary
    }

    #[test]
    fn a_canary_that_does_well_takes_all_keys_in_its_time() {
        let mut at = short();
        let mut process = Process::start(&at);
        let mut seconds = 0;
        while at.position != Position::Promoted {
            seconds += 1;
            if process.works(&mut at, How::Well) == Decision::Advance {
                let next = at.next();
                at.move_to(next, String::new());
                process.store(&at);
            }
            assert!(seconds < 100, "{at:?}");
        }
        assert_eq!(seconds, 3 * 10);
    }

    #[test]
    fn the_next_process_goes_on_in_the_middle_of_a_step() {
        let mut at = short();
        let mut first = Process::start(&at);
        for _ in 0..6 {
            assert!(matches!(first.works(&mut at, How::Well), Decision::Wait(_)));
        }
        first.store(&at);
        assert_eq!((at.elapsed_ms, at.candidate_did.calls), (6000, 6));
        drop(first);
        let mut second = Process::start(&at);
        let mut further = 0;
        while second.works(&mut at, How::Well) != Decision::Advance {
            further += 1;
            assert!(further < 100);
        }
        assert_eq!((further, at.candidate_did.calls), (3, 10));
    }

    #[test]
    fn what_a_process_before_has_counted_still_counts_against_a_candidate() {
        let mut at = short();
        at.rollout.thresholds.traps = 1;
        let mut first = Process::start(&at);
        assert!(matches!(
            first.works(&mut at, How::Trapped),
            Decision::Wait(_)
        ));
        let mut second = Process::start(&at);
        assert!(matches!(
            second.works(&mut at, How::Trapped),
            Decision::GoBack(_)
        ));
    }

    #[test]
    fn nothing_is_said_about_a_step_that_is_not_stored_yet() {
        let mut at = short();
        let mut process = Process::start(&at);
        at.move_to(Position::Step(1), String::new());
        let split = process.in_force.split("greeter");
        let judged = process.judge.judge("greeter", &mut at, &split, SECOND);
        assert!(judged.is_none());
        assert_eq!(at.elapsed_ms, 0);
        process.store(&at);
        let judged = process.judge.judge("greeter", &mut at, &split, SECOND);
        assert!(judged.is_some());
    }
}
