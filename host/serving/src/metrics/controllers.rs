//! `running_managed_controllers`, as in kube-controller-manager.

use prometheus::Gauge;

use super::{Metrics, MetricsError};

/// Counts a controller as running until it is dropped.
#[must_use = "the controller counts as stopped when this is dropped"]
pub struct RunningController {
    gauge: Gauge,
}

impl Metrics {
    /// Counts the controller of this name as running in `running_managed_controllers`.
    pub fn running_controller(&self, name: &str) -> Result<RunningController, MetricsError> {
        let help = "Indicates where instances of a controller are currently running";
        let vec = self.gauge("running_managed_controllers", help, &["manager", "name"])?;
        let gauge = vec.with_label_values(&["kube-controller-manager", name]);
        gauge.set(1.0);
        Ok(RunningController { gauge })
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        self.gauge.set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_counts_as_running_until_it_is_dropped() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        let series = "running_managed_controllers{manager=\"kube-controller-manager\",name=\"job-controller\"}";
        let running = metrics.running_controller("job-controller")?;
        assert!(metrics.render().contains(&format!("{series} 1\n")));
        drop(running);
        assert!(metrics.render().contains(&format!("{series} 0\n")));
        Ok(())
    }
}
