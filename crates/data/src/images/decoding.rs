//! From the file of an image to bytes: row by row, pixel by pixel, the channels of a pixel side by side.

use std::fs::File;
use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use image::imageops::{FilterType, crop_imm, resize};
use image::{DynamicImage, ImageBuffer, ImageDecoder, ImageReader, Limits, Pixel};

use super::options::Fit;
use crate::BoxError;

/// Bytes that a file may have, and bytes that its pixels may take: a small file can stand for a very large image.
const MOST_BYTES: u64 = 256 << 20;
/// Pixels between the scaling of the height and that of the width; each takes 16 bytes.
const MOST_BETWEEN: u64 = 1 << 26;

/// What images are brought to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Width and height.
    pub(super) size: (u32, u32),
    pub(super) channels: usize,
    pub(super) fit: Fit,
}

impl Layout {
    /// Bytes of an image.
    pub(super) fn width(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * self.channels
    }
}

/// The width and the height of an image, as it is looked at.
pub(super) fn size(path: &Path) -> Result<(u32, u32), BoxError> {
    open(path).map(|image| (image.width(), image.height()))
}

/// The bytes of an image in this layout, and the size that it has in its file.
pub(super) fn decode(path: &Path, layout: &Layout) -> Result<(Vec<u8>, (u32, u32)), BoxError> {
    let image = open(path)?;
    let size = (image.width(), image.height());
    let bytes = match layout.channels {
        1 => fitted(&image.into_luma8(), layout)?,
        _ => fitted(&image.into_rgb8(), layout)?,
    };
    Ok((bytes, size))
}

/// Decodes a file; a camera that was held upright has noted so in it.
fn open(path: &Path) -> Result<DynamicImage, BoxError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes").into());
    }
    if bytes.starts_with(&[0xff, 0xd8]) && !jpeg_is_whole(&bytes) {
        return Err("it is cut off".into());
    }
    // What decodes images asserts some of what a damaged file may break.
    let decoded = catch_unwind(AssertUnwindSafe(|| -> Result<DynamicImage, BoxError> {
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_BYTES);
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
        reader.limits(limits);
        let mut decoder = reader.into_decoder()?;
        let (width, height) = decoder.dimensions();
        if decoder.total_bytes() > MOST_BYTES {
            return Err(format!("its {width} × {height} pixels take more than {MOST_BYTES} bytes").into());
        }
        let orientation = decoder.orientation()?;
        let mut image = DynamicImage::from_decoder(decoder)?;
        image.apply_orientation(orientation);
        Ok(image)
    }));
    decoded.unwrap_or_else(|_| Err("it is damaged in a way that the reader of images did not expect".into()))
}

/// Whether there is an end of the image after its pixels begin: what is missing would be made up.
///
/// ```text
/// | ff d8 | ff kind | length, 2 bytes | … | ff da | length | … | pixels, where ff is followed by 00 or d0 to d7 | ff d9 |
/// ```
fn jpeg_is_whole(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some([0xff, kind, rest @ ..]) = bytes.get(at..) {
        match (kind, rest) {
            (0xff, _) => at += 1,
            (0xda, rest) => return rest.windows(2).any(|pair| pair == [0xff, 0xd9]),
            (_, [high, low, ..]) => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => return false,
        }
    }
    false
}

/// The part of an image that is wanted, scaled.
fn fitted<P: Pixel<Subpixel = u8> + 'static>(
    image: &ImageBuffer<P, Vec<u8>>,
    layout: &Layout,
) -> Result<Vec<u8>, BoxError> {
    let ((width, height), (to_width, to_height)) = (image.dimensions(), layout.size);
    if width == 0 || height == 0 {
        return Err("it has no pixels".into());
    }
    let (part_width, part_height) = match layout.fit {
        Fit::Stretch => (width, height),
        Fit::Crop => middle((width, height), layout.size),
    };
    if u64::from(part_width) * u64::from(to_height) > MOST_BETWEEN {
        return Err(format!("its {width} × {height} pixels cannot be scaled to {to_width} × {to_height}").into());
    }
    let (left, top) = ((width - part_width) / 2, (height - part_height) / 2);
    let part = crop_imm(image, left, top, part_width, part_height);
    Ok(resize(&*part, to_width, to_height, FilterType::Triangle).into_raw())
}

/// The largest part that has the proportion of `to`.
fn middle((width, height): (u32, u32), (to_width, to_height): (u32, u32)) -> (u32, u32) {
    let (by_width, by_height) = (u64::from(width) * u64::from(to_height), u64::from(height) * u64::from(to_width));
    let side = |product: u64, by: u32| ((product + u64::from(by) / 2) / u64::from(by)).max(1) as u32;
    match by_width > by_height {
        true => (side(by_height, to_height).min(width), height),
        false => (width, side(by_width, to_width).min(height)),
    }
}

#[cfg(test)]
mod tests {
    use super::{jpeg_is_whole, middle};

    #[test]
    fn the_largest_part_of_a_proportion_lies_within_the_image() {
        assert_eq!(middle((100, 50), (10, 10)), (50, 50));
        assert_eq!(middle((50, 100), (20, 10)), (50, 25));
        assert_eq!(middle((64, 48), (32, 24)), (64, 48));
        assert_eq!(middle((60_000, 1), (1, 4096)), (1, 1));
        assert_eq!(middle((1, 60_000), (4096, 1)), (1, 1));
    }

    #[test]
    fn an_end_within_a_preview_is_not_the_end_of_an_image() {
        let preview = [0xff, 0xe1, 0, 6, 0xff, 0xd9, 0, 0];
        let begin = [&[0xff, 0xd8][..], &preview, &[0xff, 0xda, 0, 2, 1, 2, 0xff, 0]].concat();
        assert!(!jpeg_is_whole(&begin));
        assert!(jpeg_is_whole(&[&begin[..], &[0xff, 0xd9]].concat()));
        assert!(!jpeg_is_whole(&begin[..11]));
    }
}
