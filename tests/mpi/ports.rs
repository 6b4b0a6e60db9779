//! Groups that meet at a port.

use hikyaku::mpi::{
    engine::{Communicator, Port},
    error::{Error, ErrorClass},
};

use super::support::job;

fn port(name: &str) -> Port {
    name.parse().unwrap()
}

/// The ranks of each color stay together.
fn divide(world: &Communicator, color: i32) -> Communicator {
    world.split(Some(color), 0).unwrap().unwrap()
}

fn class(met: Result<Communicator, Error>) -> ErrorClass {
    met.unwrap_err().class()
}

#[test]
fn groups_meet_at_a_port() {
    job(6, |world| {
        let color = world.rank() % 3;
        let side = divide(&world, color);
        // The roots are processes 3, 1 and 5: not the first of their groups, or the first.
        let (root, name) = (i32::from(color != 1), "hikyaku:3:0");
        let mut heard = Vec::new();
        if color == 0 {
            let opened = (world.rank() == 3).then(|| world.engine().open_port());
            assert!(opened.is_none_or(|opened| opened.to_string() == name));
            world.barrier().unwrap();
            // One after the other, in whichever order they come.
            for _ in 0..2 {
                let inter = side.accept(opened, root).unwrap();
                heard.extend(inter.remote_group().unwrap().processes());
                assert_eq!(inter.merge(false).unwrap().size(), 4);
            }
            heard.sort_unstable();
            assert_eq!(heard, [1, 2, 4, 5]);
        } else {
            world.barrier().unwrap();
            let inter = side.connect((side.rank() == root).then(|| port(name)), root).unwrap();
            assert!(inter.remote_group().unwrap().processes().eq([0, 3]));
            let merged = inter.merge(true).unwrap();
            assert_eq!((merged.size(), merged.rank()), (4, side.rank() + 2));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn there_is_no_meeting_at_what_is_no_port() {
    job(3, |world| {
        let side = divide(&world, i32::from(world.rank() == 0));
        // At the root the port is wrong; the others learn that there is none.
        let expected = match side.rank() {
            0 => ErrorClass::Port,
            _ => ErrorClass::Group,
        };
        let own = world.engine().open_port();
        let foreign = port("hikyaku:1:0");
        assert_eq!(class(side.accept(None, 0)), expected);
        assert_eq!(class(side.connect(None, 0)), expected);
        assert_eq!(class(side.connect(Some(own), 0)), expected, "a port of its own");
        assert_eq!(
            class(side.connect(Some(port("hikyaku:77:0")), 0)),
            expected,
            "no process"
        );
        if world.rank() == 0 {
            assert_eq!(class(side.accept(Some(foreign), 0)), expected, "another one's port");
        }
        assert_eq!(class(side.accept(Some(own), 9)), ErrorClass::Rank);
        world.barrier().unwrap();
    });
}
