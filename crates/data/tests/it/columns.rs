//! Columns of tables that are more than numbers and categories: dates, texts among several labels, and columns of Parquet by their names.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use paceline_data::{ColumnKind, Division, LabelType, OpenOptions, Source, TargetShape, image_files, open, survey};
use paceline_model::{Batch, Targets};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

fn in_folder(folder: &Path) -> OpenOptions {
    OpenOptions { root: Some(folder.to_owned()), ..OpenOptions::default() }
}

fn opened(folder: &Path, spec: &str) -> Arc<dyn Source> {
    open(spec, &in_folder(folder)).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn refused(folder: &Path, spec: &str, like: &dyn Source) -> String {
    let options = OpenOptions { schema: like.schema().cloned(), ..in_folder(folder) };
    open(spec, &options).err().expect(spec).to_string()
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("read");
    batch
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("written");
}

#[test]
fn dates_are_days_and_later_files_must_have_dates_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "t.csv", "when,y\n2024-01-31,a\n2024-02-01,b\n2024-03-01T12:00:00Z,a\n,b\n");
    let source = opened(at, "csv:t.csv?label=y&missing=value:0");
    let schema = source.schema().expect("a schema");
    let ColumnKind::Number { shift, is_date: true, .. } = schema.columns[0].kind else { panic!("{schema:?}") };
    let days: Vec<f64> = all(&*source).features.iter().map(|value| f64::from(*value) + shift).collect();
    assert_eq!(days, [19_753.0, 19_754.0, 19_783.5, 0.0]);
    let remarks = source.remarks().join("\n");
    assert!(remarks.contains("column `when`") && remarks.contains("days since 1970-01-01"), "{remarks}");
    write(at, "bad.csv", "when,y\n31.01.2024,a\n");
    let error = refused(at, "csv:bad.csv?label=y", &*source);
    assert!(error.contains("line 2, column `when`: expected a date such as 2024-01-31"), "{error}");
    // One text that is no date makes a category of the column, as does the option.
    write(at, "mixed.csv", "when,y\n2024-01-31,a\nsoon,b\n");
    assert_eq!(opened(at, "csv:mixed.csv?label=y").shape().features, [2]);
    assert_eq!(opened(at, "csv:t.csv?label=y&categories=when&missing=drop").shape().features, [3]);
    let columns = survey("csv:t.csv", &in_folder(at)).expect("read").expect("a table");
    assert_eq!((columns[0].kind(), columns[0].missing), ("date", 1));
}

#[test]
fn texts_among_several_labels_are_classes_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(
        at,
        "t.csv",
        "x,colour,size,weight\n1,red,small,0.5\n2,blue,large,1.5\n3,green,small,2.5\n4,blue,large,3.5\n",
    );
    let source = opened(at, "csv:t.csv?label=colour,size,weight");
    let schema = source.schema().expect("a schema");
    assert_eq!(schema.target_classes, [vec!["blue", "green", "red"], vec!["large", "small"], vec![]]);
    let Targets::Values { width: 3, values } = all(&*source).targets else { panic!("a number for each label") };
    assert_eq!(values, [2.0, 1.0, 0.5, 0.0, 0.0, 1.5, 1.0, 1.0, 2.5, 0.0, 0.0, 3.5]);
    write(at, "other.csv", "size,x,weight,colour\nlarge,9,1,green\n");
    let options = OpenOptions { schema: Some(schema.clone()), ..in_folder(at) };
    let other = open("csv:other.csv", &options).expect("the same columns");
    assert!(matches!(all(&*other).targets, Targets::Values { values, .. } if values == [1.0, 0.0, 1.0]));
    write(at, "unknown.csv", "x,colour,size,weight\n1,blu,small,1\n");
    let error = refused(at, "csv:unknown.csv", &*source);
    assert!(error.contains("column `colour`: `blu` is none of the 3") && error.contains("`blue`"), "{error}");
}

#[test]
fn labels_that_look_like_numbers_and_numbers_of_sequences_are_remarked_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let row = |row: usize| format!("{row},${}\n", row % 3);
    write(at, "t.csv", &format!("x,price\n{}", (0..30).map(row).collect::<String>()));
    let source = opened(at, "csv:t.csv?label=price");
    assert_eq!(source.schema().map(|schema| schema.labels), Some(LabelType::Text));
    let remarks = source.remarks().join("\n");
    assert!(remarks.contains("the label `price`") && remarks.contains("each becomes a class"), "{remarks}");
    let step = |row: usize| format!("s{},{row},{}.5\n", row / 2, row / 2);
    write(at, "s.csv", &format!("id,x,y\n{}", (0..12).map(step).collect::<String>()));
    let remarks = opened(at, "sequences:s.csv?id=id&label=y").remarks().join("\n");
    assert!(remarks.contains("column `y` are taken for 6 classes") && remarks.contains("task=regression"), "{remarks}");
    assert!(opened(at, "sequences:s.csv?id=id&label=y&task=classes").remarks().is_empty(), "it was said");
}

#[test]
fn targets_of_sequences_far_from_zero_keep_their_differences() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let value = |row: i64| 1_700_000_000_000 + row * 1000 + row % 3;
    let step = |row: i64| format!("s{},{row},{}\n", row / 2, value(row));
    write(at, "s.csv", &format!("id,x,y\n{}", (0..80).map(step).collect::<String>()));
    for (spec, each) in [
        ("sequences:s.csv?id=id&label=y&task=regression", 1),
        ("sequences:s.csv?id=id&label=y&task=regression&each=step", 2),
    ] {
        let source = opened(at, spec);
        let shifts = source.schema().expect("a schema").target_shifts().to_vec();
        let Targets::Values { width, values } = all(&*source).targets else { panic!("numbers") };
        assert_eq!((width, shifts.len()), (each, each), "{spec}");
        for (place, found) in values.iter().enumerate() {
            let row = if each == 1 { 2 * place as i64 + 1 } else { place as i64 };
            let found = f64::from(*found) + shifts[place % each];
            assert!((found - value(row) as f64).abs() < 0.01, "{spec}, {row}: {found}");
        }
        let options = OpenOptions { schema: source.schema().cloned(), ..in_folder(at) };
        let again = open(spec, &options).expect("the same columns");
        assert_eq!(all(&*again).targets, all(&*source).targets, "{spec}");
    }
}

#[test]
fn labels_that_are_whole_numbers_are_known_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "t.csv", "id,x,y\na,1,0\nb,2,1\nc,3,0\nd,4,1\n");
    write(at, "u.csv", "id,x,y\na,1,low\nb,2,high\n");
    for (spec, labels) in [
        ("csv:t.csv?label=y&drop=id", LabelType::Integer),
        ("sequences:t.csv?id=id&label=y", LabelType::Integer),
        ("csv:u.csv?label=y&drop=id", LabelType::Text),
        ("sequences:u.csv?id=id&label=y", LabelType::Text),
    ] {
        assert_eq!(opened(at, spec).schema().map(|schema| schema.labels), Some(labels), "{spec}");
    }
}

/// A Parquet file with the columns in this order.
fn parquet(path: &Path, order: &[&str], rows: &[(f64, i64, i32, &str)]) {
    let column = |name: &&str| {
        let (physical, logical, converted) = match *name {
            "size" => (Physical::DOUBLE, None, ConvertedType::NONE),
            "when" => (Physical::INT64, None, ConvertedType::NONE),
            "day" => (Physical::INT32, Some(LogicalType::Date), ConvertedType::NONE),
            _ => (Physical::BYTE_ARRAY, Some(LogicalType::String), ConvertedType::UTF8),
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        let builder = builder.with_logical_type(logical).with_converted_type(converted);
        Arc::new(builder.build().expect("a column"))
    };
    let schema = Type::group_type_builder("t").with_fields(order.iter().map(column).collect());
    let schema = Arc::new(schema.build().expect("a schema"));
    let file = File::create(path).expect("a file");
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build())).expect("begun");
    let mut group = writer.next_row_group().expect("a group");
    for name in order {
        let mut column = group.next_column().expect("a column").expect("there is one");
        match *name {
            "size" => drop(column.typed::<DoubleType>().write_batch(
                &rows.iter().map(|row| row.0).collect::<Vec<_>>(),
                None,
                None,
            )),
            "when" => drop(column.typed::<Int64Type>().write_batch(
                &rows.iter().map(|row| row.1).collect::<Vec<_>>(),
                None,
                None,
            )),
            "day" => drop(column.typed::<Int32Type>().write_batch(
                &rows.iter().map(|row| row.2).collect::<Vec<_>>(),
                None,
                None,
            )),
            _ => drop(column.typed::<ByteArrayType>().write_batch(
                &rows.iter().map(|row| ByteArray::from(row.3)).collect::<Vec<_>>(),
                None,
                None,
            )),
        }
        column.close().expect("written");
    }
    group.close().expect("written");
    writer.close().expect("written");
}

fn rows(kinds: &[&'static str]) -> Vec<(f64, i64, i32, &'static str)> {
    (0..kinds.len()).map(|at| (at as f64 / 2.0, 1_700_000_000_000 + at as i64, 19_753 + at as i32, kinds[at])).collect()
}

#[test]
fn columns_of_parquet_are_matched_by_name_and_keep_their_offsets() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rows = rows(&["a", "b"].repeat(20));
    parquet(&at.join("t.parquet"), &["size", "when", "day", "kind"], &rows);
    parquet(&at.join("swapped.parquet"), &["kind", "day", "size", "when"], &rows);
    parquet(&at.join("lacks.parquet"), &["size", "day", "kind"], &rows);
    let source = opened(at, "parquet:t.parquet?label=kind");
    let schema = source.schema().expect("a schema");
    assert_eq!(schema.feature_names(), ["size", "when", "day"]);
    let shifts = schema.shifts();
    let batch = all(&*source);
    for (row, (size, when, day, _)) in rows.iter().enumerate() {
        let found: Vec<f64> = batch.row(row).iter().zip(&shifts).map(|(value, by)| f64::from(*value) + by).collect();
        assert_eq!(found, [*size, *when as f64, f64::from(*day)], "row {row}");
    }
    let options = OpenOptions { schema: Some(schema.clone()), ..in_folder(at) };
    let swapped = open("parquet:swapped.parquet?label=kind", &options).expect("the same columns");
    // The model knows its label, too.
    let known = open("parquet:swapped.parquet", &options).expect("the same columns");
    assert_eq!(all(&*known).targets, all(&*swapped).targets);
    assert_eq!(all(&*swapped).features, batch.features);
    let error = refused(at, "parquet:lacks.parquet?label=kind", &*source);
    assert!(error.contains("has no column `when`"), "{error}");
    // A table of the same columns in text is the same data.
    let text: String = rows.iter().map(|(size, when, day, kind)| format!("{kind},{when},{day},{size}\n")).collect();
    write(at, "t.csv", &format!("kind,when,day,size\n{text}"));
    assert_eq!(all(&*open("csv:t.csv?label=kind", &options).expect("the same columns")).features, batch.features);
}

#[test]
fn held_out_rows_of_parquet_have_no_say_in_classes_and_offsets() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let split = |disturbed: &[u64]| {
        let mut rows = rows(&["a", "b"].repeat(30));
        for row in disturbed {
            rows[*row as usize].1 += 1 << 40;
        }
        parquet(&at.join("t.parquet"), &["size", "when", "kind"], &rows);
        Division::by_chance(opened(at, "parquet:t.parquet?label=kind"), 3).split(0.7).expect("parts")
    };
    let (learned, held_out) = split(&[]);
    let places = all(&*held_out).indices;
    let (other, _) = split(&places);
    let bits = |source: &dyn Source| all(source).features.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!((bits(&*learned), learned.schema()), (bits(&*other), other.schema()));
    // A class that only held-out rows have is an error with its remedies.
    let mut all_rows = rows(&["a", "b"].repeat(30));
    all_rows[places[0] as usize].3 = "rare";
    parquet(&at.join("t.parquet"), &["size", "when", "kind"], &all_rows);
    let error = Division::by_chance(opened(at, "parquet:t.parquet?label=kind"), 3).split(0.7).err().expect("refused");
    let error = error.to_string();
    assert!(error.contains("`rare` is none of the 2 classes") && error.contains("classes=a,b,c"), "{error}");
    let named = opened(at, "parquet:t.parquet?label=kind&classes=a,b,rare");
    let (learned, _) = Division::by_chance(named, 3).split(0.7).expect("all classes are named");
    assert!(matches!(&learned.shape().targets, TargetShape::Classes { names } if names.len() == 3));
}

#[test]
fn files_of_images_are_named_in_the_order_of_the_examples() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b/2.png", "a/9.png", "a/10.png"] {
        let path = folder.path().join("shots").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        image::GrayImage::new(2, 2).save(path).expect("an image");
    }
    let names = image_files("images:shots", &in_folder(folder.path())).expect("read").expect("images");
    let examples = opened(folder.path(), "images:shots");
    assert_eq!((names.len(), examples.examples()), (3, 3));
    let classes: Vec<u32> = names.iter().map(|name| u32::from(name.starts_with('b'))).collect();
    assert_eq!(all(&*examples).targets, Targets::Classes(classes), "{names:?}");
    let one = image_files("images:shots/a/9.png", &in_folder(folder.path())).expect("read").expect("an image");
    assert_eq!(one, ["9.png"]);
    assert_eq!(image_files("digits:", &in_folder(folder.path())).expect("read"), None);
}

#[test]
fn a_name_on_top_of_texts_that_come_again_is_a_header_whatever_stands_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let row = |row: usize| format!("{},{}.5,{}.25,{}\n", ["DE", "FR"][row % 2], row, row, ["yes", "no"][row / 2 % 2]);
    let rows: String = (0..40).map(row).collect();
    write(at, "years.csv", &format!("country,2019,2020,grew\n{rows}"));
    let error = open("csv:years.csv?label=-1", &in_folder(at)).err().expect("refused").to_string();
    assert!(
        error.contains("`country` seems to be a name")
            && error.contains("`header=yes`")
            && error.contains("`header=no`"),
        "{error}"
    );
    assert!(survey("csv:years.csv", &in_folder(at)).is_err(), "`init` says so, too");
    assert_eq!(opened(at, "csv:years.csv?label=grew&header=yes").examples(), 40);
    assert_eq!(opened(at, "csv:years.csv?label=3&header=no").examples(), 41);
    // Without a header the texts of the first line come again.
    write(at, "plain.csv", &rows);
    assert_eq!(opened(at, "csv:plain.csv?label=3").examples(), 40);
}

#[test]
fn several_labels_are_matched_by_name_and_others_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let row = |row: usize| format!("{row},{},{}\n", ["yes", "no"][row % 2], ["yes", "no"][row / 2 % 2]);
    write(at, "t.csv", &format!("x,sick,rich\n{}", (0..8).map(row).collect::<String>()));
    let source = opened(at, "csv:t.csv?label=sick,rich");
    let options = OpenOptions { schema: source.schema().cloned(), ..in_folder(at) };
    let turned = open("csv:t.csv?label=rich,sick", &options).expect("the same labels");
    assert_eq!(all(&*turned).targets, all(&*source).targets);
    let error = open("csv:t.csv?label=rich,x", &options).err().expect("refused").to_string();
    assert!(error.contains("expected `sick,rich`, as in training, found `rich,x`"), "{error}");
}

#[test]
fn a_target_that_never_changes_keeps_its_last_digit() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "t.csv", &format!("x,y\n{}", (0..20).map(|row| format!("{row},1700000001\n")).collect::<String>()));
    let source = opened(at, "csv:t.csv?label=y&task=regression");
    let Targets::Values { values, .. } = all(&*source).targets else { panic!("numbers") };
    let shift = source.schema().expect("a schema").target_shifts()[0];
    assert!(values.iter().all(|value| f64::from(*value) + shift == 1_700_000_001.0), "{values:?} {shift}");
}

#[test]
fn a_model_of_sequences_knows_how_rows_become_sequences() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(at, "t.csv", "id,at,x,kind\np,3,30,a\np,1,10,b\nq,1,1,b\np,2,20,b\nq,2,2,b\n");
    write(at, "short.csv", "x,id,kind,at\n20,r,b,2\n10,r,a,1\n");
    let source = opened(at, "sequences:t.csv?id=id&order=at&label=kind");
    let options = OpenOptions { schema: source.schema().cloned(), ..in_folder(at) };
    let again = open("sequences:t.csv", &options).expect("the model knows the rest");
    assert_eq!((all(&*again).targets, &again.shape().features), (all(&*source).targets, &source.shape().features));
    assert_eq!(all(&*again).features[..3], [10.0, 20.0, 30.0]);
    let short = open("sequences:short.csv", &options).expect("fewer steps");
    let batch = all(&*short);
    assert_eq!((&short.shape().features[..], &batch.features[..2]), (&[3, 1][..], &[10.0, 20.0][..]));
    assert!(batch.features[2].is_nan() && batch.targets == Targets::Classes(vec![1]));
}

#[test]
fn a_text_of_the_first_row_that_comes_once_among_the_learned_rows_is_no_header() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |row: usize| {
        format!("{},{row},{}\n", if row.is_multiple_of(39) { "rare" } else { "usual" }, ["yes", "no"][row % 2])
    };
    write(folder.path(), "t.csv", &(0..40).map(row).collect::<String>());
    let source = opened(folder.path(), "csv:t.csv?label=2");
    for seed in 0..20 {
        let split = Division::by_chance(source.clone(), seed).split(0.6);
        assert!(split.is_ok(), "seed {seed}: {:?}", split.err());
    }
}
