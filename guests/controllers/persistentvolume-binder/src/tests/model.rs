//! Any interleaving of claims, volumes, classes, old caches, two processes and crashes at any write: no volume is bound to
//! two claims, no data is destroyed that a claim may need, and in the end everything is as a slow and obvious model says.

mod expected;
mod process;
mod world;

use flyball_sdk::prelude::*;
use world::World;

use super::world::PVC;

/// Random histories.
const HISTORIES: u64 = 120;
/// The actions of each history.
const ACTIONS: usize = 150;

#[test]
fn no_history_binds_a_volume_twice_or_loses_one() {
    let mut seen = Seen::default();
    for seed in 1..=HISTORIES {
        let world = World::new(seed);
        for _ in 0..ACTIONS {
            world.act();
            world.check_always();
        }
        world.settle();
        let faults = expected::faults(&world.server);
        assert!(
            faults.is_empty(),
            "history {seed}: {faults:#?}\n{}",
            world.told()
        );
        seen.add(&world);
    }
    seen.check();
}

/// The numbers of things that happened in all histories together.
#[derive(Debug, Default)]
struct Seen {
    bound: usize,
    provisioned: usize,
    deleted: usize,
    recycled: usize,
    deaths: usize,
    refused: usize,
}

impl Seen {
    fn add(&mut self, world: &World) {
        let told = world.told();
        let count = |what: &str| told.matches(what).count();
        let claims = world.server.objects(PVC);
        let is_bound = |claim: &&Value| claim["status"]["phase"] == "Bound";
        self.bound += claims.iter().filter(is_bound).count();
        self.provisioned += count("create v1/PersistentVolume /");
        self.deleted += count("delete v1/PersistentVolume /");
        self.recycled += count("frees v1/PersistentVolume /");
        self.deaths += count("dies");
        self.refused += count("409 Conflict");
    }

    /// Checks that each thing happened often enough to be tested.
    fn check(&self) {
        let Self {
            bound,
            provisioned,
            deleted,
            recycled,
            deaths,
            refused,
        } = *self;
        let least = [bound, provisioned, deleted, recycled, deaths, refused];
        assert!(least.iter().all(|count| *count > 40), "{self:?}");
    }
}
