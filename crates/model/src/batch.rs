/// What the examples of a batch should come out as.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Nothing is known: a batch to predict on.
    None,
    /// One class index per example.
    Classes(Vec<u32>),
    /// `width` numbers per example, row after row.
    Values {
        /// Numbers per example.
        width: usize,
        /// `examples × width` numbers.
        values: Vec<f32>,
    },
}

/// A minibatch: rows of features, their targets and weights, and which examples they are.
///
/// A batch owns plain vectors so that the loader can fill the same one again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The epoch that this batch belongs to, from 0; randomness is counted by it.
    pub epoch: u64,
    /// The index of every example in its source; randomness is counted by it.
    pub indices: Vec<u64>,
    /// Numbers per example.
    pub width: usize,
    /// `examples × width` numbers, row after row; images as height, width, channels.
    pub features: Vec<f32>,
    /// What should come out.
    pub targets: Targets,
    /// One weight per example; `None` weighs all alike with 1.
    pub weights: Option<Vec<f32>>,
}

impl Batch {
    /// A batch with room for nothing yet, to be filled by a loader.
    pub fn empty() -> Self {
        Self { epoch: 0, indices: Vec::new(), width: 0, features: Vec::new(), targets: Targets::None, weights: None }
    }

    /// The number of examples.
    pub fn examples(&self) -> usize {
        self.indices.len()
    }

    /// The sum of the example weights: what a sum of gradients is divided by.
    pub fn weight(&self) -> f32 {
        match &self.weights {
            Some(weights) => weights.iter().sum(),
            None => self.examples() as f32,
        }
    }

    /// The features of example `row`.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.features[row * self.width..(row + 1) * self.width]
    }

    /// Becomes some rows of another batch.
    ///
    /// # Panics
    ///
    /// If the other has fewer.
    pub fn copy_rows(&mut self, other: &Batch, rows: std::ops::Range<usize>) {
        let cut = |width: usize| width * rows.start..width * rows.end;
        (self.epoch, self.width) = (other.epoch, other.width);
        self.indices.clear();
        self.indices.extend_from_slice(&other.indices[rows.clone()]);
        self.features.clear();
        self.features.extend_from_slice(&other.features[cut(other.width)]);
        self.targets = match &other.targets {
            Targets::None => Targets::None,
            Targets::Classes(classes) => Targets::Classes(classes[rows.clone()].to_vec()),
            Targets::Values { width, values } => {
                Targets::Values { width: *width, values: values[cut(*width)].to_vec() }
            }
        };
        self.weights = other.weights.as_ref().map(|weights| weights[rows].to_vec());
    }

    /// Moves the last rows of another batch of the same source and epoch to the end of this one.
    ///
    /// # Panics
    ///
    /// If the other has fewer, or is of another kind.
    pub fn take_last(&mut self, rows: usize, other: &mut Batch) {
        let left = other.examples().checked_sub(rows).expect("as many rows in the other batch");
        if self.indices.is_empty() {
            (self.epoch, self.width) = (other.epoch, other.width);
            self.targets = other.targets.none_of_them();
            self.weights = other.weights.as_ref().map(|_| Vec::new());
        }
        assert_eq!((self.epoch, self.width), (other.epoch, other.width), "batches of one source and epoch");
        self.indices.extend(other.indices.drain(left..));
        self.features.extend(other.features.drain(left * other.width..));
        match (&mut self.targets, &mut other.targets) {
            (Targets::None, Targets::None) => {}
            (Targets::Classes(to), Targets::Classes(from)) => to.extend(from.drain(left..)),
            (Targets::Values { values: to, width: to_width }, Targets::Values { values: from, width })
                if to_width == width =>
            {
                to.extend(from.drain(left * *width..));
            }
            _ => panic!("targets of one kind"),
        }
        match (&mut self.weights, &mut other.weights) {
            (None, None) => {}
            (Some(to), Some(from)) => to.extend(from.drain(left..)),
            _ => panic!("weights in both or in none"),
        }
    }
}

impl Targets {
    /// The same kind, of no example.
    fn none_of_them(&self) -> Targets {
        match self {
            Targets::None => Targets::None,
            Targets::Classes(_) => Targets::Classes(Vec::new()),
            Targets::Values { width, .. } => Targets::Values { width: *width, values: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Targets};

    fn batch(indices: &[u64], targets: Targets, weights: Option<Vec<f32>>) -> Batch {
        let features = indices.iter().flat_map(|index| [*index as f32, 0.5 + *index as f32]).collect();
        Batch { epoch: 3, indices: indices.to_vec(), width: 2, features, targets, weights }
    }

    #[test]
    fn rows_that_move_take_all_that_is_theirs_with_them() {
        let classes = |classes: &[u32]| Targets::Classes(classes.to_vec());
        let mut from = batch(&[4, 5, 6], classes(&[0, 1, 2]), Some(vec![1.0, 2.0, 3.0]));
        let mut to = batch(&[1], classes(&[7]), Some(vec![4.0]));
        to.take_last(2, &mut from);
        assert_eq!(from, batch(&[4], classes(&[0]), Some(vec![1.0])));
        assert_eq!(to, batch(&[1, 5, 6], classes(&[7, 1, 2]), Some(vec![4.0, 2.0, 3.0])));
        to.take_last(0, &mut from);
        assert_eq!((to.examples(), from.examples()), (3, 1));
        let values = |values: &[f32]| Targets::Values { width: 3, values: values.to_vec() };
        let mut part = Batch::empty();
        part.copy_rows(&batch(&[4, 5, 6], values(&[0.0; 9]), Some(vec![1.0, 2.0, 3.0])), 1..3);
        assert_eq!(part, batch(&[5, 6], values(&[0.0; 6]), Some(vec![2.0, 3.0])));
        part.copy_rows(&to, 0..1);
        assert_eq!(part, batch(&[1], classes(&[7]), Some(vec![4.0])));
        let mut from = batch(&[8, 9], values(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), None);
        let mut empty = Batch::empty();
        empty.take_last(1, &mut from);
        assert_eq!(from, batch(&[8], values(&[1.0, 2.0, 3.0]), None));
        assert_eq!(empty, batch(&[9], values(&[4.0, 5.0, 6.0]), None));
    }
}
