//! Who is linked with whom in a view: everybody with everybody while they are few, otherwise the places of a tree.
//!
//! ```text
//! place of a member in the order of its view        0
//!                                                 /   \
//!                                                1     2
//!                                               / \   / \
//!                                              3   4 5   6 …
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::rounds::Incarnation;

/// Up to so many members are all linked with each other, where nobody says otherwise.
pub const MESH_LIMIT: usize = 16;

/// Places directly below one of the tree: few, because whoever is there sends everything to each of them.
const FAN_OUT: usize = 2;

fn parent(place: usize) -> Option<usize> {
    place.checked_sub(1).map(|before| before / FAN_OUT)
}

fn children(place: usize, count: usize) -> Range<usize> {
    let first = place * FAN_OUT + 1;
    first.min(count)..(first + FAN_OUT).min(count)
}

/// Levels below a place.
fn height(place: usize, count: usize) -> u64 {
    // The first child's side is never the lower one.
    children(place, count).next().map_or(0, |child| 1 + height(child, count))
}

/// The places that one is linked with.
pub(crate) fn neighbours(place: usize, count: usize, mesh_limit: usize) -> Vec<usize> {
    match count <= mesh_limit {
        true => (0..count).filter(|other| *other != place).collect(),
        false => parent(place).into_iter().chain(children(place, count)).collect(),
    }
}

/// How contributions become one sum, as one member sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Paths {
    /// Each member sums a part of all contributions, and sends the sum to all.
    Mesh {
        /// Who is there, in the order in which they are summed.
        members: Vec<Incarnation>,
        /// Where this one is among them.
        place: usize,
    },
    /// What was summed below goes up, and the whole comes down.
    Tree {
        /// This one.
        me: Incarnation,
        /// The one above; none for the root, which has the whole sum.
        parent: Option<Incarnation>,
        /// Those directly below.
        children: Vec<Incarnation>,
        /// Levels below.
        height: u64,
    },
}

impl Paths {
    /// Those of a member of a view.
    pub(crate) fn of(members: &[Incarnation], me: Incarnation, mesh_limit: usize) -> Option<Self> {
        let place = members.iter().position(|member| *member == me)?;
        let count = members.len();
        if count <= mesh_limit {
            return Some(Self::Mesh { members: members.to_vec(), place });
        }
        Some(Self::Tree {
            me,
            parent: parent(place).map(|place| members[place]),
            children: members[children(place, count)].to_vec(),
            height: height(place, count),
        })
    }

    /// Parts that the numbers are cut into, and which of them is summed here.
    pub fn part(&self) -> (usize, usize) {
        match self {
            Self::Mesh { members, place } => (*place, members.len()),
            Self::Tree { .. } => (0, 1),
        }
    }

    /// Whose contributions are summed here, in this order. In a tree those of the children have in them what is below.
    pub fn sources(&self) -> Vec<Incarnation> {
        match self {
            Self::Mesh { members, .. } => members.clone(),
            Self::Tree { me, children, .. } => [&[*me], &children[..]].concat(),
        }
    }

    /// Who sends sums that make up the whole.
    pub fn summers(&self) -> Vec<Incarnation> {
        match self {
            Self::Mesh { members, .. } => members.clone(),
            Self::Tree { me, parent, .. } => vec![parent.unwrap_or(*me)],
        }
    }

    /// Who is sent the sum, or all of it.
    pub fn receivers(&self) -> Vec<Incarnation> {
        match self {
            Self::Mesh { members, place } => [&members[..*place], &members[place + 1..]].concat(),
            Self::Tree { children, .. } => children.clone(),
        }
    }

    /// The one above in a tree, which is given what was summed here.
    pub fn parent(&self) -> Option<Incarnation> {
        match self {
            Self::Mesh { .. } => None,
            Self::Tree { parent, .. } => *parent,
        }
    }

    /// Whether there are too many members to be all linked with each other.
    pub fn is_tree(&self) -> bool {
        matches!(self, Self::Tree { .. })
    }

    /// Levels below this one.
    pub(crate) fn height(&self) -> u64 {
        match self {
            Self::Mesh { .. } => 0,
            Self::Tree { height, .. } => *height,
        }
    }
}

/// Who gives a member the state: not the same one to all. In a tree it is the one above, which may have to get it first.
pub(crate) fn donors_of(
    members: &[Incarnation],
    place: usize,
    holders: &BTreeSet<Incarnation>,
    mesh_limit: usize,
) -> Vec<Incarnation> {
    if members.len() > mesh_limit {
        return parent(place).map(|place| members[place]).into_iter().collect();
    }
    let mut holders: Vec<Incarnation> = holders.iter().copied().collect();
    let first = place % holders.len().max(1);
    holders.rotate_left(first);
    holders
}

/// All whose contributions are in that of a member: in a tree, those below it.
pub(crate) fn with_those_below(members: &[Incarnation], member: Incarnation, mesh_limit: usize) -> Vec<Incarnation> {
    let place = members.iter().position(|other| *other == member);
    let Some(place) = place.filter(|_| members.len() > mesh_limit) else { return vec![member] };
    let mut places = vec![place];
    let mut at = 0;
    while let Some(place) = places.get(at) {
        places.extend(children(*place, members.len()));
        at += 1;
    }
    places.into_iter().map(|place| members[place]).collect()
}

/// The order of a view that is a tree. Who was there keeps its place, and so its links: whoever is last takes the place of one that
/// is gone. Those who hold the state are above those who do not, so that everybody gets it from the one above. Pairs that do not
/// reach each other are kept apart where that is possible.
pub(crate) fn arrange(
    before: &[Incarnation],
    present: &[Incarnation],
    holders: &BTreeSet<Incarnation>,
    are_apart: impl Fn(Incarnation, Incarnation) -> bool,
) -> Vec<Incarnation> {
    let is_present: BTreeSet<Incarnation> = present.iter().copied().collect();
    let was_there: BTreeSet<Incarnation> = before.iter().copied().collect();
    let mut order = before.to_vec();
    let mut place = 0;
    while place < order.len() {
        match is_present.contains(&order[place]) {
            true => place += 1,
            false => drop(order.swap_remove(place)),
        }
    }
    order.extend(present.iter().copied().filter(|member| !was_there.contains(member)));
    put_holders_first(&mut order, holders);
    for place in 1..order.len() {
        let is_bad = |order: &[Incarnation], place: usize| {
            let neighbours = neighbours(place, order.len(), 0);
            neighbours.into_iter().any(|other| are_apart(order[place], order[other]))
        };
        if !parent(place).is_some_and(|above| are_apart(order[place], order[above])) {
            continue;
        }
        let is_holder = holders.contains(&order[place]);
        let others = (1..order.len()).filter(|other| *other != place);
        for other in others.filter(|other| holders.contains(&order[*other]) == is_holder).collect::<Vec<_>>() {
            order.swap(place, other);
            if !is_bad(&order, place) && !is_bad(&order, other) {
                break;
            }
            order.swap(place, other);
        }
    }
    order
}

fn put_holders_first(order: &mut [Incarnation], holders: &BTreeSet<Incarnation>) {
    let (mut front, mut back) = (0, order.len());
    while front < back {
        if holders.contains(&order[front]) {
            front += 1;
        } else if holders.contains(&order[back - 1]) {
            order.swap(front, back - 1);
        } else {
            back -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_in_a_tree_is_reached_over_few_links() {
        for count in [17, 64, 100, 1000] {
            let members: Vec<Incarnation> = (1..=count).collect();
            let mut below = BTreeSet::new();
            for me in &members {
                let paths = Paths::of(&members, *me, MESH_LIMIT).expect("a member");
                let place = (*me - 1) as usize;
                assert!(neighbours(place, members.len(), MESH_LIMIT).len() <= FAN_OUT + 1);
                assert_eq!(paths.parent().is_none(), *me == 1);
                for child in paths.receivers() {
                    assert!(below.insert(child), "one parent each");
                    assert_eq!(Paths::of(&members, child, MESH_LIMIT).and_then(|paths| paths.parent()), Some(*me));
                }
            }
            assert_eq!(below.len() as u64, count - 1);
            assert!(height(0, members.len()) <= u64::from(count.ilog2()));
            assert_eq!(with_those_below(&members, 1, MESH_LIMIT).len() as u64, count);
            assert_eq!(with_those_below(&members, 2, MESH_LIMIT)[..3], [2, 4, 5]);
        }
    }

    #[test]
    fn few_are_all_linked_and_each_sums_a_part() {
        let paths = Paths::of(&[4, 5, 6], 5, 16).expect("a member");
        assert_eq!((paths.part(), paths.sources(), paths.summers()), ((1, 3), vec![4, 5, 6], vec![4, 5, 6]));
        assert_eq!((paths.receivers(), paths.parent(), paths.height()), (vec![4, 6], None, 0));
        assert_eq!(with_those_below(&[4, 5, 6], 4, 16), [4]);
        assert_eq!(Paths::of(&[4, 5], 7, 16), None);
    }

    #[test]
    fn who_stays_keeps_its_place_and_holders_are_above_the_others() {
        let all = |members: &[Incarnation]| members.iter().copied().collect::<BTreeSet<_>>();
        let together = |_, _| false;
        let before: Vec<Incarnation> = (1..=7).collect();
        let present = [1, 3, 4, 5, 6, 7, 9];
        assert_eq!(arrange(&before, &present, &all(&present), together), [1, 7, 3, 4, 5, 6, 9]);
        assert_eq!(arrange(&before, &[9, 10], &all(&[]), together), [9, 10]);
        assert_eq!(arrange(&[1, 2, 3], &[1, 2, 3, 4], &all(&[2, 3, 4]), together), [4, 2, 3, 1]);
    }

    #[test]
    fn a_tree_heals_around_links_that_are_broken() {
        let members: Vec<Incarnation> = (1..=20).collect();
        let holders = members.iter().copied().collect();
        let apart = [(1, 2), (3, 7), (2, 5)];
        let are_apart = |a: Incarnation, b: Incarnation| apart.contains(&(a.min(b), a.max(b)));
        let order = arrange(&members, &members, &holders, are_apart);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, members);
        for place in 1..order.len() {
            let above = parent(place).expect("not the root");
            assert!(!are_apart(order[place], order[above]), "{order:?}");
        }
        assert_eq!(arrange(&[1, 2], &[1, 2], &holders, |_, _| true), [1, 2], "the master carries what they say");
    }
}
