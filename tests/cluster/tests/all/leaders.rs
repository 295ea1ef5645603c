//! Leader election: only one of several hosts acts at a time, whatever faults occur.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Proxy, Space, finish, is_full, last_lines, log_of, new_image, until,
};
use flyball_controlplane::{Options, Process};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,serviceaccount-controller";
/// Shorter than the defaults, so that the lease changes its holder often within a minute.
const TIMES: [&str; 3] = [
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
/// The lease duration in [`TIMES`].
const LEASE: Duration = Duration::from_secs(4);
/// A pause shorter than the renew deadline in [`TIMES`].
const BLINK: Duration = Duration::from_millis(800);
const PODS: i32 = 6;

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_and_exits() -> Result<()> {
    let cluster = Cluster::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let mut first = contend(&cluster, "first")?;
    let mut second = None;
    let result = async {
        leads(&cluster, &first).await?;
        let second = second.insert(contend(&cluster, "second")?);
        let space = Space::create(cluster.client.clone(), "paused").await?;
        space.deploy(PODS, "web:1", json!({})).await?;
        space.settled(PODS, "web:1").await?;
        first.pause()?;
        // No host acts now, so both have work to do afterwards.
        space.redeploy(new_image("web:2")).await?;
        leads(&cluster, second).await?;
        first.resume()?;
        let status = until("the first host has ended", async || {
            Ok(first.exited().ok_or_else(|| "the host runs".into()))
        })
        .await?;
        ensure!(
            status.code() == Some(1),
            "the first host ended with {status}"
        );
        let log = log_of(&first)?;
        ensure!(
            log.contains("lost the lease kube-system/kube-controller-manager"),
            "its log is: {log}"
        );
        space.settled(PODS, "web:2").await?;
        let turns = turns(&cluster.plane.audit_events()?);
        ensure!(turns.len() == 2, "hosts wrote in this order: {turns:?}");
        Ok(())
    };
    let result = result.await;
    // The first host has ended with an error, which `finish` would report.
    drop(first);
    finish(cluster, second, result).await
}

#[tokio::test]
async fn a_leader_that_gets_sigterm_releases_the_lease() -> Result<()> {
    let cluster = Cluster::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    // Longer than the test waits, so the test fails if the second host waits for the expiry.
    let times = [
        "--leader-elect-lease-duration=600s",
        "--leader-elect-retry-period=500ms",
    ];
    let mut first = contend_with(
        &cluster,
        "first",
        cluster.plane.kcm_kubeconfig_path(),
        &times,
    )?;
    let mut second = None;
    let result = async {
        leads(&cluster, &first).await?;
        let second = second.insert(contend_with(
            &cluster,
            "second",
            cluster.plane.kcm_kubeconfig_path(),
            &times,
        )?);
        let space = Space::create(cluster.client.clone(), "handed-over").await?;
        space.deploy(PODS, "web:1", json!({})).await?;
        space.settled(PODS, "web:1").await?;
        space.redeploy(new_image("web:2")).await?;
        let status = first.stop().await?;
        ensure!(status.success(), "the first host ended with {status}");
        leads(&cluster, second).await?;
        space.settled(PODS, "web:2").await?;
        let turns = turns(&cluster.plane.audit_events()?);
        ensure!(turns.len() == 2, "hosts wrote in this order: {turns:?}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, second, result).await
}

/// Takes a minute, or five with `--full`.
#[tokio::test]
async fn one_of_three_hosts_acts_at_a_time_while_they_are_killed_paused_and_cut_off() -> Result<()>
{
    let seconds = if is_full() { 300 } else { 60 };
    let cluster = Cluster::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let seed = rand::random();
    println!("seed {seed}");
    let mut contenders = Contenders::start(&cluster, StdRng::seed_from_u64(seed)).await?;
    let result = async {
        let space = Space::create(cluster.client.clone(), "churn").await?;
        space.deploy(PODS, "web:0", json!({})).await?;
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut image = 0;
        while Instant::now() < end {
            image += 1;
            space.redeploy(new_image(&format!("web:{image}"))).await?;
            contenders.inject_fault().await?;
        }
        space.settled(PODS, &format!("web:{image}")).await?;
        let turns = turns(&cluster.plane.audit_events()?);
        println!("{image} rollouts, {} terms", turns.len());
        ensure!(turns.len() > 2, "no host took over: {turns:?}");
        for (number, turn) in turns.iter().enumerate() {
            ensure!(
                !turns[..number].contains(turn),
                "{turn} wrote again after another host: {turns:?}"
            );
        }
        Ok(())
    };
    let result = result.await;
    // The proxies must live until the hosts have shut down.
    let (hosts, _proxies, ended) = contenders.into_parts();
    finish(cluster, hosts, result.and(ended)).await
}

/// Three hosts, and the faults that are injected.
struct Contenders<'a> {
    cluster: &'a Cluster,
    random: StdRng,
    all: Vec<Contender>,
    /// The number of hosts started so far.
    started: usize,
}

struct Contender {
    host: Process,
    proxy: Proxy,
    kubeconfig: std::path::PathBuf,
}

impl<'a> Contenders<'a> {
    async fn start(cluster: &'a Cluster, random: StdRng) -> Result<Self> {
        let mut contenders = Self {
            cluster,
            random,
            all: Vec::new(),
            started: 0,
        };
        for number in 0..3 {
            let proxy = Proxy::start(cluster.plane.url()).await?;
            let kubeconfig = cluster
                .plane
                .dir()
                .join(format!("proxy-{number}.kubeconfig"));
            let text = std::fs::read_to_string(cluster.plane.kcm_kubeconfig_path())?;
            std::fs::write(&kubeconfig, text.replace(cluster.plane.url(), proxy.url()))?;
            let host = contenders.spawn(&kubeconfig)?;
            contenders.all.push(Contender {
                host,
                proxy,
                kubeconfig,
            });
        }
        Ok(contenders)
    }

    fn spawn(&mut self, kubeconfig: &std::path::Path) -> Result<Process> {
        self.started += 1;
        contend_with(
            self.cluster,
            &format!("contender-{}", self.started),
            kubeconfig,
            &TIMES,
        )
    }

    /// Disturbs one of the hosts, usually the leader. Then waits until the lease is held again and a
    /// host that lost it has ended.
    async fn inject_fault(&mut self) -> Result<()> {
        let victim = self.choose_victim().await?;
        // At a random time of a rollout.
        let delay = Duration::from_millis(self.random.random_range(100..1500));
        tokio::time::sleep(delay).await;
        let fault = ["kill", "pause", "cut", "blink"].choose(&mut self.random);
        let fault = fault.copied().context("no fault to choose")?;
        if fault == "kill" {
            self.all[victim].host.kill()?;
        } else {
            self.disturb(victim, fault).await?;
        }
        self.replace_ended()
    }

    /// The index of the host to disturb.
    async fn choose_victim(&mut self) -> Result<usize> {
        let holder = holder(self.cluster).await?;
        let leader = self
            .all
            .iter()
            .position(|contender| identity(&contender.host).is_ok_and(|own| own == holder));
        let any = self.random.random_range(0..self.all.len());
        let is_leader_chosen = self.random.random_bool(0.7);
        Ok(leader.filter(|_| is_leader_chosen).unwrap_or(any))
    }

    /// Stops a host from renewing the lease for longer than the lease duration, or, for a blink, for
    /// less than the renew deadline.
    async fn disturb(&mut self, victim: usize, fault: &str) -> Result<()> {
        let cluster = self.cluster;
        let Contender { host, proxy, .. } = &mut self.all[victim];
        // The host may have just started, and log its identity later.
        let own = until(&format!("{} has an identity", host.name()), async || {
            Ok(identity(host).map_err(|error| error.to_string()))
        })
        .await?;
        if fault == "cut" {
            proxy.cut();
        } else {
            host.pause()?;
        }
        let led = holder(cluster).await? == own;
        let begun = Timestamp::now();
        if fault == "blink" {
            // No other host may acquire the lease within this time.
            tokio::time::sleep(BLINK).await;
        } else {
            renewed(cluster, begun + LEASE, |holder| holder != own).await?;
        }
        if fault == "cut" {
            proxy.mend();
        } else {
            host.resume()?;
        }
        let holder = renewed(cluster, Timestamp::now(), |_| true).await?;
        if led && holder != own {
            until(
                &format!("{} ends after it lost the lease", host.name()),
                async || Ok(host.exited().ok_or_else(|| "the host runs".into())),
            )
            .await?;
        }
        Ok(())
    }

    /// Replaces each host that has ended with a new one, as a cluster does.
    fn replace_ended(&mut self) -> Result<()> {
        for number in 0..self.all.len() {
            if self.all[number].host.exited().is_some() {
                let kubeconfig = self.all[number].kubeconfig.clone();
                let host = self.spawn(&kubeconfig)?;
                let mut ended = std::mem::replace(&mut self.all[number].host, host);
                check_end(&mut ended)?;
            }
        }
        Ok(())
    }

    /// The running hosts, their proxies, and whether the other hosts ended for a valid reason. If the
    /// machine stalls for longer than the short renew deadline, a host can lose its lease at any time.
    fn into_parts(self) -> (Vec<Process>, Vec<Proxy>, Result<()>) {
        let (mut running, mut proxies, mut ended) = (Vec::new(), Vec::new(), Ok(()));
        for Contender {
            mut host, proxy, ..
        } in self.all
        {
            proxies.push(proxy);
            match host.exited() {
                Some(_) => ended = ended.and(check_end(&mut host)),
                None => running.push(host),
            }
        }
        (running, proxies, ended)
    }
}

/// Checks that a host that the test did not stop was killed, or logged that it lost its lease.
fn check_end(host: &mut Process) -> Result<()> {
    let log = log_of(host)?;
    let status = host.exited().context("the host still runs")?;
    ensure!(!log.contains("panicked"), "{} panicked", host.name());
    let was_killed = status.code().is_none();
    ensure!(
        was_killed || log.contains("lost the lease"),
        "{} ended with {status}:\n{}",
        host.name(),
        last_lines(&log)
    );
    Ok(())
}

fn contend(cluster: &Cluster, name: &str) -> Result<Process> {
    contend_with(cluster, name, cluster.plane.kcm_kubeconfig_path(), &TIMES)
}

/// Starts a host with leader election.
fn contend_with(
    cluster: &Cluster,
    name: &str,
    kubeconfig: &std::path::Path,
    times: &[&str],
) -> Result<Process> {
    let mut args = vec![
        format!("--controllers={CONTROLLERS}"),
        "--use-service-account-credentials=true".into(),
    ];
    args.extend(
        [
            "--leader-elect=true",
            "--kube-api-qps=200",
            "--kube-api-burst=300",
        ]
        .map(str::to_owned),
    );
    args.extend(times.iter().map(|&time| time.to_owned()));
    cluster.spawn_host(name, kubeconfig, &args)
}

/// The identity with which the host acquires the lease, from its log.
fn identity(host: &Process) -> Result<String> {
    let log = log_of(host)?;
    let line = log
        .lines()
        .find(|line| line.contains("attempting to acquire the lease"))
        .context("the host has not tried to acquire the lease yet")?;
    let (_, rest) = line
        .split_once("identity=")
        .context("the log line has no identity")?;
    Ok(rest
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .trim_matches('"')
        .to_owned())
}

/// The identity of the lease's holder; empty if there is none.
async fn holder(cluster: &Cluster) -> Result<String> {
    Ok(lease(cluster).await?.holder_identity.unwrap_or_default())
}

async fn lease(cluster: &Cluster) -> Result<LeaseSpec> {
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), "kube-system");
    let lease = leases.get_opt("kube-controller-manager").await?;
    Ok(lease.and_then(|lease| lease.spec).unwrap_or_default())
}

/// Waits until a holder that `is_wanted` accepts has renewed the lease after this time, and returns
/// the holder.
async fn renewed(
    cluster: &Cluster,
    after: Timestamp,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<String> {
    until("the lease is renewed", async || {
        let LeaseSpec {
            holder_identity,
            renew_time,
            ..
        } = lease(cluster).await?;
        let holder = holder_identity.unwrap_or_default();
        let seen = format!("{holder:?} renewed it at {renew_time:?}");
        let is_renewed = renew_time.is_some_and(|MicroTime(time)| time > after);
        Ok(if is_renewed && is_wanted(&holder) {
            Ok(holder)
        } else {
            Err(seen)
        })
    })
    .await
}

/// Waits until this host holds the lease.
async fn leads(cluster: &Cluster, host: &Process) -> Result<()> {
    until(&format!("{} leads", host.name()), async || {
        let (holder, own) = (holder(cluster).await?, identity(host).unwrap_or_default());
        Ok(if !own.is_empty() && holder == own {
            Ok(())
        } else {
            Err(format!("{holder:?} leads"))
        })
    })
    .await
}

/// The identities of the hosts that wrote, in the order in which the server received the writes,
/// without consecutive duplicates. The writes of the election and of the fake nodes don't count.
fn turns(audit: &[Value]) -> Vec<String> {
    let mut writes: Vec<(&str, &str)> = audit.iter().filter_map(write).collect();
    writes.sort_unstable();
    let mut turns: Vec<String> = writes
        .into_iter()
        .map(|(_, identity)| identity.to_owned())
        .collect();
    turns.dedup();
    turns
}

/// The time at which the server received this write, and the identity of the host, from the user
/// agent, which ends with `flyball/1.0 (IDENTITY)`. `None` if the event is not a controller's write, or if the server
/// failed: that is its response to a request whose body the host no longer sends. A write that it refused counts.
fn write(event: &Value) -> Option<(&str, &str)> {
    let is_write = matches!(
        event["verb"].as_str()?,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    );
    let (controller, host) = event["userAgent"].as_str()?.split_once(" flyball/")?;
    let identity = host.strip_suffix(')')?.split_once(" (")?.1;
    let is_done = event["stage"] == "ResponseComplete"
        && event["responseStatus"]["code"]
            .as_u64()
            .is_some_and(|code| code < 500);
    let counts = is_write && is_done && controller.ends_with("-controller");
    counts.then_some((event["requestReceivedTimestamp"].as_str()?, identity))
}
