//! Runs the sample cloud: `flyball-sample-cloud --listen 127.0.0.1:8090 --state cloud.json`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use flyball_sample_cloud::Server;

/// Runs the sample cloud until it is interrupted.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: String,
    /// File with the state, which survives a restart; without it, the cloud begins empty
    #[arg(long)]
    state: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Arguments { listen, state } = Arguments::parse();
    let server = Server::start(&listen, state).await?;
    println!("the sample cloud is at {}", server.url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
