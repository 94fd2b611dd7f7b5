//! What comes of a part, and how it travels.
//!
//! ```text
//! numbers beside an answer, for one batch after the other
//! f64 LE sum of losses | f64 LE their weight | f32 LE outputs | u32 LE classes or f32 LE target values | f32 LE weights, if any
//! ```

use paceline_model::{Batch, Loss, Targets};
use serde::{Deserialize, Serialize};

/// What the model says of one part of the data, batch by batch.
pub(super) struct Answer {
    pub batches: Vec<Answered>,
}

/// What it says of one batch.
pub(super) struct Answered {
    /// Without features, which nobody needs any more.
    pub batch: Batch,
    pub outputs: Vec<f32>,
    pub loss: Loss,
}

/// What the numbers beside an answer are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerHead {
    /// Examples of every batch.
    pub examples: Vec<u32>,
    /// Targets of an example.
    pub targets: TargetKind,
    /// Whether examples have weights.
    pub weighted: bool,
}

/// The kind of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetKind {
    /// There are none.
    None,
    /// A class, of so many.
    Classes(u32),
    /// So many numbers.
    Values(u32),
}

impl TargetKind {
    fn width(self) -> usize {
        match self {
            Self::None => 0,
            Self::Classes(_) => 1,
            Self::Values(width) => width as usize,
        }
    }
}

impl Answer {
    /// As it travels.
    pub(super) fn write(&self, targets: TargetKind) -> (AnswerHead, Vec<u8>) {
        let examples = self.batches.iter().map(|answered| answered.batch.examples() as u32).collect();
        let weighted = self.batches.iter().any(|answered| answered.batch.weights.is_some());
        let mut numbers = Vec::new();
        for Answered { batch, outputs, loss } in &self.batches {
            [loss.sum, loss.weight].iter().for_each(|value| numbers.extend(value.to_le_bytes()));
            outputs.iter().for_each(|value| numbers.extend(value.to_le_bytes()));
            match &batch.targets {
                Targets::None => {}
                Targets::Classes(classes) => classes.iter().for_each(|class| numbers.extend(class.to_le_bytes())),
                Targets::Values { values, .. } => values.iter().for_each(|value| numbers.extend(value.to_le_bytes())),
            }
            batch.weights.iter().flatten().for_each(|weight| numbers.extend(weight.to_le_bytes()));
        }
        (AnswerHead { examples, targets, weighted }, numbers)
    }

    /// What has travelled, if it is the answer to what was asked: batches of these sizes with such targets, for a model with so many
    /// outputs.
    pub(super) fn read(
        head: &AnswerHead,
        numbers: &[u8],
        expected: &[u32],
        targets: TargetKind,
        outputs: usize,
    ) -> Result<Self, String> {
        if head.examples != expected || head.targets != targets {
            return Err("its answer is not about what it was asked".into());
        }
        let weights = usize::from(head.weighted);
        let of_example = 4 * (outputs + targets.width() + weights);
        let length: usize = expected.iter().map(|examples| 16 + *examples as usize * of_example).sum();
        if numbers.len() != length {
            return Err(format!("its answer has {} bytes, expected {length}", numbers.len()));
        }
        let mut rest = numbers;
        let batches = expected.iter().map(|examples| {
            let examples = *examples as usize;
            let [sum, weight] = [f64_of(&mut rest), f64_of(&mut rest)];
            let values = f32s_of(&mut rest, examples * outputs);
            let wanted = match targets {
                TargetKind::None => Targets::None,
                TargetKind::Classes(classes) => {
                    let wanted = u32s_of(&mut rest, examples);
                    if let Some(unknown) = wanted.iter().find(|class| **class >= classes) {
                        return Err(format!("it tells of class {unknown}, of {classes}"));
                    }
                    Targets::Classes(wanted)
                }
                TargetKind::Values(width) => {
                    let width = width as usize;
                    Targets::Values { width, values: f32s_of(&mut rest, examples * width) }
                }
            };
            let weights = head.weighted.then(|| f32s_of(&mut rest, examples));
            // Who they are in the source is not told: what is judged does not depend on it.
            let batch = Batch { indices: vec![0; examples], targets: wanted, weights, ..Batch::empty() };
            Ok(Answered { batch, outputs: values, loss: Loss { sum, weight } })
        });
        Ok(Self { batches: batches.collect::<Result<_, _>>()? })
    }
}

/// The next bytes; as many as there must be were counted before.
fn bytes_of<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

fn f64_of(rest: &mut &[u8]) -> f64 {
    f64::from_le_bytes(*bytes_of(rest, 8).first_chunk().expect("eight bytes"))
}

fn u32s_of(rest: &mut &[u8], count: usize) -> Vec<u32> {
    bytes_of(rest, 4 * count).as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
}

fn f32s_of(rest: &mut &[u8], count: usize) -> Vec<f32> {
    u32s_of(rest, count).into_iter().map(f32::from_bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(targets: Targets, weights: Option<Vec<f32>>) -> Answered {
        let batch = Batch { indices: vec![0; 2], targets, weights, ..Batch::empty() };
        Answered { batch, outputs: vec![0.25, f32::NAN, -0.0, 1.0], loss: Loss { sum: f64::NAN, weight: 2.0 } }
    }

    #[test]
    fn an_answer_comes_as_it_went_to_the_bit() {
        let kinds = [
            (TargetKind::None, Targets::None),
            (TargetKind::Classes(3), Targets::Classes(vec![2, 0])),
            (TargetKind::Values(1), Targets::Values { width: 1, values: vec![-3.5, f32::INFINITY] }),
        ];
        for (kind, targets) in kinds {
            for weights in [None, Some(vec![0.5, 2.0])] {
                let answer = Answer { batches: vec![answered(targets.clone(), weights.clone())] };
                let (head, numbers) = answer.write(kind);
                let read = Answer::read(&head, &numbers, &[2], kind, 2).expect("an answer");
                assert_eq!(read.write(kind), (head, numbers));
                assert_eq!((&read.batches[0].batch.targets, &read.batches[0].batch.weights), (&targets, &weights));
            }
        }
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let kind = TargetKind::Classes(3);
        let answer = Answer { batches: vec![answered(Targets::Classes(vec![2, 0]), None)] };
        let (head, numbers) = answer.write(kind);
        let refused = |head: &AnswerHead, numbers: &[u8], expected: &[u32]| {
            Answer::read(head, numbers, expected, kind, 2).err().expect("refused")
        };
        assert!(refused(&head, &numbers, &[3]).contains("not about what it was asked"));
        assert!(refused(&head, &numbers[1..], &[2]).contains("expected 40"));
        let huge = AnswerHead { weighted: true, ..head.clone() };
        assert!(refused(&huge, &numbers, &[2]).contains("expected 48"));
        let other = Answer { batches: vec![answered(Targets::Classes(vec![3, 0]), None)] };
        assert!(refused(&head, &other.write(kind).1, &[2]).contains("class 3, of 3"));
    }
}
