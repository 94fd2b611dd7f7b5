//! Images flipped, turned, shifted and cut by chance: every pixel that comes out is looked for where it was. Nothing but the cut is done
//! when predicting, and that in the middle.

use crate::Real;
use crate::node::Augmentation;
use crate::pass::{Backward, Draw, Forward};
use crate::random::Counted;

/// What is done to one image.
struct Way {
    flips: [bool; 2],
    /// Cosine and sine, if it is turned.
    turn: Option<[f64; 2]>,
    shift: [isize; 2],
    /// The first pixel that is cut out.
    first: [usize; 2],
}

/// One of the numbers from 0 to `most`.
fn one_of(stream: Counted, element: u32, most: usize) -> usize {
    ((f64::from(stream.uniform(element)) * (most as f64 + 1.0)) as usize).min(most)
}

impl Augmentation {
    fn way(&self, draw: Option<(Draw<'_>, usize)>) -> Way {
        let left = [self.input[0] - self.size[0], self.input[1] - self.size[1]];
        let Some((draw, row)) = draw else {
            return Way { flips: [false; 2], turn: None, shift: [0; 2], first: left.map(|left| left / 2) };
        };
        let stream = draw.row(row);
        let angle = (2.0 * f64::from(stream.uniform(2)) - 1.0) * f64::from(self.rotate).to_radians();
        let shift = |at: usize| one_of(stream, 3 + at as u32, 2 * self.shift[at]) as isize - self.shift[at] as isize;
        Way {
            flips: [0, 1].map(|at| self.flips[at] && stream.uniform(at as u32) < 0.5),
            turn: (self.rotate > 0.0).then(|| [angle.cos(), angle.sin()]),
            shift: [shift(0), shift(1)],
            first: [0, 1].map(|at| one_of(stream, 5 + at as u32, left[at])),
        }
    }

    /// Calls `each` with every pixel that comes out of an image, one that it is made of, and its share.
    fn pixels(&self, way: &Way, mut each: impl FnMut(usize, usize, f64)) {
        let [out_height, out_width] = self.size;
        let [height, width] = [self.input[0] as isize, self.input[1] as isize];
        // Where a pixel of the input lies in memory, if anywhere.
        let place = |y: isize, x: isize| {
            let (y, x) = match self.repeats_edge {
                true => (y.clamp(0, height - 1), x.clamp(0, width - 1)),
                false if (0..height).contains(&y) && (0..width).contains(&x) => (y, x),
                false => return None,
            };
            let y = if way.flips[0] { height - 1 - y } else { y };
            let x = if way.flips[1] { width - 1 - x } else { x };
            Some((y * width + x) as usize)
        };
        let middle = [(height - 1) as f64 / 2.0, (width - 1) as f64 / 2.0];
        for out_y in 0..out_height {
            for out_x in 0..out_width {
                let to = out_y * out_width + out_x;
                let y = (out_y + way.first[0]) as isize - way.shift[0];
                let x = (out_x + way.first[1]) as isize - way.shift[1];
                let Some([cosine, sine]) = way.turn else {
                    if let Some(from) = place(y, x) {
                        each(to, from, 1.0);
                    }
                    continue;
                };
                let (down, right) = (y as f64 - middle[0], x as f64 - middle[1]);
                let (y, x) = (middle[0] + cosine * down - sine * right, middle[1] + sine * down + cosine * right);
                let (top, left) = (y.floor(), x.floor());
                for (dy, of_y) in [(0, 1.0 - (y - top)), (1, y - top)] {
                    for (dx, of_x) in [(0, 1.0 - (x - left)), (1, x - left)] {
                        let share = of_y * of_x;
                        if share > 0.0
                            && let Some(from) = place(top as isize + dy, left as isize + dx)
                        {
                            each(to, from, share);
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn forward<R: Real>(op: &Augmentation, pass: &mut Forward<'_, R>) {
    let channels = op.input[2];
    let (inside, outside) = (op.input.iter().product(), op.size[0] * op.size[1] * channels);
    let images = pass.x.chunks_exact(inside).zip(pass.y.chunks_exact_mut(outside));
    for (row, (x, y)) in images.enumerate() {
        y.fill(R::ZERO);
        op.pixels(&op.way(pass.training.then_some((pass.draw, row))), |to, from, share| {
            let (to, from) = (&mut y[to * channels..(to + 1) * channels], &x[from * channels..(from + 1) * channels]);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += R::of(share) * *from);
        });
    }
}

pub(super) fn backward<R: Real>(op: &Augmentation, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let channels = op.input[2];
    let (inside, outside) = (op.input.iter().product(), op.size[0] * op.size[1] * channels);
    let images = pass.dx.chunks_exact_mut(inside).zip(pass.dy.chunks_exact(outside));
    for (row, (dx, dy)) in images.enumerate() {
        dx.fill(R::ZERO);
        op.pixels(&op.way(Some((pass.draw, row))), |to, from, share| {
            let (to, from) = (&dy[to * channels..(to + 1) * channels], &mut dx[from * channels..(from + 1) * channels]);
            from.iter_mut().zip(to).for_each(|(from, to)| *from += R::of(share) * *to);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use paceline_model::Batch;

    use super::Augmentation;
    use crate::pass::Draw;

    const STILL: Augmentation = Augmentation {
        input: [3, 3, 1],
        size: [3, 3],
        flips: [false; 2],
        rotate: 0.0,
        shift: [0, 0],
        repeats_edge: false,
    };
    const IMAGE: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

    fn changed(op: &Augmentation, draw: Option<(Draw<'_>, usize)>) -> Vec<i64> {
        let mut out = vec![0.0; op.size[0] * op.size[1]];
        op.pixels(&op.way(draw), |to, from, share| out[to] += share * IMAGE[from]);
        out.into_iter().map(|value| value.round() as i64).collect()
    }

    /// All that becomes of the image in 400 epochs.
    fn all_of(op: &Augmentation) -> HashSet<Vec<i64>> {
        let in_epoch = |epoch| {
            let batch = Batch { indices: vec![7, 9], epoch, ..Batch::empty() };
            let draw = Draw::new(3, 0, 0, &batch);
            let seen = changed(op, Some((draw, 1)));
            assert_eq!(seen, changed(op, Some((draw, 1))), "the way back draws the same");
            let alone = Batch { indices: vec![9], epoch, ..Batch::empty() };
            assert_eq!(seen, changed(op, Some((Draw::new(3, 0, 0, &alone), 0))), "whoever is beside it in the batch");
            seen
        };
        (0..400).map(in_epoch).collect()
    }

    fn set<const N: usize>(images: [[i64; 9]; N]) -> HashSet<Vec<i64>> {
        images.into_iter().map(Vec::from).collect()
    }

    #[test]
    fn images_are_flipped_in_the_ways_that_are_asked_for() {
        let [as_it_is, aside, over] =
            [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 2, 1, 6, 5, 4, 9, 8, 7], [7, 8, 9, 4, 5, 6, 1, 2, 3]];
        assert_eq!(all_of(&STILL), set([as_it_is]));
        assert_eq!(all_of(&Augmentation { flips: [false, true], ..STILL }), set([as_it_is, aside]));
        assert_eq!(all_of(&Augmentation { flips: [true, false], ..STILL }), set([as_it_is, over]));
        let both = set([as_it_is, aside, over, [9, 8, 7, 6, 5, 4, 3, 2, 1]]);
        assert_eq!(all_of(&Augmentation { flips: [true, true], ..STILL }), both);
    }

    #[test]
    fn beside_an_image_lies_nothing_or_its_edge() {
        let aside = Augmentation { shift: [0, 1], ..STILL };
        let still = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(all_of(&aside), set([still, [0, 1, 2, 0, 4, 5, 0, 7, 8], [2, 3, 0, 5, 6, 0, 8, 9, 0]]));
        let down = Augmentation { shift: [1, 0], repeats_edge: true, ..STILL };
        assert_eq!(all_of(&down), set([still, [1, 2, 3, 1, 2, 3, 4, 5, 6], [4, 5, 6, 7, 8, 9, 7, 8, 9]]));
    }

    #[test]
    fn parts_are_cut_out_anywhere_and_of_the_middle_when_predicting() {
        let cut = Augmentation { size: [1, 1], ..STILL };
        assert_eq!(all_of(&cut), (1..=9).map(|pixel| vec![pixel]).collect());
        assert_eq!(changed(&cut, None), [5]);
        let all = Augmentation { flips: [true, true], rotate: 90.0, shift: [1, 1], ..STILL };
        assert_eq!(changed(&all, None), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn images_are_turned_about_their_middle() {
        let mut way = STILL.way(None);
        way.turn = Some([0.0, 1.0]);
        let mut out = [0.0; 9];
        STILL.pixels(&way, |to, from, share| out[to] += share * IMAGE[from]);
        assert_eq!(out, [7.0, 4.0, 1.0, 8.0, 5.0, 2.0, 9.0, 6.0, 3.0], "a quarter to the right");
        let turned = all_of(&Augmentation { rotate: 45.0, ..STILL });
        assert!(turned.len() >= 20 && turned.iter().all(|image| image[4] == 5), "{turned:?}");
    }
}
