//! Replays what a real run recorded: the same events must give the same actions, and the invariants hold for it too.

use std::io::BufRead;

use paceline_exchange::rounds::{MasterAction, MasterEvent, MemberAction, MemberEvent, Now, Told};
use paceline_exchange::{MasterRules, MemberRules};
use serde::Deserialize;

use crate::invariants::Watch;

/// What a record was found to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Masters and incarnations.
    pub machines: usize,
    /// Events that gave the same actions again.
    pub events: usize,
    /// Rounds that a master counted.
    pub counted: u64,
}

/// The line that a record, or an incarnation in it, begins with.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Begins {
    Master(Box<MasterRules>),
    Member(Box<MemberRules>),
}

/// Every other line.
#[derive(Deserialize)]
struct Noted<E, A> {
    now: Now,
    event: E,
    actions: Vec<A>,
}

enum Machine {
    None,
    Master(Box<MasterRules>, Box<Watch>),
    Member(Box<MemberRules>),
}

/// Replays a record.
pub fn replay(record: impl BufRead) -> Result<Replayed, String> {
    let (mut machine, mut found) = (Machine::None, Replayed::default());
    for (number, line) in record.lines().enumerate() {
        let wrong = |what: String| format!("line {}: {what}", number + 1);
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let unread = |error: serde_json::Error| wrong(format!("expected an event: {error}"));
        match serde_json::from_str(&line) {
            Ok(Begins::Master(master)) => {
                found.machines += 1;
                let is_sharing = matches!(*master, MasterRules::Sharing(_));
                let watch = Watch::new(master.rest(), master.counted(), is_sharing);
                machine = Machine::Master(master, Box::new(watch));
                continue;
            }
            Ok(Begins::Member(member)) => {
                found.machines += 1;
                machine = Machine::Member(member);
                continue;
            }
            Err(_) => {}
        }
        match &mut machine {
            Machine::Master(master, watch) => {
                let noted: Noted<MasterEvent, MasterAction> = serde_json::from_str(&line).map_err(unread)?;
                let again = master.handle(noted.event, noted.now);
                if again != noted.actions {
                    return Err(wrong(format!("expected {:?}, found {again:?}", noted.actions)));
                }
                for action in &again {
                    found.counted +=
                        u64::from(matches!(action, MasterAction::Tell(Told::Counted { .. } | Told::Shared { .. })));
                    look(watch, noted.now, action);
                }
                if let Some(violation) = &watch.violation {
                    return Err(wrong(violation.clone()));
                }
            }
            Machine::Member(member) => {
                let noted: Noted<MemberEvent, MemberAction> = serde_json::from_str(&line).map_err(unread)?;
                let again = member.handle(noted.event, noted.now);
                if again != noted.actions {
                    return Err(wrong(format!("expected {:?}, found {again:?}", noted.actions)));
                }
            }
            Machine::None => return Err(wrong("expected where the record begins: `master` or `member`".into())),
        }
        found.events += 1;
    }
    Ok(found)
}

/// What the simulator watches in its own histories.
fn look(watch: &mut Watch, now: Now, action: &MasterAction) {
    match action {
        MasterAction::Tell(told) => watch.hear(now, told),
        MasterAction::Persist { round, rest } | MasterAction::Keep { round, rest } => {
            watch.all_in_checkpoint(now, *round, rest);
        }
        MasterAction::End(None) => watch.all_once(now),
        _ => {}
    }
}
