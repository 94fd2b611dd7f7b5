//! Who is in a view, told as what differs from one that the receiver knows: a thousand members hardly change when one of them goes.

use serde::{Deserialize, Serialize};

use crate::rounds::{Incarnation, Slots, ViewNumber};

/// The members of a view with their slots, for one that knows another view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crew {
    /// The view that is known; 0 for that of nobody, which everybody knows.
    pub base: ViewNumber,
    /// How many there are.
    pub length: usize,
    /// Who stands where somebody else, or nobody, stood before.
    pub places: Vec<(usize, Incarnation, Slots)>,
}

/// A view, with its members in order and their slots.
pub(crate) type Known<'a> = (ViewNumber, &'a [Incarnation], &'a [Slots]);

impl Crew {
    /// Members and their slots, for one that knows the members of another view.
    pub(crate) fn change(
        (base, before): (ViewNumber, &[Incarnation]),
        members: &[Incarnation],
        slots: &[Slots],
    ) -> Self {
        let crew = members.iter().zip(slots).enumerate();
        // The slots of an incarnation never change.
        let changed = crew.filter(|(place, (member, _))| before.get(*place) != Some(member));
        let places = changed.map(|(place, (member, slots))| (place, *member, *slots)).collect();
        Self { base, length: members.len(), places }
    }

    /// All members and their slots; none if another view is known than this was told for, or it makes no sense.
    pub(crate) fn resolve(&self, known: Option<Known>) -> Option<(Vec<Incarnation>, Vec<Slots>)> {
        let (_, members, slots) =
            known.filter(|(view, ..)| *view == self.base).or((self.base == 0).then_some((0, &[], &[])))?;
        // Whoever is new is named: no length is believed without that.
        if self.length > members.len() + self.places.len() {
            return None;
        }
        let mut crew: Vec<_> = members.iter().copied().zip(slots.iter().copied()).map(Some).collect();
        crew.resize(self.length, None);
        for (place, member, slots) in &self.places {
            *crew.get_mut(*place)? = Some((*member, *slots));
        }
        crew.into_iter().collect::<Option<Vec<_>>>().map(|crew| crew.into_iter().unzip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_again_from_what_has_changed() {
        let before: (&[Incarnation], &[Slots]) = (&[1, 2, 3, 4], &[1, 2, 1, 3]);
        let views: [(&[Incarnation], &[Slots], usize); 4] = [
            (&[1, 4, 3], &[1, 3, 1], 1),
            (&[1, 2, 3, 4, 9], &[1, 2, 1, 3, 7], 1),
            (&[1, 2, 3, 4], &[1, 2, 1, 3], 0),
            (&[8], &[2], 1),
        ];
        for (members, slots, told) in views {
            let crew = Crew::change((5, before.0), members, slots);
            assert_eq!(crew.places.len(), told);
            let known = Some((5, before.0, before.1));
            assert_eq!(crew.resolve(known), Some((members.to_vec(), slots.to_vec())));
            assert_eq!(crew.resolve(Some((4, before.0, before.1))), None, "that is another view");
            assert_eq!(crew.resolve(None), None);
            let whole = Crew::change((0, &[]), members, slots);
            assert_eq!(whole.resolve(None), whole.resolve(known), "all are named");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_room_is_made_for_it() {
        let known = Some((5, &[1, 2][..], &[1, 1][..]));
        let crew = |length, places: &[_]| Crew { base: 5, length, places: places.to_vec() };
        assert_eq!(crew(usize::MAX, &[]).resolve(known), None);
        assert_eq!(crew(3, &[(0, 7, 1)]).resolve(known), None, "nobody stands in the last place");
        assert_eq!(crew(2, &[(2, 7, 1)]).resolve(known), None, "there is no such place");
    }
}
