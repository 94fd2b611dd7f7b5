use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_data::{Error, IdxData, IdxFile, NormaliserKind, OpenOptions, Schema, Source, TargetShape, open};
use paceline_model::{Batch, Targets};

fn idx(kind: u8, dimensions: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, dimensions.len() as u8];
    dimensions.iter().for_each(|dimension| bytes.extend(dimension.to_be_bytes()));
    bytes.extend(content);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open_pair(images: &[u8], labels: &[u8], schema: Option<Schema>) -> Result<Arc<dyn Source>, Error> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "images", images);
    write(folder.path(), "labels", labels);
    let options = OpenOptions { root: Some(folder.path().to_owned()), schema, ..OpenOptions::default() };
    open("idx:images,labels", &options)
}

fn read(source: &dyn Source, indices: &[u64]) -> Batch {
    let mut batch = Batch::empty();
    source.read(indices, &mut batch).unwrap();
    batch
}

#[test]
fn byte_images_and_labels_are_read_plain_and_compressed() {
    let (images, labels) = (idx(8, &[3, 1, 2], &[0, 255, 1, 2, 3, 4]), idx(8, &[3], &[2, 0, 1]));
    for (images, labels) in [(images.clone(), labels.clone()), (gzip(&images), gzip(&labels))] {
        let source = open_pair(&images, &labels, None).unwrap();
        assert_eq!(source.shape().features, [1, 2, 1]);
        assert_eq!(source.default_normaliser(), NormaliserKind::Image);
        let batch = read(&*source, &[2, 0]);
        assert_eq!(batch.features, [3.0, 4.0, 0.0, 255.0]);
        assert_eq!(batch.targets, Targets::Classes(vec![1, 2]));
        let names = ["0", "1", "2"].map(str::to_owned).to_vec();
        assert_eq!(source.shape().targets, TargetShape::Classes { names });
    }
}

#[test]
fn every_number_type_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let of = |kind, content: &[u8]| IdxFile::read(&write(folder.path(), "x", &idx(kind, &[2], content))).unwrap().data;
    assert_eq!(of(8, &[1, 255]), IdxData::Bytes(vec![1, 255]));
    assert_eq!(of(9, &[1, 255]), IdxData::Integers(vec![1, -1]));
    assert_eq!(of(11, &[1, 0, 255, 254]), IdxData::Integers(vec![256, -2]));
    assert_eq!(of(12, &[0, 1, 0, 0, 255, 255, 255, 253]), IdxData::Integers(vec![65536, -3]));
    assert_eq!(of(13, &[1.5f32.to_be_bytes(), (-2.0f32).to_be_bytes()].concat()), IdxData::Floats(vec![1.5, -2.0]));
    assert_eq!(of(14, &[0.25f64.to_be_bytes(), 3.0f64.to_be_bytes()].concat()), IdxData::Floats(vec![0.25, 3.0]));
}

#[test]
fn rows_colour_images_and_values_to_predict_are_read() {
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
    let rows =
        open_pair(&idx(13, &[2, 3], &floats(&[1., 2., 3., 4., 5., 6.])), &idx(13, &[2], &floats(&[0.5, 7.])), None);
    let rows = rows.unwrap();
    assert_eq!(rows.shape().features, [3]);
    assert_eq!(read(&*rows, &[1]).targets, Targets::Values { width: 1, values: vec![7.0] });
    let colour = open_pair(&idx(8, &[1, 1, 2, 3], &[1, 2, 3, 4, 5, 6]), &idx(12, &[1], &[0, 0, 0, 1]), None).unwrap();
    assert_eq!(colour.shape().features, [1, 2, 3]);
    let nan = open_pair(&idx(13, &[1, 1], &floats(&[f32::NAN])), &idx(8, &[1], &[0]), None).err().unwrap();
    assert!(matches!(nan, Error::NotFinite { example: 0, .. }), "{nan}");
}

#[test]
fn labels_may_be_left_out_only_when_no_targets_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "images", &idx(8, &[1, 2], &[1, 2]));
    let with = |targets| OpenOptions { root: Some(folder.path().to_owned()), targets, ..OpenOptions::default() };
    assert_eq!(open("idx:images", &with(false)).unwrap().shape().targets, TargetShape::None);
    let message = open("idx:images", &with(true)).err().unwrap().to_string();
    assert!(message.contains("`images,labels`"), "{message}");
}

#[test]
fn the_classes_of_a_trained_model_bound_the_labels() {
    let schema = Schema::of_classes(["a", "b", "c"].map(str::to_owned).to_vec());
    let images = idx(8, &[2, 1], &[0, 0]);
    let source = open_pair(&images, &idx(8, &[2], &[0, 1]), Some(schema.clone())).unwrap();
    assert_eq!(source.schema().unwrap().class_names().unwrap().len(), 3);
    let error = open_pair(&images, &idx(8, &[2], &[0, 3]), Some(schema)).err().unwrap();
    assert!(matches!(error, Error::LabelOutOfRange { example: 1, found: 3, last: 2, .. }), "{error}");
    let negative = open_pair(&images, &idx(9, &[2], &[0, 255]), None).err().unwrap();
    assert!(matches!(negative, Error::LabelOutOfRange { found: -1, .. }), "{negative}");
    let damaged = open_pair(&images, &idx(12, &[2], &[0, 0, 0, 0, 127, 0, 0, 0]), None).err().unwrap();
    assert!(matches!(damaged, Error::LabelOutOfRange { example: 1, .. }), "{damaged}");
    let count = open_pair(&images, &idx(8, &[3], &[0, 1, 1]), None).err().unwrap();
    assert!(matches!(count, Error::LabelCount { examples: 2, labels: 3, .. }), "{count}");
}

#[test]
fn a_file_that_lies_is_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let message = |bytes: &[u8]| {
        let error = IdxFile::read(&write(folder.path(), "bad.idx", bytes)).unwrap_err();
        assert!(error.to_string().contains("bad.idx"), "{error}");
        error
    };
    let huge = idx(14, &[u32::MAX, u32::MAX, u32::MAX, u32::MAX], &[1, 2, 3]);
    for lying in [idx(8, &[1000], &[1; 10]), idx(8, &[10], &[1; 11]), huge.clone(), idx(8, &[u32::MAX], &[0; 9])] {
        assert!(matches!(message(&lying), Error::IdxLength { .. }));
        assert!(matches!(message(&gzip(&lying)), Error::IdxLength { .. }));
    }
    assert!(
        message(&idx(8, &[1000], &[1; 10])).to_string().contains("promises 1008 bytes in its header, but holds 18")
    );
    for magic in [&b""[..], b"P5", b"\0\0\x08\0", b"\0\0\x0a\x01\0\0\0\0", b"\x01\0\x08\x01\0\0\0\0", b"label,x\n"] {
        assert!(matches!(message(magic), Error::IdxMagic { .. }), "{magic:?}");
    }
    assert!(matches!(message(&[0, 0, 8, 3, 0, 0]), Error::IdxLength { .. }));
    // Random bytes do not compress: half of them is really missing.
    let noise: Vec<u8> = (0..5000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let whole = gzip(&idx(8, &[5000], &noise));
    assert!(matches!(message(&whole[..whole.len() / 2]), Error::BrokenGzip { .. }));
}
