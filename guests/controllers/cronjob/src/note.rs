//! Events that a pure step decides on, to be emitted later.

use flyball_sdk::prelude::*;

use crate::views::CronJob;

/// An event about the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    is_warning: bool,
    reason: &'static str,
    message: String,
}

impl Note {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            reason,
            message: message.into(),
        }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::normal(reason, message)
        }
    }

    /// Emits the event about the CronJob with this metadata.
    pub fn emit(&self, host: &Host, meta: &Meta) {
        let about = meta.reference(CronJob::KIND);
        let event = if self.is_warning {
            Event::warning
        } else {
            Event::normal
        };
        host.emit(event(&about, self.reason, &self.message));
    }
}
