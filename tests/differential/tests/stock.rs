//! Flyball against what the stock kube-controller-manager left behind.

use anyhow::{Context, Result, ensure};
use flyball_differential::{Golden, Scenario, Subject, play_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_scenario_ends_as_under_stock_with_no_more_writes() -> Result<()> {
    let mut outcomes = play_all(Subject::Flyball, &Scenario::all()?).await?;
    let mut differences = Vec::new();
    while let Some((scenario, outcome)) = outcomes.pop_first() {
        let outcome = outcome.with_context(|| format!("{scenario} didn't come to its end"))?;
        let found = Golden::read(&scenario)?.compare(&outcome).all();
        differences.extend(found.into_iter().map(|text| format!("{scenario}: {text}")));
    }
    ensure!(differences.is_empty(), "Flyball differs from stock:\n{}", differences.join("\n"));
    Ok(())
}
