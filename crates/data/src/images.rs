//! Folders of images, one sub-folder for each class.
//!
//! Every image is decoded once when the source is opened, by several threads, so that a damaged file is told before a run begins. What
//! fits the memory limit stays there as bytes; of a larger folder the images are decoded again when they are asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_model::{Batch, Targets};

use crate::source::{Notes, begin, check_indices, copy_targets};
use crate::{Error, ExampleShape, LeftOut, NormaliserKind, OpenOptions, Schema, Source, TargetShape};

mod decoding;
mod files;
mod options;
mod survey;

use decoding::{Layout, decode};
use files::Listing;
use options::{ImageOptions, Unreadable};
use survey::{Failure, survey};

pub(crate) use files::listed;

/// The images of a folder, all of one size.
struct Images {
    shape: ExampleShape,
    layout: Layout,
    files: Vec<PathBuf>,
    /// Of all images, if they fit the memory limit.
    pixels: Option<Vec<u8>>,
    targets: Targets,
    schema: Option<Schema>,
    notes: Notes,
}

/// Opens a folder with the options of its specification.
pub(crate) fn open(path: &Path, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let asked = ImageOptions::parse(pairs, options.schema.as_ref().and_then(|schema| schema.image.as_ref()))?;
    let Listing { mut files, mut classes, names, remark } = Listing::of(path, options)?;
    let size = asked.size.or_else(|| files.iter().find_map(|file| decoding::size(file).ok()));
    let layout = Layout { size: size.unwrap_or((1, 1)), channels: asked.channels, fit: asked.fit };
    // Images that nobody has given a size have the size of the first.
    asked.check(layout.size)?;
    let scaled = asked.size.is_some();
    let width = layout.width();
    let held = files.len().saturating_mul(width) <= options.memory_limit;
    let mut pixels = held.then(|| vec![0; files.len() * width]);
    let failures = survey(&files, &layout, scaled, pixels.as_deref_mut().unwrap_or_default());
    if let Some((at, Failure::OtherSize((wide, high)))) =
        failures.iter().find(|(_, failure)| matches!(failure, Failure::OtherSize(_)))
    {
        let (first, file) = (layout.size, files[*at].display());
        let message = format!(
            "and `height` are needed, since images differ in size: `{file}` has {wide} × {high} pixels, others have {} × {}",
            first.0, first.1
        );
        return Err(Error::Unsuitable { setting: "width", message });
    }
    let mut notes = Notes { remarks: remark.into_iter().collect(), left_out: Vec::new() };
    if !failures.is_empty() {
        let (count, of, listed) = (failures.len(), files.len(), survey::listed(path, &files, &failures));
        if asked.unreadable == Unreadable::Stop {
            return Err(Error::UnreadableImages { path: path.to_owned(), count, of, listed });
        }
        let folder = path.display();
        notes.remarks.push(format!(
            "{count} of the {of} images of `{folder}` cannot be read and are left out (`unreadable=skip`): {listed}"
        ));
        let lost: Vec<usize> = failures.iter().map(|(at, _)| *at).collect();
        let left_out = failures.iter().map(|(at, failure)| LeftOut { row: *at as u64, reason: failure.to_string() });
        notes.left_out = left_out.collect();
        keep_others(&lost, &mut files, 1);
        keep_others(&lost, &mut classes, 1);
        pixels.iter_mut().for_each(|pixels| keep_others(&lost, pixels, width));
    }
    if files.is_empty() {
        return Err(Error::NothingLeft { path: path.to_owned(), what: "images" });
    }
    let (targets, shape) = match options.targets {
        true => (Targets::Classes(classes), TargetShape::Classes { names: names.clone() }),
        false => (Targets::None, TargetShape::None),
    };
    let schema = match options.targets {
        true => Some(Schema { image: Some(asked.form()), ..Schema::of_classes(names) }),
        false => options.schema.clone(),
    };
    let (wide, high) = layout.size;
    let shape = ExampleShape { features: vec![high as usize, wide as usize, layout.channels], targets: shape };
    Ok(Arc::new(Images { shape, layout, files, pixels, targets, schema, notes }))
}

/// Takes out the entries, of so many values each, at these places, which ascend.
fn keep_others<T>(lost: &[usize], values: &mut Vec<T>, width: usize) {
    let mut at = 0;
    values.retain(|_| {
        at += 1;
        lost.binary_search(&((at - 1) / width)).is_err()
    });
}

impl Source for Images {
    fn examples(&self) -> usize {
        self.files.len()
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples())?;
        let width = self.shape.width();
        begin(batch, indices, width);
        for index in indices {
            let at = *index as usize;
            match &self.pixels {
                Some(pixels) => {
                    let pixels = &pixels[at * width..(at + 1) * width];
                    batch.features.extend(pixels.iter().map(|byte| f32::from(*byte)));
                }
                None => {
                    let lost = |source| Error::LostImage { path: self.files[at].clone(), source };
                    let (pixels, _) = decode(&self.files[at], &self.layout).map_err(lost)?;
                    batch.features.extend(pixels.iter().map(|byte| f32::from(*byte)));
                }
            }
        }
        copy_targets(&self.targets, indices, batch);
        batch.weights = None;
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        NormaliserKind::Image
    }

    fn remarks(&self) -> &[String] {
        &self.notes.remarks
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.notes.left_out
    }
}
