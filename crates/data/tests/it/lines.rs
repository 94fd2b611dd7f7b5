//! Lines of text as sequences of characters.

use std::sync::Arc;

use paceline_data::{ColumnKind, Error, OpenOptions, Schema, Source, TargetShape, inspect, open};
use paceline_model::{Batch, Targets};

fn open_with(text: &str, query: &str, options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.txt");
    std::fs::write(&path, text).expect("a file");
    open(&format!("lines:{}{query}", path.display()), options)
}

fn opened(text: &str, query: &str) -> Arc<dyn Source> {
    open_with(text, query, &OpenOptions::default()).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn trained(schema: Option<&Schema>, targets: bool) -> OpenOptions {
    OpenOptions { schema: schema.cloned(), targets, ..OpenOptions::default() }
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("they can be read");
    batch
}

/// Numbers, with −1 for what is none.
fn shown(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| if value.is_nan() { -1.0 } else { *value }).collect()
}

const LABELLED: &str = "good\tabc\r\n\r\nbad\tb\nbad\tca\tb\n";

#[test]
fn lines_with_a_label_are_sequences_of_a_class() {
    let source = opened(LABELLED, "");
    // The tab of the last text is one of its characters: tab, a, b, c.
    assert_eq!((source.examples(), &source.shape().features[..]), (3, &[4, 1][..]));
    assert!(matches!(&source.shape().targets, TargetShape::Classes { names } if names == &["bad", "good"]));
    let batch = all(&*source);
    assert_eq!(shown(&batch.features), [1.0, 2.0, 3.0, -1.0, 2.0, -1.0, -1.0, -1.0, 3.0, 1.0, 0.0, 2.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![1, 0, 0]));
    let schema = source.schema().expect("it has one");
    let ColumnKind::Characters { names, steps: 4 } = &schema.columns[0].kind else { panic!("{schema:?}") };
    assert_eq!(names, &["\t", "a", "b", "c"]);
    assert_eq!(serde_json::from_str::<Schema>(&serde_json::to_string(schema).expect("json")).expect("json"), *schema);
    assert_eq!(inspect(&*source).expect("it can be read").classes[0], ("bad".to_owned(), 2));
    // Longer lines are cut, and that is told; shorter ones are filled up.
    let cut = opened(LABELLED, "?length=2");
    assert_eq!(shown(&all(&*cut).features), [1.0, 2.0, 2.0, -1.0, 3.0, 1.0]);
    let [remark] = cut.remarks() else { panic!("{:?}", cut.remarks()) };
    assert!(
        remark.starts_with("2 of the 3 lines") && remark.ends_with("have more than 2 characters and are cut"),
        "{remark}"
    );
    assert_eq!(opened(LABELLED, "?length=9&examples=2").shape().features, [9, 1]);
    // Whole numbers are sorted as such.
    let numbers = opened("10\ta\n9\tb\n", "").shape().targets.clone();
    assert!(matches!(&numbers, TargetShape::Classes { names } if names == &["9", "10"]));
}

#[test]
fn lines_without_a_label_tell_the_next_character_and_their_end() {
    let source = opened("ab\n\nb\n", "");
    let batch = all(&*source);
    assert_eq!((source.examples(), &source.shape().features[..]), (2, &[2, 1][..]));
    assert_eq!(source.schema().and_then(Schema::class_names), Some(&["\n", "a", "b"].map(String::from)[..]));
    assert_eq!(shown(&batch.features), [1.0, 2.0, 2.0, -1.0]);
    let Targets::Values { width: 2, values } = &batch.targets else { panic!("{:?}", batch.targets) };
    assert_eq!(shown(values), [2.0, 0.0, 0.0, -1.0]);
    // Of a line that is cut the next character is known.
    let Targets::Values { values, .. } = all(&*opened("abc", "?length=2")).targets else { panic!("values") };
    assert_eq!(values, [2.0, 3.0]);
    let tabs = opened("a\tb\n", "?labels=no");
    assert_eq!(tabs.shape().features, [3, 1]);
}

#[test]
fn a_trained_model_says_how_later_lines_are_read() {
    let source = opened(LABELLED, "");
    let later = |text, query, targets| open_with(text, query, &trained(source.schema(), targets));
    let same = later("bad\tcb\n", "", true).expect("it has a label");
    assert_eq!(shown(&all(&*same).features), [3.0, 2.0, -1.0, -1.0]);
    assert_eq!(all(&*same).targets, Targets::Classes(vec![0]));
    // To predict on, labels may be there or not.
    for (text, query) in [("bad\tcb\n", ""), ("cb\n", ""), ("cb\ta", "?labels=no&length=2")] {
        let blind = later(text, query, false).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (shown(&all(&*blind).features)[..2].to_vec(), all(&*blind).targets),
            (vec![3.0, 2.0], Targets::None)
        );
    }
    let message = |text, query| later(text, query, true).err().expect(text).to_string();
    assert!(message("ugly\ta\n", "").contains("line 1, column `label`: `ugly` is none of the 2 names"));
    assert!(message("\ngood\taxe\n", "").contains("one with 'x' in line 2 of"), "{}", message("\ngood\taxe\n", ""));
    assert!(message("abc\n", "").contains("found no tab"));
    assert!(message("abc\n", "?labels=no").contains("cannot be `no` for a model that learned labels"));
    let plain = opened("ab\nb\n", "");
    let next = open_with("ba\tb", "", &trained(plain.schema(), true)).err().expect("an unknown character").to_string();
    assert!(next.contains("'\\t' in line 1"), "{next}");
    assert!(open_with("a", "?labels=yes", &trained(plain.schema(), true)).is_err());
    // Lines of a model that knows a text, and a table with a model that knows lines.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "text\nba\n\n").expect("a file");
    let text = open(&format!("text:{}", path.display()), &OpenOptions::default()).expect("a text");
    let lines = open_with("ba", "", &trained(text.schema(), true)).expect("the same characters");
    assert_eq!(lines.schema().and_then(Schema::class_names), text.schema().and_then(Schema::class_names));
    let table = open(&format!("csv:{}", path.display()), &trained(source.schema(), false)).err().expect("other data");
    assert!(table.to_string().contains("the model was trained on `lines:`"), "{table}");
}

#[test]
fn lines_that_make_no_sense_are_named() {
    for (text, query, part) in [
        ("", "", "is empty: expected a text on every line"),
        (" \n\n", "", "is empty"),
        ("a\tb\n\nc\n", "", "line 3: expected a label, a tab and a text, found no tab"),
        ("a\nb\tc\n", "", "line 2: it has a tab, but the first has none; `labels=no`"),
        ("a\tb\n\tc\n", "", "line 2: expected a label, a tab and a text, found nothing on one side"),
        ("a\tb\nc\t\n", "", "line 2: expected a label"),
        ("a\n", "?labels=yes", "found no tab"),
        ("a\n", "?labels=maybe", "`yes`, `no`"),
        ("a\n", "?length=0", "from 1 on"),
        ("a\n", "?lenght=3", "did you mean `length`?"),
    ] {
        let message = open_with(text, query, &OpenOptions::default()).err().expect(text).to_string();
        assert!(message.contains(part), "{text}{query}: {message}");
    }
    let long = "a".repeat((1 << 24) + 1);
    let message = open_with(&long, "", &OpenOptions::default()).err().expect("very long").to_string();
    assert!(message.contains("`length` is needed, since a line has 16777217 characters"), "{message}");
    assert_eq!(opened(&long, "?length=7").shape().features, [7, 1]);
}

#[test]
fn a_mark_at_the_beginning_is_no_character_and_what_is_no_text_is_told_by_its_line() {
    let (plain, marked) = (opened("ham\tab\nspam\tb\n", ""), opened("\u{feff}ham\tab\nspam\tb\n", ""));
    assert_eq!(marked.schema().and_then(Schema::class_names), plain.schema().and_then(Schema::class_names));
    assert_eq!(shown(&all(&*marked).features), shown(&all(&*plain).features));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.txt");
    std::fs::write(&path, b"good\nb\xffd\n").expect("a file");
    let error = open(&format!("lines:{}", path.display()), &OpenOptions::default()).err().expect("no text").to_string();
    assert!(error.contains("lines.txt") && error.contains("line 2 is not UTF-8"), "{error}");
}
