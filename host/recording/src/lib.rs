//! Recordings of calls to guests: what a guest was called with, what it asked the host, what it was answered, and how the
//! call ended. `docs/recordings.md` describes the format.
//!
//! A guest is a pure function of what crosses its boundary. So a recorded call can be repeated with no cluster: the guest
//! gets the recorded answers ([`Tape`]), and either asks the same until it ends the same, or *parts* from the recording
//! at a first point ([`Parted`]). The host's `rehearse` repeats calls in the sandbox, the SDKs repeat them natively.
//!
//! In the order of the data: [`asked`] and [`answer`] are the two halves of a [`Step`]; steps make a [`Call`]; [`file`]
//! writes calls and reads them again, within bounds, because nobody vouches for a recording; [`secrets`] hides the data of
//! Secrets. No I/O but that of the reader, no clock, no runtime.

pub mod answer;
pub mod asked;
mod call;
mod diff;
mod document;
pub mod file;
mod message;
mod parted;
pub mod secrets;
mod tape;

pub use asked::Asked;
pub use call::{Call, Delta, Ended, GuestLimits, Header, Input, Kept, RoutedKey, Step, StopLimit};
pub use diff::differences;
pub use document::Document;
pub use parted::Parted;
pub use tape::{Reply, Tape};

/// The version of the format that this crate writes. It reads this version only.
pub const FORMAT: u32 = 1;

/// A part of a recording that is not what the format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<serde_json::Error> for Malformed {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}
