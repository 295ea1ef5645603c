//! Attacks on a running host, as tables: a dropped-in plugin tries to get out of its grants and limits, beside a plugin
//! that works and built-in controllers. Each case has the host's expected answer. The plugin's account may do
//! everything, so that only the host can refuse a request.

mod arena;
mod descriptions;
mod lifecycle;
mod limits;
mod loops;
mod reads;
mod registry;
mod requests;
mod table;
mod ungranted;
mod victim;
mod writes;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{finish, is_full};

use arena::{Arena, Case};

/// The cases that are written as tables. The modules of registries, requests and files have further ones.
const TABLES: [&[Case]; 4] = [
    reads::CASES,
    writes::CASES,
    descriptions::CASES,
    limits::CASES,
];
/// The cases that always run. The others take minutes, and run with `--full`.
const QUICK: [&str; 10] = [
    "hidden-by-columns",
    "other-namespace-by-cache",
    "forged-raw-path",
    "watch-by-list",
    "copy-by-json-patch",
    "write-elsewhere",
    "large-body",
    "too-much-memory",
    "flood-of-lines",
    "doubling-watch",
];

#[tokio::test]
async fn a_hostile_plugin_stays_within_its_grants_and_limits() -> Result<()> {
    let mut arena = Arena::start().await?;
    let result = match is_full() {
        true => all(&mut arena).await,
        false => some(&mut arena).await,
    };
    let (cluster, host) = arena.into_parts();
    finish(cluster, [host], result).await
}

/// Runs all cases, compares the host's memory and the victim's times, and writes or checks the table of the cases.
async fn all(arena: &mut Arena) -> Result<()> {
    // Each slot for an instance keeps a stack once it was used, so all of them are used before the memory is compared.
    arena.attack(&limits::WAITING_CALLS).await?;
    arena.measure().await?;
    attack(arena, TABLES.into_iter().flatten()).await?;
    loops::all(arena).await?;
    writes::certificates(arena).await?;
    requests::all(arena).await?;
    registry::all(arena).await?;
    lifecycle::all(arena).await?;
    ungranted::all(arena).await?;
    arena.recovers().await?;
    table::is_current(arena.done())?;
    arena.is_prompt()
}

/// Runs a few cases of each kind.
async fn some(arena: &mut Arena) -> Result<()> {
    let cases = TABLES.into_iter().flatten();
    let quick: Vec<&Case> = cases.filter(|case| QUICK.contains(&case.name)).collect();
    ensure!(quick.len() == QUICK.len(), "a name has no case");
    attack(arena, quick.into_iter()).await?;
    loops::some(arena).await?;
    writes::certificates(arena).await?;
    requests::all(arena).await?;
    registry::some(arena).await?;
    lifecycle::removed(arena).await?;
    ungranted::all(arena).await?;
    table::has(arena.done())
}

/// Runs all of the cases even if some fail, so that one run shows every hole.
async fn attack<'a>(arena: &mut Arena, cases: impl Iterator<Item = &'a Case>) -> Result<()> {
    let mut holes = Vec::new();
    for case in cases {
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
    Ok(())
}
