//! Any interleaving of claims, volumes, classes, old caches, two processes and crashes at any write: no volume is bound to
//! two claims, no data is destroyed that a claim may need, and in the end everything is as a slow and obvious model says.
//!
//! Claims and volumes are deleted and created again under the same names. In a quarter of the histories, each process dies
//! after its first or second write.

mod expected;
mod process;
mod users;
mod watchdog;
mod world;

use std::ops::Range;

use world::World;

use super::world::PVC;

/// Random histories, unless the environment variable `HISTORIES` has another range, such as `7..8`.
const HISTORIES: Range<u64> = 1..201;
/// The actions of each history.
const ACTIONS: usize = 200;

#[test]
fn no_history_binds_a_volume_twice_or_loses_one() {
    let mut seen = Seen::default();
    let histories = chosen().unwrap_or(HISTORIES);
    for seed in histories.clone() {
        let world = World::new(seed);
        for _ in 0..ACTIONS {
            world.act();
            world.watchdog.check_always(&world);
        }
        world.settle();
        let faults = expected::faults(&world);
        assert!(
            faults.is_empty(),
            "history {seed}: {faults:#?}\n{}",
            world.told()
        );
        seen.add(&world);
    }
    if histories == HISTORIES {
        seen.check();
    }
}

fn chosen() -> Option<Range<u64>> {
    let text = std::env::var("HISTORIES").ok()?;
    let (start, end) = text.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

/// The numbers of things that happened in all histories together.
#[derive(Debug, Default)]
struct Seen {
    bound: usize,
    provisioned: usize,
    deleted: usize,
    recycled: usize,
    lost: usize,
    external: usize,
    deaths: usize,
    refused: usize,
}

impl Seen {
    fn add(&mut self, world: &World) {
        let told = world.told();
        let count = |what: &str| told.matches(what).count();
        let claims = world.server.objects(PVC);
        let of = |phase: &str| {
            { claims.iter() }
                .filter(|claim| claim["status"]["phase"] == phase)
                .count()
        };
        self.bound += of("Bound");
        self.lost += of("Lost");
        self.provisioned += count("create v1/PersistentVolume /");
        self.deleted += count("delete v1/PersistentVolume /");
        self.recycled += count("frees v1/PersistentVolume /");
        self.external += count("the provisioner deletes");
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
            lost,
            external,
            deaths,
            refused,
        } = *self;
        let least = [
            bound,
            provisioned,
            deleted,
            recycled,
            lost,
            external,
            deaths,
            refused,
        ];
        assert!(least.iter().all(|count| *count > 10), "{self:?}");
    }
}
