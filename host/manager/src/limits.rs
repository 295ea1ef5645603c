//! The host's limits on what one plugin may use, and counters of what it does. The limits of the guest itself are in
//! `flyball_plugin`.

pub(crate) mod counters;
pub(crate) mod host_limits;
pub(crate) mod quarantine;
pub(crate) mod rate;
pub(crate) mod stop;
