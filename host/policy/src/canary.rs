//! A new version of a plugin beside the one that runs: in its shadow, or as a canary that reconciles some of its keys.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flyball_types::LabelSelector;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::file::check_source;

/// The most steps of a canary.
const MAX_STEPS: usize = 20;
/// The shortest step. Evidence from less is chance.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// All keys, in ten-thousandths.
const ALL: u32 = 10_000;

/// A candidate in the shadow of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ShadowPolicy {
    /// File of the candidate, outside the plugin folders. A relative path starts at the policy's folder.
    pub file: Option<PathBuf>,
    /// Package of the candidate, as for a plugin.
    pub source: Option<String>,
    /// How long it runs, as in `10m`. By default, until it is removed from the policy.
    #[serde(
        rename = "for",
        deserialize_with = "crate::limits::duration",
        serialize_with = "crate::limits::write_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
}

/// A candidate that reconciles some of a plugin's keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CanaryPolicy {
    /// File of the candidate, outside the plugin folders. A relative path starts at the policy's folder.
    pub file: Option<PathBuf>,
    /// Package of the candidate, as for a plugin.
    pub source: Option<String>,
    /// The keys that the candidate takes over, step by step: a share of them, as in `"5%"`, `{ namespaces = ["a"] }` or
    /// `{ selector = "team=x" }`. By default 5, 25 and 50 %.
    pub steps: Steps,
    /// How long a step lasts at least, as in `5m`.
    pub interval: Interval,
    /// The reconciles of the candidate that a step needs at least.
    pub calls: Calls,
    /// The candidate goes back when it exceeds one of these.
    pub thresholds: Thresholds,
}

/// How a candidate takes over, and when it goes back. Everything but the candidate itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    pub steps: Steps,
    pub interval: Interval,
    pub calls: Calls,
    pub thresholds: Thresholds,
}

/// The steps of a canary. Each adds keys to those of the steps before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Steps(pub Vec<Step>);

/// How long a step lasts at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// The reconciles of the candidate in a step before it is judged by its rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Calls(pub u64);

/// The keys that a step adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a step is a share of the keys, as in `\"5%\"`, `{ namespaces = [\"a\"] }` or `{ selector = \"team=x\" }`"
)]
pub enum Step {
    /// A share of all keys, which is chosen by their hash.
    Keys(Share),
    /// The keys in these namespaces.
    Namespaces { namespaces: BTreeSet<String> },
    /// The keys of objects with these labels.
    Selector { selector: Selector },
}

/// A share of a whole, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

/// A label selector, as it was written.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    selector: LabelSelector,
}

/// What the candidate may do worse than the version that runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Thresholds {
    /// How much larger the share of reconciles that fail may be, as in `5%`: of 100 % and not of the other's share.
    pub failures: Share,
    /// The most reconciles of a step that may trap or be stopped at a limit.
    pub traps: u64,
    /// How many times as long its slowest hundredth may take.
    pub p99: f64,
    /// How many times as much it may write in a reconcile.
    pub writes: f64,
}

impl Default for Steps {
    fn default() -> Self {
        Self(
            [5, 25, 50]
                .map(|percent| Step::Keys(Share::percent(percent)))
                .to_vec(),
        )
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self(Duration::from_secs(300))
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self(10)
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            failures: Share::percent(5),
            traps: 0,
            p99: 2.0,
            writes: 2.0,
        }
    }
}

impl ShadowPolicy {
    /// Returns a sentence about each mistake.
    pub(crate) fn invalid(&self) -> Vec<String> {
        check_candidate("shadow", self.file.is_some(), self.source.as_deref())
    }
}

impl CanaryPolicy {
    /// Returns how the candidate takes over.
    pub fn rollout(&self) -> Rollout {
        let Self {
            file: _,
            source: _,
            steps,
            interval,
            calls,
            thresholds,
        } = self.clone();
        Rollout {
            steps,
            interval,
            calls,
            thresholds,
        }
    }

    /// Returns a sentence about each mistake.
    pub(crate) fn invalid(&self) -> Vec<String> {
        let mut mistakes = check_candidate("canary", self.file.is_some(), self.source.as_deref());
        mistakes.extend(self.rollout().check().err());
        mistakes
    }
}

/// Checks where a candidate comes from.
fn check_candidate(table: &str, has_file: bool, source: Option<&str>) -> Vec<String> {
    let mut mistakes = Vec::new();
    if has_file == source.is_some() {
        mistakes.push(format!(
            "`{table}` needs a candidate: write either its `file` or its `source`"
        ));
    }
    mistakes.extend(source.and_then(|source| check_source(source).err()));
    mistakes
}

impl Rollout {
    /// Fails with a sentence if the steps or thresholds can't be used.
    pub fn check(&self) -> Result<(), String> {
        let steps = &self.steps.0;
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(format!(
                "a canary has 1 to {MAX_STEPS} steps, not {}",
                steps.len()
            ));
        }
        let mut before = Share(0);
        for step in steps {
            match step {
                Step::Keys(share) if *share <= before => {
                    return Err(format!(
                        "the step {share} adds nothing to {before}: write the shares of keys in ascending order, above 0%"
                    ));
                }
                Step::Keys(share) => before = *share,
                Step::Namespaces { namespaces } if namespaces.iter().all(String::is_empty) => {
                    return Err("a step of `namespaces` names none".to_owned());
                }
                Step::Namespaces { .. } | Step::Selector { .. } => {}
            }
        }
        if self.interval.0 < MIN_INTERVAL {
            return Err("the `interval` of a canary is at least 1s".to_owned());
        }
        let factors = [self.thresholds.p99, self.thresholds.writes];
        if factors
            .iter()
            .any(|factor| !factor.is_finite() || *factor < 1.0)
        {
            return Err(
                "the thresholds `p99` and `writes` are multiples of the running version's: write 1 or more".to_owned(),
            );
        }
        Ok(())
    }
}

impl Share {
    /// A share of so many hundredths, at most the whole.
    pub const fn percent(percent: u32) -> Self {
        Self(if percent < 100 { percent * 100 } else { ALL })
    }

    /// Whether a number that is evenly distributed over all `u64` is in the share. A larger share has all that a smaller one has.
    pub fn has(self, number: u64) -> bool {
        number % u64::from(ALL) < u64::from(self.0)
    }

    /// The share as a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(ALL)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a share: write it as `5%` or `0.5%`");
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(0.0..=100.0).contains(&number) {
            return Err(wrong());
        }
        Ok(Self((number * 100.0).round() as u32))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 100.0)
    }
}

impl Selector {
    pub fn selector(&self) -> &LabelSelector {
        &self.selector
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let selector: LabelSelector = text
            .parse()
            .map_err(|error| format!("`{text}` is not a label selector: {error}"))?;
        if selector.is_everything() {
            return Err("the selector of a step is empty, and would select every key".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            selector,
        })
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let interval = flyball_types::duration::parse(text);
        interval.map(Self).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_millis()) {
            (seconds, 0) if seconds > 0 && seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
            (seconds, 0) => write!(f, "{seconds}s"),
            (_, _) => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(share) => write!(f, "{share} of the keys"),
            Self::Namespaces { namespaces } => {
                write!(f, "the keys in {}", flyball_types::listed(namespaces))
            }
            Self::Selector { selector } => write!(f, "the keys with {selector}"),
        }
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

as_text!(Share, Selector, Interval);

#[cfg(test)]
mod tests {
    use crate::file::tests::parse;

    use super::*;

    fn canary(table: &str) -> Result<CanaryPolicy, String> {
        let text = format!("[plugins.a.canary]\nfile = \"/tmp/new.wasm\"\n{table}");
        let policy = parse(&text)?.plugins.remove("a");
        Ok(policy.and_then(|policy| policy.canary).unwrap())
    }

    #[test]
    fn steps_are_shares_namespaces_and_selectors_with_defaults_for_the_rest() {
        let text = "steps = [{ namespaces = [\"a\", \"b\"] }, { selector = \"team=x\" }, \"0.5%\", \"50%\"]";
        let rollout = canary(text).unwrap().rollout();
        let steps: Vec<String> = rollout.steps.0.iter().map(Step::to_string).collect();
        assert_eq!(
            steps,
            [
                "the keys in a, b",
                "the keys with team=x",
                "0.5% of the keys",
                "50% of the keys"
            ]
        );
        assert_eq!(rollout.interval.0, Duration::from_secs(300));
        assert_eq!(rollout.thresholds, Thresholds::default());
        let defaults = canary("").unwrap().rollout();
        assert_eq!(defaults, Rollout::default());
        let json = serde_json::to_string(&rollout).unwrap();
        assert_eq!(
            serde_json::from_str::<Rollout>(&json).unwrap(),
            rollout,
            "{json}"
        );
    }

    #[test]
    fn what_is_no_canary_is_refused_with_the_reason() {
        for (table, expected) in [
            ("steps = []", "1 to 20 steps"),
            ("steps = [\"25%\", \"5%\"]", "ascending order"),
            ("steps = [\"0%\"]", "above 0%"),
            ("steps = [\"5\"]", "a step is a share"),
            ("steps = [{ selector = \"\" }]", "a step is a share"),
            ("steps = [{ namespaces = [] }]", "names none"),
            ("interval = \"10ms\"", "at least 1s"),
            ("thresholds = { p99 = 0.5 }", "multiples"),
            (
                "thresholds = { failures = \"many\" }",
                "`many` is not a share",
            ),
            ("threshold = {}", "unknown field"),
            (
                "source = \"oci://example.com/a:1\"",
                "either its `file` or its `source`",
            ),
        ] {
            let error = canary(table).unwrap_err();
            assert!(error.contains(expected), "{table}: {error}");
        }
    }

    #[test]
    fn a_larger_share_has_all_that_a_smaller_one_has() {
        let (small, large) = (Share::percent(5), Share::percent(25));
        let numbers = || (0..100_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        assert!(numbers().all(|number| !small.has(number) || large.has(number)));
        let share = numbers().filter(|number| small.has(*number)).count() as f64 / 100_000.0;
        assert!((0.045..0.055).contains(&share), "{share}");
        assert!(numbers().all(|number| Share::percent(100).has(number)));
    }
}
