//! Folders of Arrow files: the same rows as Parquet files give, whatever holds them. Those of other writers are tried from Python.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Int8Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, Int8Array, Int32Array, LargeListArray,
    LargeStringArray, ListArray, RecordBatch, StringArray, StructArray, UInt8Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use paceline_data::{OpenOptions, Source, open};
use paceline_model::Batch;

type Columns<'a> = Vec<(&'a str, ArrayRef)>;

fn write(path: &Path, batches: &[Columns<'_>], packed: Option<CompressionType>) {
    let batches: Vec<RecordBatch> =
        batches.iter().map(|columns| RecordBatch::try_from_iter(columns.clone()).expect("columns")).collect();
    let options = IpcWriteOptions::default().try_with_compression(packed).expect("a way to pack");
    let file = File::create(path).expect("a file");
    let mut writer = FileWriter::try_new_with_options(file, &batches[0].schema(), options).expect("begun");
    batches.iter().for_each(|batch| writer.write(batch).expect("written"));
    writer.finish().expect("written");
}

fn lists(rows: impl Iterator<Item = [f32; 3]>) -> ListArray {
    ListArray::from_iter_primitive::<Float32Type, _, _>(rows.map(|row| Some(row.map(Some))))
}

/// Some rows, in one of several ways to hold the same.
fn rows(from: usize, to: usize, way: usize) -> Columns<'static> {
    let features = move || (from..to).map(|at| [at as f32, at as f32 + 0.25, -(at as f32)]);
    let some = move || features().map(|row| Some(row.map(Some)));
    let names = (from..to).map(|at| ["ape", "bee", "cat"][at % 3]);
    let features: ArrayRef = match way {
        0 => Arc::new(lists(features())),
        1 => Arc::new(LargeListArray::from_iter_primitive::<Float32Type, _, _>(some())),
        _ => Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(some(), 3)),
    };
    let names: ArrayRef = match way {
        0 => Arc::new(StringArray::from_iter_values(names)),
        1 => Arc::new(LargeStringArray::from_iter_values(names)),
        _ => {
            // A file has one dictionary for all its rows.
            let keys = Int8Array::from_iter_values((from..to).map(|at| (at % 3) as i8));
            let words = StringArray::from_iter_values(["ape", "bee", "cat"]);
            Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(words)))
        }
    };
    let labels: ArrayRef = match way {
        0 => Arc::new(Int32Array::from_iter_values((from..to).map(|at| (at % 2) as i32))),
        1 => Arc::new(UInt8Array::from_iter_values((from..to).map(|at| (at % 2) as u8))),
        _ => Arc::new(BooleanArray::from_iter((from..to).map(|at| Some(at % 2 == 1)))),
    };
    let ages = Float64Array::from_iter_values((from..to).map(|at| at as f64 / 2.0));
    vec![("features", features), ("age", Arc::new(ages)), ("label", labels), ("name", names)]
}

fn shards(path: &Path, query: &str) -> Result<Arc<dyn Source>, String> {
    open(&format!("shards:{}?{query}", path.display()), &OpenOptions::default()).map_err(|error| error.to_string())
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("examples");
    batch
}

#[test]
fn rows_are_the_same_however_they_are_held_and_packed() {
    let queries = ["drop=name&label=label&weight=age", "columns=features,age&label=name", "columns=age&label=features"];
    for query in queries {
        let mut expected: Option<Batch> = None;
        for packed in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            for way in 0..3 {
                let folder = tempfile::tempdir().expect("a folder");
                // More rows than are decoded at a time, and a part of a file without any.
                let parts = [rows(0, 5000, way), rows(5000, 5000, way), rows(5000, 5003, way)];
                write(&folder.path().join("part-0.arrow"), &parts, packed);
                write(&folder.path().join("part-1.feather"), &[rows(5003, 6000, way)], packed);
                let source = shards(folder.path(), query).expect("a source");
                assert_eq!(source.examples(), 6000);
                let found = all(&*source);
                assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{query}, {packed:?}, way {way}");
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.arrow"), &[rows(0, 4, 2)], None);
    let found = all(&*shards(folder.path(), "columns=features&label=age").expect("a source"));
    assert_eq!(found.features, [0.0, 0.25, 0.0, 1.0, 1.25, -1.0, 2.0, 2.25, -2.0, 3.0, 3.25, -3.0]);
}

#[test]
fn what_is_wrong_is_named_with_its_file_column_and_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.arrow");
    let told = |columns: Columns<'_>, query: &str| {
        write(&path, &[columns], None);
        shards(&path, query).err().expect("an error")
    };
    let one = |column: ArrayRef| vec![("features", column)];
    let ragged = [vec![Some(1.0), Some(2.0)], vec![Some(1.0), Some(2.0)], vec![Some(1.0)]];
    let ragged = ListArray::from_iter_primitive::<Float32Type, _, _>(ragged.into_iter().map(Some));
    let ragged = told(one(Arc::new(ragged)), "");
    assert!(ragged.contains("a.arrow") && ragged.contains("row 2") && ragged.contains("2 elsewhere"), "{ragged}");
    let empty = [vec![Some(1.0)], vec![]];
    let empty = ListArray::from_iter_primitive::<Float32Type, _, _>(empty.into_iter().map(Some));
    assert!(told(one(Arc::new(empty)), "").contains("an empty list"));
    let within = [vec![Some(1.0)], vec![None]];
    let within = ListArray::from_iter_primitive::<Float32Type, _, _>(within.into_iter().map(Some));
    assert!(told(one(Arc::new(within)), "").contains("row 1"));
    let null = told(one(Arc::new(Float64Array::from(vec![Some(1.0), None]))), "");
    assert!(null.contains("row 1") && null.contains("null"), "{null}");
    let nothing = ListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![Some(1.0)]), None]);
    assert!(told(one(Arc::new(nothing)), "").contains("row 1"));
    let inner: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let structure = StructArray::try_from(vec![("x", inner)]).expect("a structure");
    assert!(told(one(Arc::new(structure)), "").contains("a structure"));
    assert!(told(rows(0, 3, 0), "label=lable").contains("did you mean `label`?"));
    assert!(told(rows(0, 3, 0), "label=label").contains("texts; leave it out"));
}

#[test]
fn a_damaged_file_is_refused_and_breaks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.arrow");
    for packed in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        write(&path, &[rows(0, 50, 2), rows(50, 90, 2)], packed);
        let whole = std::fs::read(&path).expect("a file");
        for length in [0, 5, 12, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("a file");
            assert!(shards(&path, "label=name").is_err_and(|error| error.contains("a.arrow")), "cut to {length}");
        }
        for at in (0..whole.len()).step_by(5) {
            // Whatever it is taken for, it is a sentence or a source.
            let mut damaged = whole.clone();
            damaged[at] ^= 0x80 | (at % 128) as u8;
            std::fs::write(&path, &damaged).expect("a file");
            if let Err(error) = shards(&path, "label=name") {
                assert!(error.contains("a.arrow"), "{error}");
            }
        }
    }
}
