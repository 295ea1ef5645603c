//! The admin socket, over which operators on the host's machine query and control the running host.

mod about;
mod bundle;
mod canary;
mod client;
mod dashboard;
mod protocol;
mod record;
mod scrub;
mod server;
mod shadow;
mod socket;
mod table;
mod top;

pub(crate) use self::about::About;
pub(crate) use self::client::{AdminCommand, RunningHost, describe, plugins, run, served_kinds};
pub(crate) use self::dashboard::InProcess;
pub(crate) use self::server::{Host, serve};
pub(crate) use self::socket::of_process as socket_of;
