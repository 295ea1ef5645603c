//! Flyball against what the stock kube-controller-manager left behind.

use anyhow::{Result, ensure};
use flyball_differential::{Scenario, compare_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_scenario_ends_as_under_stock_with_no_more_writes() -> Result<()> {
    let report = compare_all(&Scenario::all()?).await?;
    println!("{report}");
    let differences = report.differences();
    ensure!(
        differences.is_empty(),
        "Flyball differs from stock:\n{}",
        differences.join("\n")
    );
    Ok(())
}
