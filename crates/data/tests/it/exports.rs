use std::path::Path;

use paceline_data::{ExportFormat, OpenOptions, Source, TargetShape, export, open};
use paceline_model::Batch;

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).unwrap();
    batch
}

fn reopened(folder: &Path, spec: &str) -> Batch {
    let options = OpenOptions { root: Some(folder.to_owned()), ..OpenOptions::default() };
    all(&*open(spec, &options).unwrap())
}

#[test]
fn digits_come_back_from_both_formats_as_they_went() {
    let folder = tempfile::tempdir().unwrap();
    let digits = open("digits:", &OpenOptions::default()).unwrap();
    let files = export(&*digits, folder.path(), ExportFormat::Idx).unwrap();
    assert_eq!(files, [folder.path().join("features.idx"), folder.path().join("labels.idx")]);
    // 16 bytes of header for rank 3: the pixels stayed bytes.
    assert_eq!(files[0].metadata().unwrap().len(), 16 + 1797 * 64);
    assert_eq!(reopened(folder.path(), "idx:features.idx,labels.idx"), all(&*digits));
    export(&*digits, folder.path(), ExportFormat::Csv).unwrap();
    assert_eq!(reopened(folder.path(), "csv:examples.csv?label=label"), all(&*digits));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing temporary is left: {left:?}");
}

#[test]
fn a_weighted_regression_table_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), "a,y,w\n0.1,1.5,2\n-3e-9,7,0.25\n").unwrap();
    let options = OpenOptions { root: Some(folder.path().to_owned()), ..OpenOptions::default() };
    let source = open("csv:t.csv?label=y&weight=w", &options).unwrap();
    assert!(matches!(source.shape().targets, TargetShape::Values { .. }));
    export(&*source, folder.path(), ExportFormat::Csv).unwrap();
    assert_eq!(reopened(folder.path(), "csv:examples.csv?label=y&weight=weight"), all(&*source));
    export(&*source, folder.path(), ExportFormat::Idx).unwrap();
    let floats = reopened(folder.path(), "idx:features.idx,labels.idx");
    assert_eq!(floats, Batch { weights: None, ..all(&*source) });
}
