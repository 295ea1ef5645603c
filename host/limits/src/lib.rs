//! The host's limits on what one plugin may use, and counters of what it does. The limits of the guest itself are in
//! `flyball_plugin`.

pub mod counters;
pub mod host_limits;
pub mod quarantine;
pub mod rate;
pub mod stop;
