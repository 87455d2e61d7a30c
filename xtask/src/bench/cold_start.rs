//! How long a command takes to start and end inside: nothing, bare namespaces, bubblewrap, Ringfence.

use anyhow::Result;

use super::goals::{Figure, Goal};
use super::measure::{self, Rounds};
use super::place::{BARE, BWRAP, FULL, OFF, Place, UNSHARE, WRITES, Who};
use super::render::{self, Found, Group};
use super::{Amount, Programs};

const WAYS: &[&str] = &[BARE, UNSHARE, BWRAP, OFF, WRITES, FULL];

/// What is started, and what is aimed at.
const COMMANDS: &[(&[&str], &str, f64, f64)] =
    &[(&["true"], "G1", 0.85, 0.75), (&["bash", "-c", "echo hi"], "G2", 0.95, 0.82)];

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 3, measured: 40, budget: std::time::Duration::from_secs(5) },
        Amount::Full => Rounds { warm_up: 10, measured: 300, budget: std::time::Duration::from_secs(45) },
    };
    let mut groups = Vec::new();
    for who in Who::all()? {
        let place = Place::new(&programs.ringfence)?;
        if *who == Who::Ordinary {
            place.hand_over()?;
        }
        for (command, goal, most, limit) in COMMANDS {
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
                limit: Some(*limit),
            };
            let not_slower = Goal { name: "not slower", most: 1.0, limit: None, ..median.clone() };
            let tail = Goal { figure: Figure::P99, most: 1.3, limit: None, ..median.clone() };
            groups.push(Group { title, baseline: BWRAP, taken, goals: vec![not_slower, median, tail] });
        }
    }
    Ok(render::groups(&groups))
}
