//! Folders of Parquet files, written here by the same library that reads them; those of other writers are tried from Python.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use paceline_data::{OpenOptions, Source, TargetShape, open};
use paceline_model::{Batch, Targets};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

const SCHEMA: &str = "message m {
    OPTIONAL GROUP features (LIST) { REPEATED GROUP list { OPTIONAL FLOAT element; } }
    REQUIRED DOUBLE age;
    OPTIONAL INT32 label;
    OPTIONAL BYTE_ARRAY name (UTF8);
}";

/// One row: three features (`None` is null), an age, a label, a name.
type Row = (Option<[f32; 3]>, f64, Option<i32>, &'static str);

fn rows(from: usize, to: usize) -> Vec<Row> {
    let row = |at: usize| {
        let x = at as f32;
        (Some([x, x + 0.25, -x]), at as f64 / 2.0, Some((at % 3) as i32), ["ape", "bee", "cat"][at % 3])
    };
    (from..to).map(row).collect()
}

/// Writes a file whose groups have `group` rows.
fn write(path: &Path, rows: &[Row], group: usize) {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut writer = SerializedFileWriter::new(File::create(path).expect("a file"), schema, properties).expect("begun");
    for rows in rows.chunks(group) {
        let mut group = writer.next_row_group().expect("a group");
        write_columns(&mut group, rows);
        group.close().expect("written");
    }
    writer.close().expect("written");
}

fn write_columns(group: &mut SerializedRowGroupWriter<'_, File>, rows: &[Row]) {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for (features, ..) in rows {
        match features {
            Some(features) => {
                values.extend_from_slice(features);
                definitions.extend_from_slice(&[3, 3, 3]);
                repetitions.extend_from_slice(&[0, 1, 1]);
            }
            None => (definitions.push(0), repetitions.push(0)).0,
        }
    }
    let mut column = group.next_column().expect("a column").expect("the first");
    column.typed::<FloatType>().write_batch(&values, Some(&definitions), Some(&repetitions)).expect("written");
    column.close().expect("written");
    let ages: Vec<f64> = rows.iter().map(|row| row.1).collect();
    let mut column = group.next_column().expect("a column").expect("the second");
    column.typed::<DoubleType>().write_batch(&ages, None, None).expect("written");
    column.close().expect("written");
    let labels: Vec<i32> = rows.iter().filter_map(|row| row.2).collect();
    let there: Vec<i16> = rows.iter().map(|row| i16::from(row.2.is_some())).collect();
    let mut column = group.next_column().expect("a column").expect("the third");
    column.typed::<Int32Type>().write_batch(&labels, Some(&there), None).expect("written");
    column.close().expect("written");
    let names: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(row.3)).collect();
    let mut column = group.next_column().expect("a column").expect("the fourth");
    column.typed::<ByteArrayType>().write_batch(&names, Some(&vec![1; names.len()]), None).expect("written");
    column.close().expect("written");
}

/// A folder of 10,000 rows in two files, with what other tools leave beside them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("part-1.parquet"), &rows(6000, 10_000), 4000);
    write(&folder.path().join("part-0.parquet"), &rows(0, 6000), 2500);
    std::fs::write(folder.path().join("_SUCCESS"), "").expect("a file");
    std::fs::write(folder.path().join(".part-0.parquet.crc"), "x").expect("a file");
    folder
}

fn shards(folder: &Path, query: &str, options: &OpenOptions) -> Result<Arc<dyn Source>, String> {
    open(&format!("shards:{}?{query}", folder.display()), options).map_err(|error| error.to_string())
}

fn read(source: &dyn Source, indices: &[u64]) -> Batch {
    let mut batch = Batch::empty();
    source.read(indices, &mut batch).expect("examples");
    batch
}

#[test]
fn rows_are_examples_in_the_order_of_the_files() {
    let folder = folder();
    let source = shards(folder.path(), "columns=features,age&label=label&weight=age", &OpenOptions::default())
        .expect("a source");
    assert_eq!((source.examples(), source.shape().width(), source.weighted()), (10_000, 4, true));
    let names = ["0", "1", "2"].map(str::to_owned).to_vec();
    assert_eq!(source.shape().targets, TargetShape::Classes { names });
    let batch = read(&*source, &[0, 5999, 6001, 9999]);
    assert_eq!(batch.features[4..12], [5999.0, 5999.25, -5999.0, 2999.5, 6001.0, 6001.25, -6001.0, 3000.5]);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 2, 1, 0]));
    assert_eq!(batch.weights, Some(vec![0.0, 2999.5, 3000.5, 4999.5]));
}

#[test]
fn beyond_the_limit_rows_are_kept_in_a_file_and_are_the_same() {
    let folder = folder();
    for query in [
        "drop=name&label=label",
        "columns=features&label=age,label&weight=age",
        "columns=features&label=name&shape=1x3x1",
    ] {
        let whole = shards(folder.path(), query, &OpenOptions::default()).expect("a source");
        let small = OpenOptions { memory_limit: 1000, ..OpenOptions::default() };
        let spilled = shards(folder.path(), query, &small).expect("a source");
        assert_eq!(whole.shape(), spilled.shape(), "{query}");
        assert_eq!(whole.schema(), spilled.schema(), "{query}");
        assert_eq!((whole.order(), whole.weighted()), (spilled.order(), spilled.weighted()));
        let indices: Vec<u64> = (0..10_000).rev().step_by(7).collect();
        let (one, two) = (read(&*whole, &indices), read(&*spilled, &indices));
        assert_eq!((one.features, one.targets, one.weights), (two.features, two.targets, two.weights), "{query}");
    }
}

#[test]
fn labels_are_classes_by_their_kind_or_as_it_is_said() {
    let folder = folder();
    let targets = |query: &str| {
        let source = shards(folder.path(), &format!("columns=features&{query}"), &OpenOptions::default());
        source.map(|source| source.shape().targets.clone())
    };
    let classes = |names: [&str; 3]| Ok(TargetShape::Classes { names: names.map(str::to_owned).to_vec() });
    let values = |name: &str| Ok(TargetShape::Values { names: vec![name.to_owned()] });
    assert_eq!(targets("label=name"), classes(["ape", "bee", "cat"]));
    assert_eq!(targets("label=name&classes=cat,bee,ape"), classes(["cat", "bee", "ape"]));
    assert_eq!(targets("label=label"), classes(["0", "1", "2"]));
    assert_eq!(targets("label=label&task=regression"), values("label"));
    assert_eq!(targets("label=age"), values("age"));
    assert!(targets("label=name&classes=cat,ape").is_err_and(|error| error.contains("`bee` is none of the 2 classes")));
    assert!(targets("label=name&task=regression").is_err_and(|error| error.contains("texts")));
    // What is only to be predicted needs no label.
    let without = OpenOptions { targets: false, ..OpenOptions::default() };
    let source = shards(folder.path(), "columns=features&label=not_there", &without).expect("a source");
    assert_eq!(source.shape().targets, TargetShape::None);
}

#[test]
fn what_is_wrong_is_named_with_its_file_column_and_row() {
    let folder = folder();
    let wrong = |query: &str| shards(folder.path(), query, &OpenOptions::default()).err().unwrap_or_default();
    let error = wrong("columns=featurs&label=label");
    assert!(error.contains("did you mean `features`?") && error.contains("part-0.parquet"), "{error}");
    assert!(wrong("label=label").contains("column `name`, row 0: expected numbers, found texts"));
    assert!(wrong("columns=features&shape=2x2x1").contains("3 numbers"));
    for (bad, what) in [((None, 1.0, Some(1), "ape"), "`features`"), ((Some([0.0; 3]), 1.0, None, "ape"), "`label`")] {
        let mut damaged = rows(0, 5000);
        damaged[4500] = bad;
        write(&folder.path().join("part-2.parquet"), &damaged, 3000);
        let error = wrong("columns=features&label=label&classes=0,1,2");
        assert!(error.contains("part-2.parquet") && error.contains("row 4500") && error.contains(what), "{error}");
    }
    let mut damaged = rows(0, 10);
    damaged[3].0 = Some([0.0, f32::INFINITY, 0.0]);
    write(&folder.path().join("part-2.parquet"), &damaged, 10);
    assert!(wrong("columns=features&label=label").contains("row 3: expected finite numbers"));
    let whole = std::fs::read(folder.path().join("part-0.parquet")).expect("a file");
    for cut in [&[][..], b"PAR1", &whole[..whole.len() / 2], &whole[whole.len() / 2..]] {
        std::fs::write(folder.path().join("part-2.parquet"), cut).expect("a file");
        let error = wrong("columns=features&label=label");
        assert!(error.contains("part-2.parquet` cannot be read as Parquet"), "{error}");
    }
    let empty = tempfile::tempdir().expect("a folder");
    let error = shards(empty.path(), "", &OpenOptions::default()).err().unwrap_or_default();
    assert!(error.contains(".parquet"), "{error}");
}
