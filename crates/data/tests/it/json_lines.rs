//! Lines of JSON, which are tables: what tables do with columns, `tables.rs` asks.

use std::sync::Arc;

use paceline_data::{Error, NormaliserKind, OpenOptions, Source, TargetShape, open};
use paceline_model::{Batch, Targets};

/// A folder with one file `t.jsonl`, opened with these options.
struct Lines {
    folder: tempfile::TempDir,
}

impl Lines {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("t.jsonl"), text).expect("a file");
        Self { folder }
    }

    fn open_with(&self, query: &str, options: OpenOptions) -> Result<Arc<dyn Source>, Error> {
        let options = OpenOptions { root: Some(self.folder.path().to_owned()), ..options };
        open(&format!("jsonl:t.jsonl?{query}"), &options)
    }

    fn open(&self, query: &str) -> Arc<dyn Source> {
        self.open_with(query, OpenOptions::default()).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    fn message(&self, query: &str) -> String {
        self.open_with(query, OpenOptions::default()).err().expect(query).to_string()
    }
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("they can be read");
    batch
}

const FLOWERS: &str = r#"{"length": 1.5, "petal": [1, 2], "wild": true, "species": "rose", "note": {"by": "A"}}
{"petal": [3, 4], "wild": false, "length": 2, "species": "iris", "note": null}

{"length": 3e0, "petal": [5, 6.5], "wild": true, "species": "iris"}
"#;

#[test]
fn keys_are_columns_and_lists_are_several() {
    let lines = Lines::new(FLOWERS);
    let source = lines.open("label=species&drop=note");
    assert_eq!(source.schema().expect("a table").feature_names(), ["length", "petal.0", "petal.1", "wild"]);
    assert_eq!(source.default_normaliser(), NormaliserKind::Standardise);
    let batch = all(&*source);
    assert_eq!(batch.features, [1.5, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 0.0, 3.0, 5.0, 6.5, 1.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![1, 0, 0]));
    assert!(matches!(&source.shape().targets, TargetShape::Classes { names } if names == &["iris", "rose"]));
    // Only some, in the order asked for; nothing else is looked at.
    let some = lines.open("label=wild&columns=petal,length");
    assert_eq!(all(&*some).features[..3], [1.0, 2.0, 1.5]);
    assert!(matches!(&some.shape().targets, TargetShape::Classes { names } if names == &["false", "true"]));
    // Texts are categories, and lists can be learned.
    let lists = lines.open("label=petal&drop=note");
    assert_eq!(all(&*lists).features[..4], [1.5, 1.0, 0.0, 1.0]);
    assert_eq!(all(&*lists).targets, Targets::Values { width: 2, values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5] });
    assert_eq!(lines.open("columns=length&examples=2").examples(), 2);
}

#[test]
fn what_does_not_fit_the_memory_is_read_again_to_the_same_numbers() {
    let text: String = (0..3000)
        .map(|row| format!("{{\"x\": [{row}, {}], \"w\": {}, \"y\": \"{}\"}}\r\n\r\n", row * 2, row % 3, row % 7))
        .collect();
    let lines = Lines::new(format!("\u{feff}{text}"));
    let streamed = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    let held = lines.open("label=y&weight=w");
    let again = lines.open_with("label=y&weight=w", streamed).expect("a table");
    assert_eq!((held.examples(), held.weighted()), (3000, true));
    assert_eq!(all(&*held), all(&*again));
    let mut batch = Batch::empty();
    again.read(&[2999, 0, 1500], &mut batch).expect("in any order");
    assert_eq!(batch.features, [2999.0, 5998.0, 0.0, 0.0, 1500.0, 3000.0]);
}

#[test]
fn a_trained_model_says_how_other_files_are_read() {
    let schema = Lines::new(FLOWERS).open("label=species&drop=note").schema().cloned();
    let trained = OpenOptions { schema, ..OpenOptions::default() };
    let blind = OpenOptions { targets: false, ..trained.clone() };
    let later = Lines::new(r#"{"new": {}, "wild": 1, "petal": [7, 8], "length": 9, "species": "iris"}"#);
    let source = later.open_with("", trained.clone()).expect("it has all columns");
    assert_eq!(all(&*source).features, [9.0, 7.0, 8.0, 1.0]);
    assert_eq!(all(&*source).targets, Targets::Classes(vec![0]));
    let unlabelled = Lines::new(r#"{"wild": 1, "petal": [7, 8], "length": 9}"#);
    assert_eq!(all(&*unlabelled.open_with("label=species", blind).expect("a label may lack")).features.len(), 4);
    let message = |text: &str| Lines::new(text).open_with("", trained.clone()).err().expect("another file").to_string();
    let longer = message(r#"{"wild": 1, "petal": [7, 8, 9], "length": 9, "species": "iris"}"#);
    assert!(
        longer.contains("line 1, key `petal`: expected a list of 2 numbers, as in training, found a list of 3"),
        "{longer}"
    );
    let list = message(r#"{"wild": [1], "petal": [7, 8], "length": 9, "species": "iris"}"#);
    assert!(list.contains("key `wild`: expected no list, as in training"), "{list}");
    assert!(message(r#"{"wild": 1, "petal": [7, 8], "species": "iris"}"#).contains("no column `length`"));
    let unknown = message(r#"{"wild": 1, "petal": [7, 8], "length": 9, "species": "irish"}"#);
    assert!(unknown.contains("did you mean `iris`?"), "{unknown}");
}

#[test]
fn a_missing_key_is_an_empty_cell() {
    let lines = Lines::new("{\"y\": 1}\n{\"x\": 2, \"y\": 3}\n{\"x\": null, \"y\": 4}\n{\"x\": 5, \"y\": 6}\n");
    let message = lines.message("");
    assert!(message.contains("line 1, column `x`: the value is missing"), "{message}");
    assert_eq!(all(&*lines.open("missing=value:-1&columns=x,y")).features[..4], [-1.0, 1.0, 2.0, 3.0]);
    let dropped = lines.open("missing=drop&columns=x");
    assert_eq!(all(&*dropped).features, [2.0, 5.0]);
    assert!(dropped.remarks()[0].starts_with("2 of the 4 rows"), "{:?}", dropped.remarks());
    let lists = Lines::new("{\"x\": [1, null]}\n{\"x\": [3, 4]}\n{\"x\": null}\n");
    assert_eq!(all(&*lists.open("missing=value:0")).features, [1.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn what_cannot_be_taken_is_named_by_file_line_and_key() {
    for (text, query, part) in [
        ("", "", "is empty: expected a JSON object on every line"),
        ("\n \n", "", "is empty"),
        ("{\"x\": 1}\n\n{\"x\": 1,}\n", "", "line 3 cannot be read as a JSON object: trailing comma at column 9"),
        (
            "{\"x\": 1}\n3\n",
            "",
            "line 2 cannot be read as a JSON object: invalid type: integer `3`, expected a JSON object",
        ),
        ("{\"x\": 1, \"x\": 2}\n", "", "it has the key `x` twice"),
        (
            "{\"x\": 1}\n{\"x\": {}}\n",
            "",
            "line 2, key `x`: expected a number, a text, true, false or a list of numbers, found an object",
        ),
        ("{\"x\": 1}\n{\"x\": [1]}\n", "", "line 2, key `x`: expected no list, as before, found a list of 1"),
        ("{\"x\": [1]}\n{\"x\": 1}\n", "", "line 2, key `x`: expected a list of 1 numbers, as before, found a number"),
        (
            "{\"x\": [1]}\n{\"x\": [1, 2]}\n",
            "",
            "line 2, key `x`: expected a list of 1 numbers, as before, found a list of 2",
        ),
        ("{\"x\": [\"a\"]}\n", "", "line 1, key `x`: expected a list of numbers, found one with a text"),
        ("{\"x\": [[1]]}\n", "", "found one with a list"),
        ("{\"x\": 1}\n{\"x\": \"a\"}\n{\"x\": 2}\n", "", "line 2, column `x`: expected a finite number"),
        ("{\"x\": 1e999}\n", "", "number out of range"),
        ("{\"x\": 1e39}\n{\"x\": 1}\n{\"x\": 1}\n", "", "expected a finite number"),
        ("{\"colour\": 1}\n", "label=color", "has the key `color`: its keys are `colour`; did you mean `colour`?"),
        ("{\"x\": [1, 2]}\n", "columns=x.0", "has the key `x.0`: its keys are `x`"),
        ("{\"x\": [1], \"x.0\": 2}\n", "", "two columns `x.0`"),
        ("{\"x\": 1}\n", "header=yes", "unknown option of `jsonl:` `header`"),
        ("{\"x\": 1}\n", "lable=x", "did you mean `label`?"),
        ("{\"x\": 1}\n", "label=x", "no feature columns left"),
    ] {
        let message = Lines::new(text).message(query);
        assert!(message.contains(part), "{text}: {message}");
    }
    let latin = Lines::new(b"{\"x\": 1}\n{\"x\": \"\xe9\"}\n").message("");
    assert!(latin.contains("line 2 is not UTF-8"), "{latin}");
    assert!(Lines::new(vec![b' '; (64 << 20) + 2]).message("").contains("it has more than 67108864 bytes"));
    let deep = Lines::new(format!("{{\"x\": {}}}", "[".repeat(100_000))).message("");
    assert!(deep.contains("recursion limit"), "{deep}");
    let changed = Lines::new("{\"x\": 1}\n{\"x\": 2}\n");
    let streamed = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    let source = changed.open_with("", streamed).expect("a table");
    std::fs::write(changed.folder.path().join("t.jsonl"), "{\"z\": 1}\n{\"x\": 2}\n").expect("a file");
    assert!(matches!(source.read(&[0], &mut Batch::empty()), Err(Error::FileChanged { .. })));
}
