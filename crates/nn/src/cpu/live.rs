//! Which steps of packed strips matter: where all rows of a strip are zero, nothing would be added.
//!
//! Pictures with an even ground and units that never fire have many such steps: of a first layer on MNIST about
//! half. A product of zero is left out whatever it is multiplied with, so a weight that is not finite shows where
//! its input is not zero.

#![expect(unsafe_code, reason = "work that runs with the instructions of the machine is called unsafely")]

use super::dispatch::{Instructions, Work};
use super::product::{ROWS, STEPS};
use super::vector::Vector;

/// Rows of the narrowest strip.
const NARROWEST: usize = 2;
/// A list costs a little; it is used from this share of steps that can be left out: one of so many.
const WORTH: usize = 8;

/// The live steps of each strip of a block.
pub(super) struct LiveSteps {
    counts: [u16; ROWS / NARROWEST],
    steps: [[u16; STEPS]; ROWS / NARROWEST],
}

impl LiveSteps {
    pub(super) fn new() -> Self {
        Self { counts: [0; _], steps: [[0; STEPS]; _] }
    }

    /// The steps of a strip that lie there, in the order in which they lie.
    pub(super) fn of(&self, strip: usize) -> &[u16] {
        &self.steps[strip][..usize::from(self.counts[strip])]
    }

    /// Finds the live steps of packed strips. If enough are dead, moves the live ones together and says true.
    pub(super) fn gather(&mut self, instructions: Instructions, rows: usize, steps: usize, strips: &mut [f32]) -> bool {
        let height = instructions.strip().rows;
        let strips = &mut strips[..rows.next_multiple_of(height) * steps];
        assert!(height >= NARROWEST && rows <= ROWS && steps <= STEPS, "a block has so many strips and steps at most");
        instructions.run(Find { live: self, height, steps, strips });
        let (count, all) = (strips.len() / (height * steps), strips.len() / height);
        let live: usize = self.counts[..count].iter().map(|&c| usize::from(c)).sum();
        if (all - live) * WORTH < all {
            return false;
        }
        for (strip, values) in strips.chunks_exact_mut(height * steps).enumerate() {
            for (to, &from) in self.of(strip).iter().enumerate() {
                let from = usize::from(from);
                values.copy_within(from * height..(from + 1) * height, to * height);
            }
        }
        true
    }
}

struct Find<'a> {
    live: &'a mut LiveSteps,
    height: usize,
    steps: usize,
    strips: &'a [f32],
}

impl Work for Find<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        match self.height {
            8 => self.find::<8>(),
            4 => self.find::<4>(),
            NARROWEST => self.find::<NARROWEST>(),
            _ => unreachable!("strips have these heights"),
        }
    }
}

impl Find<'_> {
    #[inline(always)]
    fn find<const HEIGHT: usize>(self) {
        for (strip, values) in self.strips.chunks_exact(HEIGHT * self.steps).enumerate() {
            let (list, mut count) = (&mut self.live.steps[strip], 0);
            for (step, column) in values.as_chunks::<HEIGHT>().0.iter().enumerate() {
                // Without a branch: where the live ones lie is as random as the pictures are.
                list[count] = step as u16;
                count += usize::from(column.iter().fold(0, |bits, value| bits | (value.to_bits() << 1)) != 0);
            }
            self.live.counts[strip] = count as u16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_steps_are_moved_together_and_named() {
        let instructions = Instructions::detect();
        let (height, steps) = (instructions.strip().rows, 20);
        let mut strips = vec![0.0; 2 * height * steps];
        for (strip, step, row) in [(0, 3, 0), (0, 19, height - 1), (1, 0, 1)] {
            strips[(strip * steps + step) * height + row] = (step + 1) as f32;
        }
        strips[5 * height] = -0.0;
        let mut live = LiveSteps::new();
        assert!(live.gather(instructions, 2 * height, steps, &mut strips), "nearly all are dead");
        assert_eq!((live.of(0), live.of(1)), (&[3, 19][..], &[0][..]));
        assert_eq!((strips[0], strips[2 * height - 1], strips[height * steps + 1]), (4.0, 20.0, 1.0));
    }

    #[test]
    fn few_dead_steps_are_not_worth_a_list() {
        let instructions = Instructions::detect();
        let (height, steps) = (instructions.strip().rows, 17);
        let mut strips = vec![1.0; height * steps];
        strips[..2 * height].fill(0.0);
        let before = strips.clone();
        assert!(!LiveSteps::new().gather(instructions, height, steps, &mut strips), "2 of 17 are less than an eighth");
        assert_eq!(strips, before, "what lies there stays");
    }
}
