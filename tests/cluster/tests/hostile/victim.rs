//! A plugin that works beside the attacker, with measurements of its speed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flyball_cluster_tests::{Cluster, Space, annotate, is_full};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

/// The number of observations of the victim before and during each attack, if the times are compared. Each round has
/// more than 200 of them, so that one slow moment of the machine does not decide.
const GREETINGS: usize = 8;
/// Each attack belongs to one of the rounds, in turn, and the median of the rounds counts.
const ROUNDS: usize = 3;
/// The largest allowed ratio of the victim's 99th percentile during attacks to its 99th percentile between attacks.
const SLOWER: f64 = 2.0;
/// The number of slow observations that are printed for each round.
const SLOWEST: usize = 8;

/// When the victim is observed.
#[derive(Clone, Copy)]
pub(crate) enum During<'a> {
    /// Between two attacks.
    Calm,
    /// During the attack of this name.
    Attack(&'a str),
}

/// The plugin `greeter`, which writes a greeting whenever its namespace is annotated with one.
pub(crate) struct Victim {
    space: Space,
    greetings: u32,
    rounds: [Round; ROUNDS],
}

/// The durations of the victim's work.
#[derive(Default)]
struct Round {
    calm: Vec<Duration>,
    attacked: Vec<Duration>,
    /// The name of the attack during each of these.
    attacks: Vec<String>,
}

impl Victim {
    pub(crate) async fn create(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            space: Space::create(cluster.client.clone(), "greeted").await?,
            greetings: 0,
            rounds: Default::default(),
        })
    }

    /// Observes the victim before or during an attack.
    pub(crate) async fn greet(&mut self, during: During<'_>, attack: usize) -> Result<()> {
        let greetings = if is_full() { GREETINGS } else { 1 };
        for _ in 0..greetings {
            let took = self.greet_once().await?;
            let round = &mut self.rounds[attack % ROUNDS];
            match during {
                During::Calm => round.calm.push(took),
                During::Attack(name) => {
                    round.attacked.push(took);
                    round.attacks.push(name.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Has the victim write a greeting, and returns how long it took.
    pub(crate) async fn greet_once(&mut self) -> Result<Duration> {
        self.greetings += 1;
        let text = format!("greeting {}", self.greetings);
        let start = Instant::now();
        let patch = json!({"metadata": {"annotations": {"greeter.flyball.dev/greeting": text}}});
        annotate(&self.space.client, &self.space.name, patch).await?;
        let maps = self.space.api::<ConfigMap>();
        loop {
            let greeting = maps.get_opt("greeting").await?;
            let found = greeting.and_then(|map| map.data?.remove("greeting"));
            if found.as_ref() == Some(&text) {
                return Ok(start.elapsed());
            }
            ensure!(
                start.elapsed() < Duration::from_secs(30),
                "the victim is starved: it has {found:?}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Checks that the attacks delayed the victim by no more than they may.
    pub(crate) fn is_prompt(&self) -> Result<()> {
        let mut ratios = Vec::new();
        for round in &self.rounds {
            let (calm, attacked) = (p99(&round.calm), p99(&round.attacked));
            eprintln!(
                "the victim took at p50 {:?} and p99 {calm:?}, during attacks {:?} and {attacked:?}",
                quantile(&round.calm, 0.5),
                quantile(&round.attacked, 0.5),
            );
            eprintln!("the slowest: {:?}", round.slowest());
            ratios.push(attacked.as_secs_f64() / calm.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ROUNDS / 2];
        ensure!(
            median <= SLOWER,
            "the victim's p99 was {median:.2} times as long during attacks: more than {SLOWER} (rounds: {ratios:.2?})"
        );
        Ok(())
    }
}

impl Round {
    /// The slowest observations during attacks, each with the attack's name.
    fn slowest(&self) -> Vec<(Duration, &str)> {
        let attacks = self.attacks.iter().map(String::as_str);
        let mut slowest: Vec<_> = self.attacked.iter().copied().zip(attacks).collect();
        slowest.sort_by(|one, other| other.cmp(one));
        slowest.truncate(SLOWEST);
        slowest
    }
}

/// How long the victim's work, and probes of the host's health, took each time.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) greetings: Vec<Duration>,
    pub(crate) probes: Vec<Duration>,
}

impl Observed {
    /// How many times as long the median greeting and the median probe took as these.
    pub(crate) fn slower_than(&self, calm: &Self) -> [f64; 2] {
        let median = |times: &[Duration]| quantile(times, 0.5).as_secs_f64();
        [
            median(&self.greetings) / median(&calm.greetings),
            median(&self.probes) / median(&calm.probes),
        ]
    }
}

fn p99(times: &[Duration]) -> Duration {
    quantile(times, 0.99)
}

fn quantile(times: &[Duration], quantile: f64) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    let place = (times.len() as f64 * quantile).ceil() as usize;
    times
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}
