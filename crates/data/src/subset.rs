use std::sync::{Arc, Mutex, PoisonError};

use paceline_model::Batch;

use crate::shuffle::Permutation;
use crate::source::check_indices;
use crate::{Division, Error, ExampleShape, LeftOut, NormaliserKind, Order, Schema, Source};

/// A view of some examples of a source. Batches carry the indices of the underlying source.
pub struct Subset {
    source: Arc<dyn Source>,
    indices: Vec<u64>,
    order: Order,
    /// Room for translated indices, so that reading does not allocate; whoever finds it taken makes its own.
    room: Mutex<Vec<u64>>,
}

impl Subset {
    /// The examples at these indices, in this order.
    pub fn of(source: Arc<dyn Source>, indices: Vec<u64>) -> Result<Self, Error> {
        check_indices(&indices, source.examples())?;
        let order = match source.order() {
            // Ascending indices keep neighbours near each other, only more thinly.
            Order::Blocks { size } if indices.is_sorted() => {
                let kept = size as f64 * indices.len() as f64 / source.examples().max(1) as f64;
                Order::Blocks { size: (kept as usize).max(1) }
            }
            Order::Blocks { .. } | Order::Any => Order::Any,
            Order::Sequential => Order::Sequential,
        };
        Ok(Self { source, indices, order, room: Mutex::new(Vec::new()) })
    }

    /// So many examples, drawn by a seed, in the order of the source, which is read as these examples say.
    pub fn drawn(source: Arc<dyn Source>, examples: usize, seed: u64) -> Result<Self, Error> {
        let all = source.examples();
        if examples > all {
            let expected = format!("at most {all}, as many as there are");
            return Err(Error::BadSetting { setting: "examples", expected, found: examples.to_string() });
        }
        let chance = Permutation::new(all as u64, seed);
        let mut indices: Vec<u64> = (0..examples as u64).map(|at| chance.at(at)).collect();
        indices.sort_unstable();
        let source = source.fitted_to(&indices)?.unwrap_or(source);
        Self::of(source, indices)
    }

    /// The first `examples` examples, or all if there are fewer.
    pub fn first(source: Arc<dyn Source>, examples: usize) -> Self {
        let examples = examples.min(source.examples()) as u64;
        Self::of(source, (0..examples).collect()).expect("these indices exist")
    }
}

/// Splits a source by chance: the first part holds `fraction` of the examples, the second the rest.
///
/// The same seed gives the same parts. Both keep the order of the source.
#[expect(clippy::type_complexity, reason = "two sources in a pair read better than a name for them")]
pub fn split(source: Arc<dyn Source>, fraction: f64, seed: u64) -> Result<(Arc<dyn Source>, Arc<dyn Source>), Error> {
    Division::by_chance(source, seed).split(fraction)
}

impl Source for Subset {
    fn examples(&self) -> usize {
        self.indices.len()
    }

    fn shape(&self) -> &ExampleShape {
        self.source.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples())?;
        let mut translated = std::mem::take(&mut *self.room.lock().unwrap_or_else(PoisonError::into_inner));
        translated.clear();
        translated.extend(indices.iter().map(|index| self.indices[*index as usize]));
        let read = self.source.read(&translated, batch);
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = translated;
        read
    }

    fn order(&self) -> Order {
        self.order
    }

    fn schema(&self) -> Option<&Schema> {
        self.source.schema()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.source.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.source.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        self.source.left_out()
    }

    fn groups(&self) -> Option<Vec<u32>> {
        let all = self.source.groups()?;
        Some(self.indices.iter().map(|index| all[*index as usize]).collect())
    }

    fn fitted_to(&self, learned: &[u64]) -> Result<Option<Arc<dyn Source>>, Error> {
        let learned: Vec<u64> = learned.iter().map(|index| self.indices[*index as usize]).collect();
        let fitted = self.source.fitted_to(&learned)?;
        fitted.map(|source| Ok(Arc::new(Self::of(source, self.indices.clone())?) as Arc<dyn Source>)).transpose()
    }

    fn weighted(&self) -> bool {
        self.source.weighted()
    }
}
