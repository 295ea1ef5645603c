//! Serves the cluster in memory of the SDK for Rust to the tests of the other SDKs, so that there is one API server in
//! memory for all languages. `flyball test-server` runs it as a child process of the tests.
//!
//! The protocol, which `docs/test-server.md` describes for authors of SDKs: each line of the input is a call, each line
//! of the output its reply, both in JSON (`protocol`). `server` keeps the clusters and runs the calls (`calls`).
//! `documents` has the parts of calls and results, `records` what clusters have recorded, and `manifests` reads objects
//! from YAML. `recordings` opens recorded calls in place of clusters.
//!
//! `api` serves a cluster as an API server over HTTP, for `flyball test`: a host watches and writes its objects while it
//! runs a built plugin.

pub mod api;
mod calls;
mod documents;
pub mod manifests;
mod protocol;
mod recordings;
mod records;
mod result;
mod server;

use std::io::{self, BufRead, Write};

use server::Server;

/// Serves calls until the input ends.
///
/// # Errors
/// The input can't be read, or the output not be written.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut server = Server::default();
    for line in input.lines() {
        let mut reply = serde_json::to_vec(&server.reply(&line?))?;
        reply.push(b'\n');
        output.write_all(&reply)?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
