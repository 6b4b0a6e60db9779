//! Messengers whose endpoints are elsewhere: nothing that anybody sees is different.

use std::time::Duration;

use crate::{
    exactly_once::traffic,
    harness::{NodeOptions, Prng, World, note, scenario},
    swarm::{draw_link, draw_options},
};

/// A messenger with its endpoint elsewhere, and a peer that may be of either kind.
#[test]
fn every_message_once_in_order() {
    scenario("delegated::every_message_once_in_order", 24, |seed| {
        let mut rng = Prng::new(seed ^ 0xde1e);
        let mut options = draw_options(&mut rng, false, 1);
        options.config.death_timeout = Duration::from_secs(60);
        options.bare = false;
        note(format!("{options:?}"));
        let mut world = World::new(seed);
        world.network.usual = draw_link(&mut rng, false);
        note(format!("{:?}", world.network.usual));
        world.add(NodeOptions {
            delegated: true,
            ..options.clone()
        });
        world.add(NodeOptions {
            delegated: rng.chance(500),
            ..options
        });
        world.connect(0, 1);
        traffic(&mut world, &mut rng, 300, 30_000);
        world.finish(Duration::from_secs(120));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}
