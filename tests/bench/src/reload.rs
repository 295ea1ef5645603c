//! The latency of a plugin that is reloaded repeatedly while its keys change.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use super::bed::REST;
use super::churn::Churn;
use super::relays::{Relays, Written};
use super::report::Figures;
use super::wait::wait;

/// The number of keys. They change one after the other.
const KEYS: usize = 100;
/// Changes per second.
const CHANGES: u32 = 50;
/// The length of a span without a reload, for the comparison with one during a reload.
const SPAN: Duration = Duration::from_secs(1);

/// The begin and the end of a span.
type Span = (Timestamp, Timestamp);

/// Measures this number of reloads.
pub(super) async fn measure(reloads: usize) -> Result<Figures> {
    // The second namespace has no relay: it would copy the values back.
    let relays = Relays::start(2).await?;
    relays.put(0, 0)?;
    relays.until_running(1).await?;
    for key in 0..KEYS {
        relays.create(&object(key), 0).await?;
    }
    tokio::time::sleep(REST).await;
    let setter = relays.setter();
    let churn = Churn::start(CHANGES, move |number| {
        setter.clone().set(object(number % KEYS), number + 1)
    });
    let (quiet, reloading) = spans(&relays, reloads).await?;
    churn.stop().await?;
    tokio::time::sleep(REST).await;
    let from = relays.name(0);
    let written = relays.end().await?;
    let mut figures = Figures::default();
    let parts = [
        (
            [
                ("a wait without a reload: p50, ms", 0.5),
                ("a wait without a reload: p99, ms", 0.99),
            ],
            [
                ("the longest in a span without: p50, ms", 0.5),
                ("the longest in a span without: p99, ms", 0.99),
            ],
            quiet,
        ),
        (
            [
                ("a wait during a reload: p50, ms", 0.5),
                ("a wait during a reload: p99, ms", 0.99),
            ],
            [
                ("the longest in a reload: p50, ms", 0.5),
                ("the longest in a reload: p99, ms", 0.99),
            ],
            reloading,
        ),
    ];
    for (all, longest, spans) in parts {
        let waits: Vec<Vec<f64>> = spans
            .iter()
            .map(|span| waits(&written, &from, *span))
            .collect::<Result<_>>()?;
        figures.push_percentiles(all, waits.concat())?;
        let of_span = |waits: &Vec<f64>| waits.iter().copied().fold(0.0, f64::max);
        figures.push_percentiles(longest, waits.iter().map(of_span).collect())?;
    }
    Ok(figures)
}

fn object(key: usize) -> String {
    format!("key-{key}")
}

/// Reloads the plugin `reloads` times. Returns the spans without a reload, and the spans from a new file until the host
/// runs it.
async fn spans(relays: &Relays, reloads: usize) -> Result<(Vec<Span>, Vec<Span>)> {
    let (mut quiet, mut reloading) = (Vec::new(), Vec::new());
    for version in 1..=reloads {
        let begun = Timestamp::now();
        tokio::time::sleep(SPAN).await;
        quiet.push((begun, Timestamp::now()));

        let before = digest(relays)?;
        let begun = Timestamp::now();
        relays.put(0, version)?;
        wait("the new version runs", async || {
            Ok((usize::from(digest(relays)? != before), 1))
        })
        .await?;
        reloading.push((begun, Timestamp::now()));
    }
    Ok((quiet, reloading))
}

/// The digest of the running version.
fn digest(relays: &Relays) -> Result<String> {
    relays
        .running()?
        .remove(&relays.name(0))
        .context("the relay isn't running")
}

/// The wait of each change in the namespace `from` within a span, in milliseconds: from the response to the change
/// until the request for the copy in the other namespace. It is 0 if that request came before the response.
fn waits(written: &[Written], from: &str, (begun, ended): Span) -> Result<Vec<f64>> {
    let (mut waiting, mut waits) = (HashMap::new(), Vec::new());
    for write in written.iter().filter(|write| write.at >= begun) {
        if write.namespace == from {
            if write.at < ended {
                waiting.entry(&write.name).or_insert(write.completed);
            }
        } else if let Some(changed) = waiting.remove(&write.name) {
            waits.push(changed.duration_until(write.at).as_secs_f64().max(0.0) * 1000.0);
        }
    }
    ensure!(
        waiting.is_empty(),
        "{} changes were never copied",
        waiting.len()
    );
    ensure!(!waits.is_empty(), "nothing changed in a span");
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_wait_is_from_the_response_to_the_first_change_to_the_request_for_the_copy() {
        let at = |milliseconds| Timestamp::UNIX_EPOCH + SignedDuration::from_millis(milliseconds);
        // Each response takes 3 ms.
        let write = |namespace: &str, key: usize, milliseconds| Written {
            at: at(milliseconds),
            completed: at(milliseconds + 3),
            namespace: namespace.into(),
            name: object(key),
        };
        let before = [write("a", 1, 5), write("a", 1, 10), write("a", 2, 12)];
        let written: Vec<Written> = before
            .into_iter()
            .chain([write("b", 2, 14), write("b", 1, 19), write("a", 3, 20)])
            .collect();
        assert_eq!(waits(&written, "a", (at(10), at(20))).unwrap(), [0.0, 6.0]);
        assert_eq!(waits(&written, "a", (at(5), at(12))).unwrap(), [11.0]);
        assert_eq!(waits(&written, "a", (at(11), at(20))).unwrap(), [0.0]);
        assert!(waits(&written, "a", (at(11), at(30))).is_err());
    }
}
