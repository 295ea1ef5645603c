//! Files that flags name, and that only some controllers need. Without such a file, the other controllers run all the
//! same, as in kube-controller-manager.

use anyhow::Context;
use flyball_controllers::Need;

use crate::builtins::that_need;

/// The controllers that may need files.
pub(super) struct Needs {
    chosen: Vec<&'static str>,
    has_plugins: bool,
}

impl Needs {
    /// `chosen` are the built-in controllers to run. `has_plugins` says whether plugins may run beside them.
    pub(super) fn new(chosen: impl IntoIterator<Item = &'static str>, has_plugins: bool) -> Self {
        Self {
            chosen: chosen.into_iter().collect(),
            has_plugins,
        }
    }

    /// Reads a file if a chosen controller has this need, or for plugins. Plugins go without a file that can't be used,
    /// which is logged.
    ///
    /// # Errors
    /// Fails if the file can't be used and a chosen controller needs it. The error names the controller.
    pub(super) fn read<T>(
        &self,
        need: Need,
        read: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        if let Some(controller) = that_need(need).find(|name| self.chosen.contains(name)) {
            let read = read().with_context(|| format!("{controller} can't start"));
            return read.map(Some);
        }
        if !self.has_plugins {
            return Ok(None);
        }
        let unusable = |error: &_| {
            tracing::warn!(
                "{error:#}; no built-in controller that runs needs it, and plugins go without it"
            );
        };
        Ok(read().inspect_err(unusable).ok())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    const SIGNER: &str = "certificatesigningrequest-signing-controller";

    #[test]
    fn a_file_that_a_controller_needs_must_be_usable() {
        let needs = Needs::new(["ttl-controller", SIGNER], true);
        assert_eq!(needs.read(Need::ClusterSigning, || Ok(1)).unwrap(), Some(1));
        let error = needs
            .read::<()>(Need::ClusterSigning, || bail!("no such file"))
            .unwrap_err();
        let expected = format!("{SIGNER} can't start: no such file");
        assert_eq!(format!("{error:#}"), expected);
    }

    #[test]
    fn a_file_that_no_controller_needs_is_read_for_plugins_alone() {
        let read = |has_plugins, file: anyhow::Result<i32>| {
            let needs = Needs::new(["ttl-controller"], has_plugins);
            needs.read(Need::ClusterSigning, || file).unwrap()
        };
        assert_eq!(read(false, Ok(1)), None);
        assert_eq!(read(true, Ok(1)), Some(1));
        assert_eq!(read(true, Err(anyhow::anyhow!("no such file"))), None);
    }
}
