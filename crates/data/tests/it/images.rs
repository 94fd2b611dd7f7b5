//! Folders of images.

use std::path::Path;
use std::sync::Arc;

use image::{ImageBuffer, ImageFormat, Luma, Rgb, Rgba};
use paceline_data::{Error, NormaliserKind, OpenOptions, Source, TargetShape, fingerprint, open};
use paceline_model::{Batch, Targets};

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("they can be read");
    batch
}

/// An image that is of one colour but for the pixel at the top left.
fn draw(path: &Path, width: u32, height: u32, colour: [u8; 3]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let mut image = ImageBuffer::from_pixel(width, height, Rgb(colour));
    image.put_pixel(0, 0, Rgb([1, 2, 3]));
    image.save(path).expect("it can be written");
}

/// Two cats and a dog of 4 × 2 pixels.
fn pets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    draw(&folder.path().join("dog/a.png"), 4, 2, [10, 20, 30]);
    draw(&folder.path().join("cat/b.PNG"), 4, 2, [40, 50, 60]);
    draw(&folder.path().join("cat/a.png"), 4, 2, [70, 80, 90]);
    folder
}

fn opened(folder: &Path, query: &str) -> Arc<dyn Source> {
    opened_with(folder, query, &OpenOptions::default())
}

fn opened_with(folder: &Path, query: &str, options: &OpenOptions) -> Arc<dyn Source> {
    open(&format!("images:{}{query}", folder.display()), options).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn refused(folder: &Path, query: &str) -> String {
    open(&format!("images:{}{query}", folder.display()), &OpenOptions::default()).err().expect(query).to_string()
}

#[test]
fn every_folder_is_a_class_and_the_colours_of_a_pixel_stand_side_by_side() {
    let folder = pets();
    let source = opened(folder.path(), "");
    assert_eq!((source.examples(), &source.shape().features[..]), (3, &[2, 4, 3][..]));
    assert!(matches!(&source.shape().targets, TargetShape::Classes { names } if names == &["cat", "dog"]));
    assert_eq!(source.schema().and_then(|schema| schema.class_names()).map(<[String]>::len), Some(2));
    assert_eq!(source.default_normaliser(), NormaliserKind::Image);
    assert_eq!(source.remarks(), [""; 0]);
    let batch = all(&*source);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 0, 1]));
    assert_eq!(batch.row(0)[..6], [1.0, 2.0, 3.0, 70.0, 80.0, 90.0]);
    assert_eq!(batch.row(1)[21..], [40.0, 50.0, 60.0]);
    assert_eq!(batch.row(2)[3..6], [10.0, 20.0, 30.0]);
    // Some of them, as of every source.
    assert_eq!(opened(folder.path(), "?examples=2&seed=3").examples(), 2);
}

#[test]
fn what_does_not_fit_the_memory_is_decoded_again_to_the_same_numbers() {
    let folder = pets();
    let streamed = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    for query in ["", "?width=3&height=3&channels=1"] {
        let (held, again) = (opened(folder.path(), query), opened_with(folder.path(), query, &streamed));
        assert_eq!(all(&*held), all(&*again), "{query}");
        assert_eq!(fingerprint(&*held).expect("read"), fingerprint(&*again).expect("read"));
    }
    let before = fingerprint(&*opened(folder.path(), "")).expect("read");
    let again = opened_with(folder.path(), "", &streamed);
    draw(&folder.path().join("dog/a.png"), 4, 2, [11, 20, 30]);
    assert_ne!(before, fingerprint(&*opened(folder.path(), "")).expect("read"), "another content");
    std::fs::write(folder.path().join("dog/a.png"), "gone").expect("a file");
    let error = again.read(&[2], &mut Batch::empty()).expect_err("it is no image any more");
    assert!(matches!(error, Error::LostImage { .. }), "{error}");
}

#[test]
fn images_are_scaled_and_their_middle_is_taken_or_they_are_stretched() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("one")).expect("a folder");
    // Black, white and black again, twice as wide as it is high.
    let wide = ImageBuffer::from_fn(80, 40, |x, _| Luma([if (20..60).contains(&x) { 255u8 } else { 0 }]));
    wide.save(folder.path().join("one/wide.png")).expect("it can be written");
    let cropped = all(&*opened(folder.path(), "?width=10&height=10"));
    assert!(cropped.features.iter().all(|value| *value == 255.0), "{:?}", cropped.features);
    assert_eq!(cropped.features.len(), 300);
    let stretched = all(&*opened(folder.path(), "?width=8&height=2&channels=1&fit=stretch"));
    assert_eq!((stretched.features[0], stretched.features[3], stretched.features[7]), (0.0, 255.0, 0.0));
    // Smaller ones grow.
    assert_eq!(opened(folder.path(), "?width=200&height=160").shape().features, [160, 200, 3]);
}

#[test]
fn a_model_keeps_the_form_of_its_images() {
    let folder = pets();
    let trained = opened(folder.path(), "?width=6&height=4&channels=1&fit=stretch");
    for targets in [true, false] {
        let options = OpenOptions { schema: trained.schema().cloned(), targets, ..OpenOptions::default() };
        let later = opened_with(folder.path(), "", &options);
        assert_eq!(later.shape().features, [4, 6, 1]);
        assert_eq!(all(&*later).features, all(&*trained).features);
        // Another form that the specification states wins; the network refuses it later.
        assert_eq!(opened_with(folder.path(), "?width=2&height=2", &options).shape().features, [2, 2, 1]);
    }
    let as_they_are = opened(folder.path(), "");
    let options = OpenOptions { schema: as_they_are.schema().cloned(), ..OpenOptions::default() };
    assert_eq!(opened_with(folder.path(), "", &options).shape(), as_they_are.shape());
}

#[test]
fn grey_coloured_and_transparent_images_become_what_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("one")).expect("a folder");
    let at = |name: &str| folder.path().join("one").join(name);
    ImageBuffer::from_pixel(2, 2, Luma([7u8])).save(at("a.png")).expect("it can be written");
    ImageBuffer::from_pixel(2, 2, Luma([7u16 * 257])).save(at("b.png")).expect("it can be written");
    ImageBuffer::from_pixel(2, 2, Rgba([7u8, 7, 7, 0])).save(at("c.png")).expect("it can be written");
    ImageBuffer::from_pixel(2, 2, Rgb([7u8, 7, 7])).save(at("d.jpg")).expect("it can be written");
    // What a file is called is not what it is.
    ImageBuffer::from_pixel(2, 2, Rgb([7u8, 7, 7])).save_with_format(at("e.jpeg"), ImageFormat::Png).expect("written");
    for (query, width) in [("?channels=1", 4), ("?channels=3", 12), ("", 12)] {
        let batch = all(&*opened(folder.path(), query));
        assert_eq!((batch.examples(), batch.width), (5, width), "{query}");
        assert!(batch.features.iter().all(|value| *value == 7.0), "{query}: {:?}", batch.features);
    }
}

#[test]
fn files_that_cannot_be_read_stop_or_are_left_out() {
    let folder = pets();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("cat/empty.png"), "").expect("a file");
    std::fs::write(file("cat/text.jpg"), "this is no image").expect("a file");
    let whole = std::fs::read(file("dog/a.png")).expect("a file");
    std::fs::write(file("dog/cut.png"), &whole[..whole.len() - 20]).expect("a file");
    draw(&file("dog/cut.jpg"), 64, 64, [9, 9, 9]);
    let whole = std::fs::read(file("dog/cut.jpg")).expect("a file");
    std::fs::write(file("dog/cut.jpg"), &whole[..whole.len() / 2 + 200]).expect("a file");
    let error = refused(folder.path(), "");
    for part in ["4 of the 7 images", "`cat/empty.png` (", "`cat/text.jpg` (", "`dog/cut.png` (", "unreadable=skip"] {
        assert!(error.contains(part), "{error}");
    }
    for limit in [0, 1 << 20] {
        let options = OpenOptions { memory_limit: limit, ..OpenOptions::default() };
        let source = opened_with(folder.path(), "?unreadable=skip", &options);
        assert_eq!(all(&*source).targets, Targets::Classes(vec![0, 0, 1]));
        assert_eq!(all(&*source).features, all(&*opened(pets().path(), "")).features);
        let [remark] = source.remarks() else { panic!("{:?}", source.remarks()) };
        assert!(
            remark.starts_with("4 of the 7 images") && remark.contains("`dog/cut.jpg` (it is cut off)"),
            "{remark}"
        );
        assert_eq!(source.left_out().len(), 4);
    }
    // Who predicts is told which rows there are none for.
    let options = OpenOptions { targets: false, ..OpenOptions::default() };
    let source = opened_with(folder.path(), "?unreadable=skip", &options);
    assert_eq!(source.left_out().iter().map(|left| left.row).collect::<Vec<_>>(), [2, 3, 5, 6]);
    assert_eq!(source.shape().targets, TargetShape::None);
    for number in 0..9 {
        std::fs::write(file(&format!("cat/more{number}.png")), "").expect("a file");
    }
    assert!(refused(folder.path(), "").contains(" and 8 more; repair"), "{}", refused(folder.path(), ""));
    for name in ["cat/a.png", "cat/b.PNG", "dog/a.png"] {
        std::fs::remove_file(file(name)).expect("it is there");
    }
    assert!(refused(folder.path(), "?unreadable=skip").contains("has no images left"));
}

#[test]
fn a_small_file_that_stands_for_a_very_large_image_is_refused_before_it_is_decoded() {
    let folder = pets();
    // A header that promises 60,000 × 60,000 pixels.
    let path = folder.path().join("dog/bomb.png");
    let mut bytes = std::fs::read(folder.path().join("dog/a.png")).expect("a file");
    bytes[16..24].copy_from_slice(&[60_000u32, 60_000].map(u32::to_be_bytes).concat());
    let checksum = crc_of(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum);
    std::fs::write(&path, bytes).expect("a file");
    let error = refused(folder.path(), "?width=4&height=2");
    assert!(error.contains("its 60000 × 60000 pixels take more than 268435456 bytes"), "{error}");
    // A strip that would be very large on its way to the size asked for.
    draw(&path, 40_000, 1, [5, 5, 5]);
    assert!(refused(folder.path(), "?width=8&height=4000&fit=stretch").contains("cannot be scaled to 8 × 4000"));
    assert_eq!(opened(folder.path(), "?width=8&height=4000").examples(), 4, "its middle is small");
}

/// CRC-32 as PNG has it, its highest byte first.
fn crc_of(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    (!crc).to_be_bytes()
}

#[test]
fn images_of_different_sizes_need_a_size() {
    let folder = pets();
    draw(&folder.path().join("dog/b.png"), 5, 2, [10, 20, 30]);
    let error = refused(folder.path(), "");
    assert!(error.contains("dog/b.png` has 5 × 2 pixels, others have 4 × 2"), "{error}");
    assert!(error.contains("`width` and `height` are needed, since images differ in size"), "{error}");
    assert_eq!(opened(folder.path(), "?width=4&height=2").examples(), 4);
}

#[test]
fn what_is_no_image_of_a_class_is_told_or_refused() {
    let folder = pets();
    let file = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(file(".cache")).expect("a folder");
    std::fs::create_dir_all(file("cat/more")).expect("a folder");
    std::fs::create_dir_all(file("empty")).expect("a folder");
    std::fs::write(file("cat/a.gif"), "GIF").expect("a file");
    draw(&file("loose.png"), 4, 2, [9, 9, 9]);
    let source = opened(folder.path(), "");
    assert_eq!(source.examples(), 3);
    assert!(matches!(&source.shape().targets, TargetShape::Classes { names } if names == &["cat", "dog"]));
    let [remark] = source.remarks() else { panic!("{:?}", source.remarks()) };
    assert!(remark.ends_with(": `cat/a.gif`, `cat/more`, `empty`, `loose.png`"), "{remark}");
    // To predict on, any image will do, and a file by itself.
    let blind = OpenOptions { targets: false, schema: source.schema().cloned(), ..OpenOptions::default() };
    assert_eq!(opened_with(folder.path(), "", &blind).examples(), 4);
    assert_eq!(opened_with(&file("loose.png"), "", &blind).shape().features, [2, 4, 3]);
    // The classes are those of the training.
    let trained = OpenOptions { schema: source.schema().cloned(), ..OpenOptions::default() };
    let later = tempfile::tempdir().expect("a folder");
    draw(&later.path().join("dog/z.png"), 4, 2, [9, 9, 9]);
    assert_eq!(all(&*opened_with(later.path(), "", &trained)).targets, Targets::Classes(vec![1]));
    draw(&later.path().join("dogs/z.png"), 4, 2, [9, 9, 9]);
    let error = open(&format!("images:{}", later.path().display()), &trained).err().expect("an unknown class");
    assert!(error.to_string().contains("did you mean `dog`?"), "{error}");
    for (name, part) in [("cat", "a sub-folder of images for each class"), ("none", "cannot read")] {
        assert!(refused(&file(name), "").contains(part), "{}", refused(&file(name), ""));
    }
    let nothing = open(&format!("images:{}", file("empty").display()), &blind).err().expect("no image").to_string();
    assert!(nothing.contains("no files whose names end with `.jpg`"), "{nothing}");
    assert!(refused(folder.path(), "?widht=3").contains("did you mean `width`?"));
}

#[cfg(unix)]
#[test]
fn who_is_confined_reads_no_image_through_a_link_that_leads_out() {
    let (folder, outside) = (pets(), pets());
    let confined = OpenOptions { root: Some(folder.path().to_owned()), confined: true, ..OpenOptions::default() };
    assert!(open("images:.", &confined).is_ok());
    let link = folder.path().join("dog/link.png");
    std::os::unix::fs::symlink(outside.path().join("dog/a.png"), &link).expect("a link");
    let error = open("images:.", &confined).err().expect("it leads out").to_string();
    assert!(error.contains("below the data root"), "{error}");
    std::fs::remove_file(&link).expect("it is there");
    std::os::unix::fs::symlink(outside.path().join("dog"), folder.path().join("bird")).expect("a link");
    assert!(open("images:.", &confined).is_err());
}
