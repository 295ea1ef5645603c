//! The host's limits on the resources that one plugin may use, and counters of its work. The limits of the guest itself
//! are in `flyball_plugin`.

pub mod counters;
pub mod host_limits;
pub mod quarantine;
pub mod rate;
pub mod stop;
