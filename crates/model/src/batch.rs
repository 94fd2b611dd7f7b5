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
}
