//! Who is in a view, told as what differs from one that the receiver knows: a thousand members hardly change when one of them goes.

use serde::{Deserialize, Serialize};

use crate::rounds::{Capacity, Incarnation, ViewNumber};

/// The members of a view with what they can take, for one that knows another view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crew {
    /// The view that is known; 0 for that of nobody, which everybody knows.
    pub base: ViewNumber,
    /// How many there are.
    pub length: usize,
    /// Who stands where somebody else, or nobody, stood before.
    pub places: Vec<(usize, Incarnation, Capacity)>,
}

/// A view, with its members in order and what they can take.
pub(crate) type Known<'a> = (ViewNumber, &'a [Incarnation], &'a [Capacity]);

impl Crew {
    /// Members and what they can take, for one that knows the members of another view.
    pub(crate) fn change(
        (base, before): (ViewNumber, &[Incarnation]),
        members: &[Incarnation],
        crew: &[Capacity],
    ) -> Self {
        let crew = members.iter().zip(crew).enumerate();
        // What an incarnation can take never changes.
        let changed = crew.filter(|(place, (member, _))| before.get(*place) != Some(member));
        let places = changed.map(|(place, (member, capacity))| (place, *member, capacity.clone())).collect();
        Self { base, length: members.len(), places }
    }

    /// All members and what they can take; none if another view is known than this was told for, or it makes no sense.
    pub(crate) fn resolve(&self, known: Option<Known>) -> Option<(Vec<Incarnation>, Vec<Capacity>)> {
        let (_, members, crew) =
            known.filter(|(view, ..)| *view == self.base).or((self.base == 0).then_some((0, &[], &[])))?;
        // Whoever is new is named: no length is believed without that.
        if self.length > members.len() + self.places.len() {
            return None;
        }
        let mut crew: Vec<_> = members.iter().copied().zip(crew.iter().cloned()).map(Some).collect();
        crew.resize(self.length, None);
        for (place, member, capacity) in &self.places {
            *crew.get_mut(*place)? = Some((*member, capacity.clone()));
        }
        crew.into_iter().collect::<Option<Vec<_>>>().map(|crew| crew.into_iter().unzip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slots: &[u32]) -> Vec<Capacity> {
        slots.iter().copied().map(Capacity::of).collect()
    }

    #[test]
    fn members_are_found_again_from_what_has_changed() {
        let known = of(&[1, 2, 1, 3]);
        let before: (&[Incarnation], &[Capacity]) = (&[1, 2, 3, 4], &known);
        let views: [(&[Incarnation], &[u32], usize); 4] = [
            (&[1, 4, 3], &[1, 3, 1], 1),
            (&[1, 2, 3, 4, 9], &[1, 2, 1, 3, 7], 1),
            (&[1, 2, 3, 4], &[1, 2, 1, 3], 0),
            (&[8], &[2], 1),
        ];
        for (members, slots, told) in views {
            let slots = of(slots);
            let crew = Crew::change((5, before.0), members, &slots);
            assert_eq!(crew.places.len(), told);
            let known = Some((5, before.0, before.1));
            assert_eq!(crew.resolve(known), Some((members.to_vec(), slots.clone())));
            assert_eq!(crew.resolve(Some((4, before.0, before.1))), None, "that is another view");
            assert_eq!(crew.resolve(None), None);
            let whole = Crew::change((0, &[]), members, &slots);
            assert_eq!(whole.resolve(None), whole.resolve(known), "all are named");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_room_is_made_for_it() {
        let capacities = of(&[1, 1]);
        let known = Some((5, &[1, 2][..], &capacities[..]));
        let crew = |length, places: &[(usize, Incarnation)]| {
            let places = places.iter().map(|(place, member)| (*place, *member, Capacity::of(1))).collect();
            Crew { base: 5, length, places }
        };
        assert_eq!(crew(usize::MAX, &[]).resolve(known), None);
        assert_eq!(crew(3, &[(0, 7)]).resolve(known), None, "nobody stands in the last place");
        assert_eq!(crew(2, &[(2, 7)]).resolve(known), None, "there is no such place");
    }
}
