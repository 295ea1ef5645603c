//! The last hour of a plugin: a sample every ten seconds, of its reconciles, latency, queue, memory and CPU time. The
//! dashboard and `flyball top` draw it.
//!
//! A busy plugin has 360 samples of 40 bytes. Samples of an idle one are joined, so it has few.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How many samples are kept.
const KEPT: usize = 360;
/// How long samples are kept, in milliseconds.
const HOUR: u64 = 3_600_000;
/// Points of a [`TrendBrief`].
const POINTS: usize = 30;
/// The age up to which the last sample says what a plugin uses now, in milliseconds.
const CURRENT: u64 = 30_000;

/// The samples of one plugin, over all of its versions.
pub(crate) struct Samples {
    kept: VecDeque<Sample>,
    /// The totals as of the last sample.
    last: Totals,
    last_at: Instant,
}

/// What a plugin has done since its start, and what it holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) reconciles: u64,
    pub(crate) errors: u64,
    /// CPU time of the version that runs.
    pub(crate) cpu: Duration,
}

/// What a version uses now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time since the version started.
    pub cpu: Duration,
    /// Bytes of all instances.
    pub memory: usize,
    /// Keys in the queues.
    pub queued: usize,
}

/// What a plugin did in a period, and what it used at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    /// In milliseconds since 1970.
    end: u64,
    /// In milliseconds.
    period: u32,
    reconciles: u32,
    errors: u32,
    /// In microseconds.
    p50: u32,
    p99: u32,
    cpu: u32,
    queued: u32,
    /// In KiB.
    memory: u32,
}

/// The last hour of a plugin. Each array has one element for each sample, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trend {
    /// When the sample ended, in milliseconds since 1970.
    pub at: Vec<u64>,
    /// How many seconds it covers. Without a sample, the plugin did not run.
    pub seconds: Vec<f64>,
    /// Reconciles per second.
    pub per_second: Vec<f64>,
    /// Failed reconciles per second.
    pub errors_per_second: Vec<f64>,
    /// Half of the reconciles took no longer than this, in milliseconds.
    pub p50_ms: Vec<f64>,
    /// In 99 of 100 cases, a reconcile took no longer than this.
    pub p99_ms: Vec<f64>,
    /// Keys in the queues.
    pub queued: Vec<u64>,
    /// Bytes of all instances.
    pub memory: Vec<u64>,
    /// Cores that the calls used on average.
    pub cores: Vec<f64>,
}

/// The last hour of a plugin in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrendBrief {
    /// Reconciles per second, in 30 parts of the hour, the oldest first; empty if there were none.
    pub rate: Vec<f64>,
    /// Reconciles in the hour.
    pub reconciles: u64,
    /// Failed reconciles in the hour.
    pub errors: u64,
    /// CPU time in the hour, in seconds.
    pub cpu_seconds: f64,
    /// Cores that the calls use now.
    pub cores: f64,
    /// In 99 of 100 cases, a reconcile took no longer than this in the last sample that has any, in milliseconds.
    pub p99_ms: f64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            last: Totals::default(),
            last_at: Instant::now(),
        }
    }
}

impl Samples {
    /// Adds what happened since the last call. `took` are the median and the 99th percentile of the reconciles' durations.
    pub(crate) fn add(
        &mut self,
        now: SystemTime,
        totals: Totals,
        took: [Duration; 2],
        usage: Usage,
    ) {
        let last = std::mem::replace(&mut self.last, totals);
        let begun = std::mem::replace(&mut self.last_at, Instant::now());
        // Another version begins at zero.
        let cpu = totals.cpu.checked_sub(last.cpu).unwrap_or(totals.cpu);
        let [p50, p99] = took.map(|took| clamp(took.as_micros()));
        self.push(Sample {
            end: milliseconds(now),
            period: clamp((self.last_at - begun).as_millis()),
            reconciles: clamp(totals.reconciles - last.reconciles),
            errors: clamp(totals.errors - last.errors),
            p50,
            p99,
            cpu: clamp(cpu.as_micros()),
            queued: clamp(usage.queued as u64),
            memory: clamp((usage.memory / 1024) as u64),
        });
    }

    fn push(&mut self, sample: Sample) {
        let is_over = |kept: &Sample| kept.end + HOUR < sample.end;
        while self.kept.front().is_some_and(is_over) {
            self.kept.pop_front();
        }
        if let Some(before) = self.kept.back_mut()
            && before.is_followed_by(&sample)
        {
            before.end = sample.end;
            before.period = clamp(u64::from(before.period) + u64::from(sample.period));
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(sample);
    }

    /// The bytes behind it.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Sample>()
    }

    /// Returns the samples of the hour before `now`.
    pub(crate) fn trend(&self, now: SystemTime) -> Trend {
        let samples: Vec<&Sample> = self.of_hour(now).collect();
        let rates = |count: fn(&Sample) -> u32| {
            let rate = |sample: &&Sample| rounded(f64::from(count(sample)) / sample.seconds());
            samples.iter().map(rate).collect()
        };
        let ms = |micros: fn(&Sample) -> u32| {
            let ms = |sample: &&Sample| rounded(f64::from(micros(sample)) / 1e3);
            samples.iter().map(ms).collect()
        };
        let all = |value: fn(&Sample) -> u64| samples.iter().map(|sample| value(sample)).collect();
        Trend {
            at: all(|sample| sample.end),
            seconds: samples.iter().map(|sample| sample.seconds()).collect(),
            per_second: rates(|sample| sample.reconciles),
            errors_per_second: rates(|sample| sample.errors),
            p50_ms: ms(|sample| sample.p50),
            p99_ms: ms(|sample| sample.p99),
            queued: all(|sample| sample.queued.into()),
            memory: all(|sample| u64::from(sample.memory) * 1024),
            cores: samples.iter().map(|sample| sample.cores()).collect(),
        }
    }

    /// Returns the hour before `now` in short.
    pub(crate) fn brief(&self, now: SystemTime) -> TrendBrief {
        let end = milliseconds(now);
        let mut counts = [0_u64; POINTS];
        let mut brief = TrendBrief::default();
        let part = HOUR / POINTS as u64;
        for sample in self.of_hour(now) {
            let from_end = end.saturating_sub(sample.end) / part;
            let at = (POINTS - 1).saturating_sub(from_end as usize);
            counts[at] += u64::from(sample.reconciles);
            brief.reconciles += u64::from(sample.reconciles);
            brief.errors += u64::from(sample.errors);
            brief.cpu_seconds += f64::from(sample.cpu) / 1e6;
            if sample.reconciles > 0 {
                brief.p99_ms = rounded(f64::from(sample.p99) / 1e3);
            }
        }
        let is_current = |sample: &&Sample| sample.end + CURRENT >= end;
        let last = self.kept.back().filter(is_current);
        brief.cores = last.map_or(0.0, Sample::cores);
        brief.cpu_seconds = rounded(brief.cpu_seconds);
        if brief.reconciles > 0 {
            let seconds = part as f64 / 1e3;
            let rates = counts.iter().map(|count| rounded(*count as f64 / seconds));
            brief.rate = rates.collect();
        }
        brief
    }

    fn of_hour(&self, now: SystemTime) -> impl Iterator<Item = &Sample> {
        let end = milliseconds(now);
        self.kept.iter().filter(move |kept| kept.end + HOUR >= end)
    }
}

impl Sample {
    /// Whether the next sample says nothing new: in both, the plugin does nothing and holds the same.
    fn is_followed_by(&self, next: &Self) -> bool {
        let is_idle = |one: &Self| (one.reconciles, one.errors, one.cpu) == (0, 0, 0);
        // After a pause, the plugin did not run in between.
        let has_gap = next.end.saturating_sub(next.period.into()) > self.end + CURRENT;
        is_idle(self)
            && is_idle(next)
            && !has_gap
            && (self.queued, self.memory) == (next.queued, next.memory)
    }

    fn seconds(&self) -> f64 {
        f64::from(self.period.max(1)) / 1e3
    }

    fn cores(&self) -> f64 {
        rounded(f64::from(self.cpu) / 1e6 / self.seconds())
    }
}

fn milliseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn clamp(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

/// To a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    /// A plugin that is sampled every ten seconds.
    struct Sampled {
        samples: Samples,
        now: SystemTime,
        totals: Totals,
    }

    impl Sampled {
        fn new() -> Self {
            Self {
                samples: Samples::default(),
                now: UNIX_EPOCH + Duration::from_secs(1_000_000),
                totals: Totals::default(),
            }
        }

        async fn goes_on(&mut self, reconciles: u64, errors: u64, cpu: Duration) {
            tokio::time::advance(PERIOD).await;
            self.now += PERIOD;
            self.totals.reconciles += reconciles;
            self.totals.errors += errors;
            self.totals.cpu += cpu;
            let usage = Usage {
                cpu: self.totals.cpu,
                memory: 1 << 20,
                queued: 3,
            };
            let took = [Duration::from_millis(1), Duration::from_millis(20)];
            self.samples.add(self.now, self.totals, took, usage);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sample_has_what_happened_since_the_one_before() {
        let mut plugin = Sampled::new();
        plugin.goes_on(20, 0, Duration::from_secs(1)).await;
        plugin.goes_on(5, 1, Duration::from_secs(5)).await;
        let trend = plugin.samples.trend(plugin.now);
        assert_eq!(trend.seconds, [10.0, 10.0]);
        assert_eq!(trend.at[1] - trend.at[0], 10_000);
        assert_eq!(trend.per_second, [2.0, 0.5]);
        assert_eq!(trend.errors_per_second, [0.0, 0.1]);
        assert_eq!(trend.cores, [0.1, 0.5]);
        assert_eq!((trend.p50_ms[0], trend.p99_ms[0]), (1.0, 20.0));
        assert_eq!((trend.memory[0], trend.queued[0]), (1 << 20, 3));
        // The CPU time of another version begins at zero.
        plugin.totals.cpu = Duration::ZERO;
        plugin.goes_on(1, 0, Duration::from_secs(2)).await;
        assert_eq!(plugin.samples.trend(plugin.now).cores[2], 0.2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_is_kept_and_no_more() {
        let mut plugin = Sampled::new();
        for _ in 0..2 * KEPT {
            plugin.goes_on(1, 0, Duration::ZERO).await;
        }
        let trend = plugin.samples.trend(plugin.now);
        assert_eq!(trend.at.len(), KEPT);
        assert!(plugin.samples.bytes() <= 2 * KEPT * size_of::<Sample>());
        let later = plugin.now + Duration::from_secs(3600);
        assert!(plugin.samples.trend(later).at.len() <= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn samples_without_news_are_joined() {
        let mut plugin = Sampled::new();
        plugin.goes_on(1, 0, Duration::ZERO).await;
        for _ in 0..100 {
            plugin.goes_on(0, 0, Duration::ZERO).await;
        }
        let trend = plugin.samples.trend(plugin.now);
        assert_eq!(trend.seconds, [10.0, 1000.0]);
        // It did not run for a while.
        plugin.now += Duration::from_secs(600);
        plugin.goes_on(0, 0, Duration::ZERO).await;
        assert_eq!(plugin.samples.trend(plugin.now).at.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_in_short_has_rates_of_its_parts() {
        let mut plugin = Sampled::new();
        assert_eq!(plugin.samples.brief(plugin.now), TrendBrief::default());
        plugin.goes_on(120, 2, Duration::from_secs(1)).await;
        for _ in 0..30 {
            plugin.goes_on(0, 0, Duration::ZERO).await;
        }
        plugin.goes_on(240, 0, Duration::from_secs(2)).await;
        let brief = plugin.samples.brief(plugin.now);
        assert_eq!((brief.reconciles, brief.errors), (360, 2));
        assert_eq!((brief.cpu_seconds, brief.cores), (3.0, 0.2));
        assert_eq!(brief.p99_ms, 20.0);
        assert_eq!(brief.rate.len(), POINTS);
        assert_eq!(brief.rate[POINTS - 1], 2.0);
        assert_eq!(brief.rate[POINTS - 3], 1.0, "five minutes ago");
        assert_eq!(brief.rate.iter().sum::<f64>(), 3.0);
    }
}
