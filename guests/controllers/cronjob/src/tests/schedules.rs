//! Schedules against `testdata/schedules.tsv`, which `testdata/robfig` has written.

use flyball_sdk::Time;

use crate::parse::{ParseError, parse};
use crate::schedule::Schedule;
use crate::zone::{Zone, Zones};

const TABLE: &str = include_str!("../../testdata/schedules.tsv");

fn zone(name: &str) -> Zone {
    Zones::default().load(name).unwrap()
}

fn schedule(text: &str, zone_name: &str) -> Schedule {
    parse(text, &Zones::of_local(zone(zone_name))).unwrap()
}

#[test]
fn every_schedule_of_the_table_has_the_times_and_the_errors_of_the_library() {
    let mut wrong = Vec::new();
    for line in TABLE.lines() {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap();
        let (kind, text) = (next(), next().replace("\\t", "\t").replace("\\n", "\n"));
        if kind == "error" {
            let expected = Err(ParseError(next().to_owned()));
            if parse(&text, &Zones::default()) != expected {
                wrong.push(format!("{line}: {:?}", parse(&text, &Zones::default())));
            }
            continue;
        }
        let parsed = schedule(&text, next());
        let mut at = Time::of_seconds(next().parse().unwrap());
        for expected in columns {
            let found = parsed.next(at);
            let is_right = match expected {
                "hangs" => found.is_none_or(|found| found > at),
                "none" => found.is_none(),
                time => found.is_some_and(|found| found.seconds.to_string() == time),
            };
            if !is_right {
                wrong.push(format!(
                    "{line}: {found:?} after {at} instead of {expected}"
                ));
                break;
            }
            at = found.unwrap_or(at);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
