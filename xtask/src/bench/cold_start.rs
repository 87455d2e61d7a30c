//! How long a command takes to start and end inside: nothing, bare namespaces, bubblewrap, the limit, Ringfence.

use anyhow::Result;

use super::goals::{Figure, Goal};
use super::measure::{self, Rounds};
use super::place::{BARE, BWRAP, FULL, LIMIT, OFF, Place, UNSHARE, WRITES, Who};
use super::render::{self, Found, Group};
use super::{Amount, Programs};

const WAYS: &[&str] = &[BARE, UNSHARE, BWRAP, LIMIT, OFF, WRITES, FULL];

/// What is started, and what is aimed at: of bubblewrap's time, and of the limit's.
const COMMANDS: &[(&[&str], &str, f64, Option<f64>)] =
    &[(&["true"], "G1", 0.85, Some(1.15)), (&["bash", "-c", "echo hi"], "G2", 0.95, None)];

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 3, measured: 40, budget: std::time::Duration::from_secs(5) },
        Amount::Full => Rounds { warm_up: 10, measured: 300, budget: std::time::Duration::from_secs(45) },
    };
    let mut groups = Vec::new();
    for who in Who::all()? {
        let place = Place::new(programs)?;
        if *who == Who::Ordinary {
            place.hand_over()?;
        }
        for (command, goal, most, to_limit) in COMMANDS {
            let title = format!("`{}` {}", command.join(" "), who.name()?);
            println!("measuring {title}");
            let rows = place.rows(WAYS, command);
            let taken = match who {
                Who::Caller => measure::measure(&rows, rounds),
                Who::Ordinary => measure::measure_unprivileged(&rows, rounds, place.directory())?,
            };
            let median = Goal {
                name: goal,
                row: FULL,
                baseline: BWRAP,
                figure: Figure::Median,
                most: *most,
                limit: Some(LIMIT),
            };
            let not_slower = Goal { name: "not slower", most: 1.0, limit: None, ..median.clone() };
            let tail = Goal { figure: Figure::P99, most: 1.3, limit: None, ..median.clone() };
            let near = to_limit.map(|most| Goal { baseline: LIMIT, most, limit: None, ..median.clone() });
            let goals = [not_slower, median, tail].into_iter().chain(near).collect();
            groups.push(Group { title, baseline: BWRAP, taken, goals });
        }
    }
    Ok(render::groups(&groups))
}
