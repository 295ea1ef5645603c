//! The client, which stands for the host.

use crate::error::Result;

/// Stands for the host. It holds nothing, and works within a reconcile alone.
#[derive(Clone, Debug, Default)]
pub struct Client {
    _private: (),
}

impl Client {
    /// Returns the client. There is no configuration to read.
    ///
    /// # Errors
    /// None; kube's own can fail.
    pub async fn try_default() -> Result<Self> {
        Ok(Self::default())
    }
}
