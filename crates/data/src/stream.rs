use std::sync::{Mutex, PoisonError};

use paceline_model::{Batch, Targets};

use crate::source::{begin, check_indices, class_targets, value_targets};
use crate::{BoxError, Error, ExampleShape, Order, Source, TargetShape};

/// One example, as a stream gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The features, as many as the shape says.
    pub features: Vec<f32>,
    /// What should come out.
    pub target: ExampleTarget,
}

/// The target of one example.
#[derive(Clone, Debug, PartialEq)]
pub enum ExampleTarget {
    /// Nothing is known.
    None,
    /// A class index.
    Class(u32),
    /// One number for each target name.
    Values(Vec<f32>),
}

type Examples = Box<dyn Iterator<Item = Result<Example, BoxError>> + Send>;

/// Examples that come one after the other, from an iterator that is made anew for every pass.
///
/// Reading forward skips; reading backward starts a new iterator. It is never shuffled.
pub struct Stream {
    shape: ExampleShape,
    examples: usize,
    make: Box<dyn Fn() -> Examples + Send + Sync>,
    place: Mutex<Cursor>,
}

struct Cursor {
    iterator: Option<Examples>,
    /// The index of the example that the iterator gives next.
    next: u64,
}

impl Stream {
    /// A source of `examples` examples; `make` gives a new iterator over all of them.
    pub fn new<I>(shape: ExampleShape, examples: usize, make: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: Iterator<Item = Result<Example, BoxError>> + Send + 'static,
    {
        let place = Mutex::new(Cursor { iterator: None, next: 0 });
        Self { shape, examples, make: Box::new(move || Box::new(make())), place }
    }

    fn advance(&self, place: &mut Cursor, index: u64) -> Result<Example, Error> {
        if place.iterator.is_none() || index < place.next {
            *place = Cursor { iterator: Some((self.make)()), next: 0 };
        }
        let iterator = place.iterator.as_mut().expect("was just made");
        loop {
            let at = place.next;
            let example = match iterator.next() {
                Some(Ok(example)) => example,
                Some(Err(source)) => {
                    place.iterator = None;
                    return Err(Error::StreamFailed { example: at, source });
                }
                None => {
                    place.iterator = None;
                    return Err(Error::StreamEnded { expected: self.examples, found: at });
                }
            };
            place.next += 1;
            if at == index {
                return Ok(example);
            }
        }
    }

    fn append(&self, example: Example, index: u64, batch: &mut Batch) -> Result<(), Error> {
        let mismatch = |what, expected: usize, found: usize| {
            Err(Error::ShapeMismatch { what, expected: expected.to_string(), found: found.to_string() })
        };
        if example.features.len() != batch.width {
            return mismatch("the features of a streamed example", batch.width, example.features.len());
        }
        if let Some(place) = example.features.iter().position(|value| !value.is_finite()) {
            let found = example.features[place].into();
            return Err(Error::NotFinite { origin: "the stream".to_owned(), example: index, place, found });
        }
        batch.features.extend_from_slice(&example.features);
        match (example.target, &mut batch.targets, &self.shape.targets) {
            (ExampleTarget::None, Targets::None, _) => Ok(()),
            (ExampleTarget::Class(class), Targets::Classes(classes), TargetShape::Classes { names }) => {
                if class as usize >= names.len() {
                    let (origin, last) = ("the stream".to_owned(), names.len() as i64 - 1);
                    return Err(Error::LabelOutOfRange { origin, example: index, found: class.into(), last });
                }
                classes.push(class);
                Ok(())
            }
            (ExampleTarget::Values(found), Targets::Values { width, values }, _) => {
                if found.len() != *width {
                    return mismatch("the target values of a streamed example", *width, found.len());
                }
                values.extend_from_slice(&found);
                Ok(())
            }
            (found, _, shape) => Err(Error::ShapeMismatch {
                what: "the target of a streamed example",
                expected: format!("{shape:?}"),
                found: format!("{found:?}"),
            }),
        }
    }
}

impl Source for Stream {
    fn examples(&self) -> usize {
        self.examples
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples)?;
        begin(batch, indices, self.shape.width());
        batch.weights = None;
        match &self.shape.targets {
            TargetShape::None => batch.targets = Targets::None,
            TargetShape::Classes { .. } => class_targets(batch).clear(),
            TargetShape::Values { names } => value_targets(batch, names.len()).clear(),
        }
        // A panic in the caller's iterator leaves the place as it was before the example: starting over is safe.
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        for index in indices {
            let example = self.advance(&mut place, *index)?;
            self.append(example, *index, batch)?;
        }
        Ok(())
    }

    fn order(&self) -> Order {
        Order::Sequential
    }
}
