//! Prints the deltas of a kind from the cluster of the current kubeconfig:
//! `cargo run --release -p flyball-cache --example tail v1/ConfigMap`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_cache::connection::connect;
use flyball_cache::{Discovery, InformerFactory, Interest, KubeSource, Scope};
use flyball_types::Mask;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kind = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "v1/ConfigMap".into())
        .parse()?;
    let source = Arc::new(KubeSource::new(connect(&kube::Config::infer().await?)?));
    let discovery = Discovery::new(source.clone());
    let resource = discovery.resolve(&kind).await?;
    let catalogue = discovery.catalogue(Duration::MAX).await?;
    println!(
        "{} kinds, unavailable: {:?}",
        catalogue.resources.len(),
        catalogue.failed
    );
    let factory = InformerFactory::new(source);
    let informer = factory.informer(Interest {
        resource,
        scope: Scope::all(),
        metadata_only: false,
        mask: Mask::metadata().clone(),
        indexes: Vec::new(),
        selectors: Vec::new(),
    });
    let mut deltas = informer.subscribe();
    factory.start();
    let began = Instant::now();
    informer.synced().await;
    println!("synced in {:?} at {}", began.elapsed(), informer.position());
    let began = Instant::now();
    let fresh = informer.fresh_position().await?;
    informer.wait_until(fresh).await;
    println!("caught up with {fresh} in {:?}", began.elapsed());
    while let Some(batch) = tokio::select! {
        batch = deltas.next(100) => batch,
        result = tokio::signal::ctrl_c() => { result?; None }
    } {
        for delta in batch.deltas {
            println!(
                "{:?} {:?} at {:?}",
                delta.delta_type(),
                delta.object(),
                began.elapsed()
            );
        }
    }
    factory.shutdown().await;
    println!("{:?}", informer.status());
    Ok(())
}
