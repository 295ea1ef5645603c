//! Limits of what one plugin may use on the host's side, and what shows how often each was reached. The limits of the guest
//! itself are in `flyball_plugin`.

pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod quarantine;
pub(crate) mod rate;
pub(crate) mod usage;
