//! Waits for conditions.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is checked, and for how long at most.
const POLL: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(900);

/// Waits until the first number that `look` returns has reached the second.
pub(super) async fn wait(
    what: &str,
    look: impl AsyncFnMut() -> Result<(usize, usize)>,
) -> Result<()> {
    wait_for(PATIENCE, what, look).await
}

/// Like [`wait`], but for at most this time.
pub(super) async fn wait_for(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<(usize, usize)>,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let (seen, wanted) = look().await?;
        if seen >= wanted {
            return Ok(());
        }
        if begun.elapsed() > patience {
            bail!(
                "waited {} s until {what}: {seen} of {wanted}",
                patience.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}
