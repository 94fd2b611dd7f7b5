/// One example of a batch: what came out, which class it is, and what it weighs.
pub(super) struct Row<'a> {
    outputs: &'a [f32],
    classes: usize,
    /// The actual class.
    pub(super) class: usize,
    /// The weight, above 0.
    pub(super) weight: f64,
}

impl Row<'_> {
    /// Whether every output is a number to compare.
    pub(super) fn is_finite(&self) -> bool {
        self.outputs.iter().all(|output| output.is_finite())
    }

    /// The score of `class`; a single output is the probability of class 1, which leaves `1 − p` for class 0.
    pub(super) fn score(&self, class: usize) -> f32 {
        match self.outputs {
            [p] if self.classes == 2 => [1.0 - p, *p][class],
            outputs => outputs[class],
        }
    }

    /// The class with the highest score, the lowest index among equals; so a single output must exceed 0.5 for class 1.
    pub(super) fn predicted(&self) -> usize {
        (1..self.classes).fold(0, |best, class| if self.score(class) > self.score(best) { class } else { best })
    }

    /// The same of two classes, where class 1 is predicted from this probability on.
    pub(super) fn predicted_at(&self, threshold: Option<f32>) -> usize {
        match threshold {
            Some(threshold) if self.classes == 2 => usize::from(self.score(1) >= threshold),
            _ => self.predicted(),
        }
    }

    /// How many classes come before the actual one, a lower index first among equals.
    pub(super) fn rank(&self) -> usize {
        let own = self.score(self.class);
        (0..self.classes)
            .filter(|&class| self.score(class) > own || (self.score(class) == own && class < self.class))
            .count()
    }
}

/// The examples of a batch of `rows × classes` outputs, or `rows × 1` for two classes, less those of weight 0.
///
/// # Panics
///
/// When the slices do not fit each other, a class is out of range, or a weight is negative or not finite.
pub(super) fn rows<'a>(
    outputs: &'a [f32],
    actual: &'a [u32],
    weights: Option<&'a [f32]>,
    classes: usize,
) -> impl Iterator<Item = Row<'a>> {
    let width = if classes == 2 && outputs.len() == actual.len() { 1 } else { classes };
    assert_eq!(
        outputs.len(),
        actual.len() * width,
        "{} examples of {classes} classes expect {} outputs, got {}",
        actual.len(),
        actual.len() * width,
        outputs.len()
    );
    let weights = example_weights(weights, actual.len());
    outputs.chunks_exact(width).zip(actual).zip(weights).filter_map(move |((outputs, &class), weight)| {
        let class = class as usize;
        assert!(class < classes, "class {class} is out of range: there are {classes} classes");
        (weight > 0.0).then_some(Row { outputs, classes, class, weight })
    })
}

/// One weight for each of `examples`: 1 where none are given.
pub(super) fn example_weights(weights: Option<&[f32]>, examples: usize) -> impl Iterator<Item = f64> {
    if let Some(weights) = weights {
        assert_eq!(weights.len(), examples, "{examples} examples expect as many weights, got {}", weights.len());
    }
    (0..examples).map(move |example| match weights {
        None => 1.0,
        Some(weights) => {
            let weight = weights[example];
            assert!(weight.is_finite() && weight >= 0.0, "weight {weight} of example {example} is not 0 or more");
            f64::from(weight)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn the_lower_index_wins_among_equal_scores() {
        let found: Vec<_> = rows(&[0.4, 0.4, 0.2, 0.2, 0.4, 0.4], &[1, 2], None, 3).collect();
        assert_eq!([found[0].predicted(), found[0].rank()], [0, 1]);
        assert_eq!([found[1].predicted(), found[1].rank()], [1, 1]);
    }

    #[test]
    fn a_single_output_is_the_probability_of_class_1_and_must_exceed_a_half() {
        let outputs = [0.0, 0.5, 0.5_f32.next_up(), 1.0];
        let predicted: Vec<_> = rows(&outputs, &[0; 4], None, 2).map(|row| row.predicted()).collect();
        assert_eq!(predicted, [0, 0, 1, 1]);
    }

    #[test]
    fn examples_of_weight_0_are_left_out() {
        let classes: Vec<_> = rows(&[f32::NAN, 0.1], &[0, 1], Some(&[0.0, 2.0]), 2).map(|row| row.class).collect();
        assert_eq!(classes, [1]);
    }

    #[test]
    #[should_panic(expected = "2 examples of 3 classes expect 6 outputs, got 5")]
    fn outputs_that_do_not_fit_are_a_bug() {
        rows(&[0.0; 5], &[0, 1], None, 3).count();
    }

    #[test]
    #[should_panic(expected = "class 3 is out of range: there are 3 classes")]
    fn a_class_out_of_range_is_a_bug() {
        rows(&[0.0; 3], &[3], None, 3).count();
    }

    #[test]
    #[should_panic(expected = "2 examples expect as many weights, got 1")]
    fn weights_that_do_not_fit_are_a_bug() {
        rows(&[0.0; 6], &[0, 1], Some(&[1.0]), 3).count();
    }
}
