//! The client, which stands for the host.

use crate::error::Result;

/// Stands for the host. It holds nothing, and works only within a reconcile.
#[derive(Clone, Debug, Default)]
pub struct Client {
    _private: (),
}

impl Client {
    /// Returns the client. There is no configuration to read.
    ///
    /// # Errors
    /// Never fails. The `Result` matches the signature of kube's function.
    pub async fn try_default() -> Result<Self> {
        Ok(Self::default())
    }
}
