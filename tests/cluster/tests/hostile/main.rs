//! Attacks on a running host, as tables: a dropped-in plugin tries to get out of its grants and limits, beside a plugin that
//! works and built-in controllers. Each case says what the host must answer. The plugin's account may do everything, so
//! that only the host stands in its way.

mod arena;
mod descriptions;
mod lifecycle;
mod limits;
mod reads;
mod registry;
mod table;
mod victim;
mod writes;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{finish, is_full};
use flyball_controlplane::skip;

use arena::Arena;

#[tokio::test]
async fn a_hostile_plugin_stays_within_its_grants_and_limits() -> Result<()> {
    if !is_full() {
        return skip(
            "a_hostile_plugin_stays_within_its_grants_and_limits",
            "it takes minutes, and runs with `--full`",
        );
    }
    let mut arena = Arena::start().await?;
    let result = async {
        let cases = [
            reads::CASES,
            writes::CASES,
            descriptions::CASES,
            limits::CASES,
        ];
        // All cases are tried, so that one run shows every hole.
        let mut holes = Vec::new();
        // Each slot for an instance keeps a stack once it was used, so all of them are used before the memory is compared.
        arena.attack(&limits::WAITING_CALLS).await?;
        arena.measure().await?;
        for case in cases.into_iter().flatten() {
            if let Err(hole) = arena.attack(case).await {
                holes.push(format!("{hole:#}"));
            }
        }
        ensure!(
            holes.is_empty(),
            "{} holes:\n{}",
            holes.len(),
            holes.join("\n")
        );
        registry::all(&mut arena).await?;
        lifecycle::all(&mut arena).await?;
        arena.recovers().await?;
        table::is_current(arena.done())?;
        arena.is_prompt()
    };
    let result = result.await;
    let (cluster, host) = arena.into_parts();
    finish(cluster, [host], result).await
}
