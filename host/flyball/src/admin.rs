//! The admin socket, over which operators on the host's machine query and control the running host.

mod client;
mod protocol;
mod server;
mod socket;
mod table;

pub(crate) use self::client::{AdminCommand, RunningHost, describe, plugins, run, served_kinds};
pub(crate) use self::server::{Host, serve};
pub(crate) use self::socket::of_process as socket_of;
