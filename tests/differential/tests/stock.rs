//! Compares Flyball with the stock kube-controller-manager.

use anyhow::{Result, ensure};
use flyball_differential::{Scenario, compare_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_scenario_has_the_results_of_stock_with_at_most_as_many_writes() -> Result<()> {
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
