//! The memory of a plugin and the time of a hop, in a ring of plugins that each copy a value from one namespace to the
//! next.

use anyhow::{Result, ensure};

use super::bed::REST;
use super::process::resident_mib;
use super::relays::{Relays, Written, name};
use super::report::Figures;
use super::wait::wait;

const TOKEN: &str = "token";

/// Sends a value around the ring of `plugins` plugins, `rounds` times.
pub(super) async fn measure(plugins: usize, rounds: usize) -> Result<Figures> {
    let relays = Relays::start(plugins).await?;
    tokio::time::sleep(REST).await;
    let empty = resident_mib(&relays.host)?;
    for number in 0..plugins {
        relays.put(number, 0)?;
    }
    relays.until_running(plugins).await?;
    tokio::time::sleep(REST).await;
    let mut figures = Figures::default();
    figures.push(
        "memory of each plugin, KiB",
        (resident_mib(&relays.host)? - empty) * 1024.0 / plugins as f64,
    );

    for round in 1..=rounds {
        match round {
            1 => relays.create(TOKEN, round).await?,
            _ => relays.setter().set(TOKEN.into(), round).await?,
        }
        wait("the value is back", async || {
            Ok((
                relays.value(plugins - 1, TOKEN).await?.parse().unwrap_or(0),
                round,
            ))
        })
        .await?;
    }
    figures.push("memory of the host, MiB", resident_mib(&relays.host)?);
    let hops = hops(&relays.end().await?, plugins, rounds)?;
    figures.push_percentiles([("a hop: p50, ms", 0.5), ("a hop: p99, ms", 0.99)], hops)?;
    Ok(figures)
}

/// The milliseconds between consecutive requests of each round that write the value.
fn hops(written: &[Written], plugins: usize, rounds: usize) -> Result<Vec<f64>> {
    ensure!(
        written.len() == plugins * rounds,
        "there were {} writes in {rounds} rounds",
        written.len()
    );
    let mut hops = Vec::new();
    for round in written.chunks(plugins) {
        let namespaces = round.iter().map(|write| &write.namespace);
        let ring: Vec<String> = (0..plugins).map(|number| name(number, plugins)).collect();
        ensure!(namespaces.eq(&ring), "the value did not go around in order");
        hops.extend(
            round
                .windows(2)
                .map(|pair| pair[0].at.duration_until(pair[1].at).as_secs_f64() * 1000.0),
        );
    }
    Ok(hops)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    #[test]
    fn a_hop_is_the_time_between_two_requests_of_a_round() {
        let write = |number: usize, at: i64| {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(at);
            Written {
                at,
                completed: at,
                namespace: name(number, 3),
                name: TOKEN.into(),
            }
        };
        let written = [
            write(0, 100),
            write(1, 103),
            write(2, 107),
            write(0, 200),
            write(1, 201),
            write(2, 209),
        ];
        assert_eq!(hops(&written, 3, 2).unwrap(), [3.0, 4.0, 1.0, 8.0]);
        assert!(hops(&written, 3, 3).is_err());
        assert!(hops(&written[1..4], 3, 1).is_err());
    }
}
