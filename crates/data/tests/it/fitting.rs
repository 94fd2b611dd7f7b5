//! The schema of a table: fitted to the rows that a model learns from, whatever the held-out rows hold, and matched by name later.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use paceline_data::{Division, OpenOptions, PartitionNote, Schema, Source, open};
use paceline_model::{Batch, Targets};

fn opened(folder: &Path, spec: &str) -> Arc<dyn Source> {
    open(spec, &in_folder(folder)).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn in_folder(folder: &Path) -> OpenOptions {
    OpenOptions { root: Some(folder.to_owned()), ..OpenOptions::default() }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("written");
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("read");
    batch
}

/// A source as text: its examples by bits, its schema, its shape.
fn exact(source: &dyn Source) -> String {
    let batch = all(source);
    let bits: Vec<u32> = batch.features.iter().map(|value| value.to_bits()).collect();
    format!("{:?} {bits:?} {:?} {:?}", source.shape(), batch.targets, source.schema())
}

/// Rows of a table; those of the second argument hold other means, categories and larger numbers.
fn table(ids: bool, disturbed: &[u64]) -> String {
    let mut text = String::from(if ids { "id,when,size,kind\n" } else { "when,size,kind,label\n" });
    for row in 0..60u64 {
        let is_disturbed = disturbed.contains(&row);
        let (when, size) = (1_700_000_000 + row * if is_disturbed { 1_000_000 } else { 60 }, row % 7);
        let size = if row % 5 == 0 { String::new() } else { (size * if is_disturbed { 900 } else { 1 }).to_string() };
        let kind = if is_disturbed { "rare" } else { ["red", "blue"][row as usize % 2] };
        match ids {
            true => writeln!(text, "s{row},{when},{size},{kind}"),
            false => writeln!(text, "{when},{size},{kind},{}", ["yes", "no"][row as usize % 2]),
        }
        .expect("text");
    }
    text
}

#[test]
fn held_out_rows_have_no_say_in_what_a_model_learns_from() {
    for (spec, ids) in
        [("csv:t.csv?label=label&missing=mean", false), ("sequences:t.csv?id=id&missing=mean&order=when", true)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let parts = |disturbed: &[u64]| {
            write(folder.path(), "t.csv", &table(ids, disturbed));
            Division::by_chance(opened(folder.path(), spec), 7).split(0.75).expect("parts")
        };
        let (learned, held_out) = parts(&[]);
        let held_out = all(&*held_out).indices;
        let (other, disturbed) = parts(&held_out);
        assert_eq!(exact(&*learned), exact(&*other), "{spec}");
        assert!(
            disturbed.remarks().iter().any(|remark| remark.starts_with("15 cells")),
            "{spec}: {:?}",
            disturbed.remarks()
        );
        // The same for every fold.
        let fold = |at: usize, disturbed: &[u64]| {
            write(folder.path(), "t.csv", &table(ids, disturbed));
            let division = Division::by_chance(opened(folder.path(), spec), 7);
            division.folds(3).expect("folds").nth(at).expect("a fold").expect("parts")
        };
        for at in 0..3 {
            let (learned, judged) = fold(at, &[]);
            let judged = all(&*judged).indices;
            assert_eq!(exact(&*learned), exact(&*fold(at, &judged).0), "{spec}, fold {at}");
        }
    }
}

#[test]
fn a_class_that_only_held_out_rows_have_is_refused_with_two_remedies() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |at: usize| format!("{at},{}\n", if at == 11 { "rare" } else { ["a", "b"][at % 2] });
    write(folder.path(), "t.csv", &format!("x,y\n{}", (0..40).map(row).collect::<String>()));
    let seed = (0..).find(|seed| {
        let whole = Division::by_chance(opened(folder.path(), "csv:t.csv?label=y&classes=a,b,rare"), *seed);
        all(&*whole.split(0.7).expect("parts").1).indices.contains(&11)
    });
    let seed = seed.expect("some seed");
    let error =
        Division::by_chance(opened(folder.path(), "csv:t.csv?label=y"), seed).split(0.7).err().expect("refused");
    let error = error.to_string();
    assert!(error.contains("line 13") && error.contains("`rare`"), "{error}");
    assert!(error.contains("data.stratified = true") && error.contains("classes=a,b,c"), "{error}");
    let stratified = Division::by_class(opened(folder.path(), "csv:t.csv?label=y"), seed).expect("classes");
    assert!(stratified.split(0.7).is_ok());
}

#[test]
fn groups_hold_when_examples_are_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |at: usize| format!("{at},p{},{}\n", at / 4, ["a", "b"][at % 2]);
    write(folder.path(), "t.csv", &format!("x,patient,y\n{}", (0..100).map(row).collect::<String>()));
    let source = opened(folder.path(), "csv:t.csv?label=y&group=patient&examples=50&seed=3");
    let groups = source.groups().expect("groups");
    assert_eq!(groups.len(), 50);
    let (learned, held_out) = Division::by_group(source, 1, groups).split(0.6).expect("parts");
    let patients = |source: &dyn Source| -> Vec<u32> { all(source).features.iter().map(|x| *x as u32 / 4).collect() };
    let held_out = patients(&*held_out);
    assert!(!held_out.is_empty() && patients(&*learned).iter().all(|patient| !held_out.contains(patient)));
}

#[test]
fn columns_of_sequences_are_matched_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "t.csv", "id,x,y,kind\np,1,10,a\nq,2,20,b\np,3,30,a\nq,4,40,b\n");
    write(folder.path(), "swapped.csv", "kind,y,x,id\na,10,1,p\nb,20,2,q\na,30,3,p\nb,40,4,q\n");
    write(folder.path(), "lacks.csv", "id,x,kind\np,1,a\n");
    let source = opened(folder.path(), "sequences:t.csv?id=id&label=kind");
    let schema: Option<Schema> = source.schema().cloned();
    assert_eq!(schema.as_ref().expect("a schema").feature_names(), ["x", "y"]);
    let later = OpenOptions { schema, ..in_folder(folder.path()) };
    let swapped = open("sequences:swapped.csv?id=id&label=kind", &later).expect("the same columns");
    assert_eq!(all(&*swapped).features, all(&*source).features);
    let error = open("sequences:lacks.csv?id=id&label=kind", &later).err().expect("a column is missing");
    assert!(error.to_string().contains("has no column `y`"), "{error}");
}

#[test]
fn steps_are_sorted_by_the_column_that_orders_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = "sequences:t.csv?id=id&order=t&label=kind&columns=x";
    for [first, second, third] in [
        ["9", "10", "11"],
        ["1700000000000000001", "1700000000000000002", "1700000000000000003"],
        ["-1.5", "-1", "2e1"],
        ["2024-01-31", "2024-02-01", "2024-02-10"],
    ] {
        let rows = format!("p,{third},3,late\np,{first},1,early\nq,{second},5,b\nq,{first},4,a\np,{second},2,first\n");
        write(folder.path(), "t.csv", &format!("id,t,x,kind\n{rows}"));
        let batch = all(&*opened(folder.path(), spec));
        assert_eq!(batch.features[..5], [1.0, 2.0, 3.0, 4.0, 5.0], "{first}");
        assert!(batch.features[5].is_nan());
        assert_eq!(batch.targets, Targets::Classes(vec![1, 0]), "the labels of the last steps: `late` and `b`");
    }
    let cases = [("", "expected a value to sort steps by"), ("soon", "expected a number to sort steps by, as before")];
    for (cell, expected) in cases {
        write(folder.path(), "t.csv", &format!("id,t,x,kind\np,1,3,a\nq,2,3,b\np,{cell},1,a\n"));
        let error = open(spec, &in_folder(folder.path())).err().expect(expected).to_string();
        assert!(error.contains("column `t`") && error.contains(expected), "{error}");
    }
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |at: usize| format!("{at},\"{}\",{}\n", ["a\nb", "c \"\"d\"\""][at % 2], ["yes", "no"][at % 2]);
    let rows: String = (0..20).map(row).collect();
    let head = "x,text,kind\n";
    write(folder.path(), "fine.csv", &format!("{head}{rows}"));
    assert_eq!(opened(folder.path(), "csv:fine.csv?label=kind&columns=x").examples(), 20);
    // The quote opens on line 32, behind 20 rows of which every second one has two lines.
    write(folder.path(), "open.csv", &format!("{head}{rows}20,\"f\",\"no\n{}", "21,g,yes\n".repeat(200)));
    for scheme in ["csv:open.csv?label=kind&columns=x", "sequences:open.csv?id=kind&columns=x"] {
        let error = open(scheme, &in_folder(folder.path())).err().expect("refused").to_string();
        assert!(error.contains("`open.csv` line 32") || error.contains("open.csv` line 32"), "{error}");
        assert!(error.contains("never closed"), "{error}");
    }
    // The next quote of the file closes it, in the middle of a row: with as many cells as others, or with more.
    for (name, rows) in
        [("closed.csv", "1,\"a,no\n2,b,yes\n3,\"c\",no\n"), ("ragged.csv", "1,\"a,no\n2,\"c\nd\",yes,4\n")]
    {
        write(folder.path(), name, &format!("{head}{rows}"));
        let error = open(&format!("csv:{name}?label=kind"), &in_folder(folder.path())).err().expect("refused");
        let error = error.to_string();
        assert!(error.contains("line 2") && error.contains("close the first one"), "{error}");
    }
}

#[test]
fn targets_far_from_zero_keep_their_differences() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |at: i64| format!("{at},{}\n", 1_700_000_000_000 + at * 1000 + at % 3);
    write(folder.path(), "t.csv", &format!("x,y\n{}", (0..100).map(row).collect::<String>()));
    let source = opened(folder.path(), "csv:t.csv?label=y&task=regression");
    let schema = source.schema().expect("a schema");
    let Targets::Values { width: 1, values } = all(&*source).targets else { panic!("one number for each example") };
    for (at, value) in (0..100i64).zip(values) {
        let found = f64::from(value) + schema.target_shifts()[0];
        assert!((found - (1_700_000_000_000 + at * 1000 + at % 3) as f64).abs() < 0.01, "{at}: {found}");
    }
    // A file that is read later is read by the same offset.
    let later = OpenOptions { schema: Some(schema.clone()), ..in_folder(folder.path()) };
    let other = open("csv:t.csv?label=y", &later).expect("the same columns");
    assert_eq!(exact(&*other), exact(&*source));
}

#[test]
fn all_columns_that_lack_values_are_named_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "t.csv", "a,b,c,y\n1,2,3,u\n1,,3,v\n,2,3,u\n1,,3,v\n");
    let error = open("csv:t.csv?label=y", &in_folder(folder.path())).err().expect("refused").to_string();
    assert!(error.contains("line 3, column `b`"), "{error}");
    assert!(error.contains("by column: `a` (1), `b` (2)") && !error.contains("`c` ("), "{error}");
}

#[test]
fn numbers_in_the_writing_of_people_and_many_whole_classes_are_remarked_on() {
    let folder = tempfile::tempdir().expect("a folder");
    for (price, says) in [("$12", true), ("\"1,234\"", true), ("inf", true), ("\"0,5\"", true), ("blue", false)] {
        let row = |at: usize| format!("{price},{}\n", ["a", "b"][at % 2]);
        write(folder.path(), "t.csv", &format!("price,y\n{}", (0..20).map(row).collect::<String>()));
        let source = opened(folder.path(), "csv:t.csv?label=y");
        let remarked = source.remarks().iter().any(|remark| remark.contains("holds numbers such as"));
        assert_eq!(remarked, says, "{price}: {:?}", source.remarks());
    }
    let row = |at: usize| format!("{at},{}\n", at % 50);
    write(folder.path(), "t.csv", &format!("x,y\n{}", (0..600).map(row).collect::<String>()));
    let remarks = opened(folder.path(), "csv:t.csv?label=y").remarks().join("\n");
    assert!(remarks.contains("taken for 50 classes") && remarks.contains("task=regression"), "{remarks}");
    assert!(opened(folder.path(), "csv:t.csv?label=y&task=classes").remarks().is_empty(), "it was said");
}

#[test]
fn the_note_of_unequal_sequences_can_be_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "t.csv", "id,x,kind\np,1,a\nq,2,b\np,3,a\n");
    let source = opened(folder.path(), "sequences:t.csv?id=id&label=kind");
    let note = PartitionNote::of(0, &*source).expect("a note");
    let text = serde_json::to_string(&note).expect("text");
    assert_eq!(serde_json::from_str::<PartitionNote>(&text).expect("a note"), note);
    assert_eq!((note.statistics.count, &note.statistics.mean[..]), (3, &[2.0, 2.0][..]));
}
