use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    ColumnKind, Error, Loader, LoaderOptions, Missing, OpenOptions, Order, Schema, SchemaTarget, Source, TargetShape,
    open,
};
use paceline_model::{Batch, Targets};

/// A folder with one file `t.csv`, opened with these options.
struct Table {
    folder: tempfile::TempDir,
}

impl Table {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.csv"), text).unwrap();
        Self { folder }
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { root: Some(self.folder.path().to_owned()), ..OpenOptions::default() }
    }

    fn open(&self, query: &str) -> Result<Arc<dyn Source>, Error> {
        self.open_with(query, self.options())
    }

    fn open_with(&self, query: &str, options: OpenOptions) -> Result<Arc<dyn Source>, Error> {
        open(&format!("csv:t.csv?{query}"), &OpenOptions { root: Some(self.folder.path().to_owned()), ..options })
    }

    fn message(&self, query: &str) -> String {
        let message = self.open(query).err().expect("must be refused").to_string();
        assert!(message.contains("t.csv"), "the file is named: {message}");
        message
    }
}

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).unwrap();
    batch
}

const FLOWERS: &str = "length,colour,species\n1.5,red,rose\n2,blue,iris\n3,red,iris\n";

#[test]
fn numbers_stay_numbers_and_texts_become_categories_and_classes() {
    let source = Table::new(FLOWERS).open("label=species").unwrap();
    let batch = all(&*source);
    assert_eq!(batch.width, 3);
    assert_eq!(batch.features, [1.5, 0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 0.0, 1.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![1, 0, 0]));
    let names = vec!["iris".to_owned(), "rose".to_owned()];
    assert_eq!(source.shape().targets, TargetShape::Classes { names });
    assert_eq!(source.schema().unwrap().feature_names(), ["length", "colour=blue", "colour=red"]);
}

#[test]
fn columns_are_chosen_dropped_and_named_by_place() {
    let table = Table::new("1,2,3,7\n4,5,6,8\n");
    assert_eq!(all(&*table.open("label=-1").unwrap()).features, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(all(&*table.open("label=3&drop=1").unwrap()).features, [1.0, 3.0, 4.0, 6.0]);
    assert_eq!(all(&*table.open("columns=2,0").unwrap()).features, [3.0, 1.0, 6.0, 4.0]);
    assert_eq!(all(&*table.open("header=yes&label=-1").unwrap()).features, [4.0, 5.0, 6.0]);
    assert_eq!(all(&*table.open("columns=0&categories=0").unwrap()).features, [1.0, 0.0, 0.0, 1.0]);
    let semicolons = Table::new("a;b\n1;2\n");
    assert_eq!(all(&*semicolons.open("delimiter=;").unwrap()).features, [1.0, 2.0]);
    assert_eq!(all(&*semicolons.open("delimiter=%3B").unwrap()).features, [1.0, 2.0]);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let table = Table::new("\u{feff}1,2\r\n3,4\r\n");
    assert_eq!(all(&*table.open("").unwrap()).features, [1.0, 2.0, 3.0, 4.0]);
    let streamed = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    assert_eq!(all(&*table.open_with("", streamed).unwrap()).features, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn whole_number_labels_are_classes_by_value_and_others_are_values() {
    let table = Table::new("x,y\n1,10\n2,9.0\n3,10\n4,2\n");
    let source = table.open("label=y").unwrap();
    let names = ["2", "9", "10"].map(str::to_owned).to_vec();
    assert_eq!(source.shape().targets, TargetShape::Classes { names });
    assert_eq!(all(&*source).targets, Targets::Classes(vec![2, 1, 2, 0]));
    let values = Targets::Values { width: 1, values: vec![10.0, 9.0, 10.0, 2.0] };
    assert_eq!(all(&*table.open("label=y&task=regression").unwrap()).targets, values);
    let prices = Table::new("x,y\n1,10.5\n2,9\n");
    assert!(matches!(prices.open("label=y").unwrap().shape().targets, TargetShape::Values { .. }));
    let both = prices.open("label=x,y&columns=x,y,0");
    assert!(matches!(both, Err(Error::NothingLeft { what: "feature columns", .. })));
    let many: String = (0..50).map(|row| format!("{row},{row}\n")).collect();
    assert!(matches!(Table::new(many).open("label=1").unwrap().shape().targets, TargetShape::Values { .. }));
}

#[test]
fn a_bad_row_is_named_by_file_line_and_column() {
    let ragged = Table::new("a,b\n1,2\n\n3,4,5\n").message("");
    assert!(ragged.contains("line 4: expected 2 fields, found 3"), "{ragged}");
    let windows = Table::new("a,b\r\n1,2\r\n\r\n3\r\n").message("");
    assert!(windows.contains("line 4: expected 2 fields, found 1"), "{windows}");
    let quoted = Table::new("a,b\n1,\"2\"\n3,\"x\ny\"\n5,6\n").message("drop=a");
    assert!(quoted.contains("line 3, column `b`"), "{quoted}");
    let text = Table::new("a,b\n1,2\n3,oops\n4,5\n").message("");
    assert!(text.contains("line 3, column `b`") && text.contains("number") && text.contains("`oops`"), "{text}");
    for infinite in ["inf", "-Infinity", "1e999"] {
        let message = Table::new(format!("a,b\n1,2\n3,4\n4,{infinite}\n")).message("");
        assert!(message.contains("line 4, column `b`") && message.contains(infinite), "{message}");
    }
    let label = Table::new("a,b\n1,2.5\n3,oops\n4,5\n").message("label=b");
    assert!(label.contains("line 3, column `b`"), "{label}");
    let latin = Table::new(b"a,b\n1,2\n1,\xe9\n").message("");
    assert!(latin.contains("line 3 is not UTF-8"), "{latin}");
    let weight = Table::new("a,w\n1,2\n1,-2\n").message("weight=w");
    assert!(weight.contains("line 3, column `w`") && weight.contains("not negative"), "{weight}");
}

#[test]
fn missing_values_follow_the_rule_and_the_error_states_it() {
    let table = Table::new("a,c,y\n1,x,p\nNA,y,q\n5,,p\n6,x,q\n");
    let error = table.message("label=y");
    assert!(error.contains("line 3, column `a`") && error.contains("missing=error"), "{error}");
    assert!(error.contains("missing=drop"), "{error}");
    let dropped = all(&*table.open("label=y&missing=drop").unwrap());
    assert_eq!((dropped.features, dropped.targets), (vec![1.0, 1.0, 6.0, 1.0], Targets::Classes(vec![0, 1])));
    let mean = all(&*table.open("label=y&missing=mean").unwrap());
    assert_eq!(mean.features, [1.0, 1.0, 0.0, 4.0, 0.0, 1.0, 5.0, 0.0, 0.0, 6.0, 1.0, 0.0]);
    let value = all(&*table.open("label=y&missing=value:-1").unwrap());
    assert_eq!(value.features[3], -1.0);
    let label = Table::new("a,y\n1,p\n2,\n").message("label=y&missing=mean");
    assert!(label.contains("line 3, column `y`") && label.contains("missing=mean"), "{label}");
    // A column left out may lack what it likes.
    assert_eq!(table.open("columns=y").unwrap().examples(), 4);
}

#[test]
fn a_wrong_column_is_answered_with_the_nearest() {
    let message = Table::new(FLOWERS).message("label=specie");
    assert!(message.contains("did you mean `species`?"), "{message}");
    let twice = Table::new("a,a\n1,2\n").message("");
    assert!(twice.contains("two columns `a`"), "{twice}");
}

#[test]
fn a_schema_reads_another_file_in_the_same_way() {
    let schema = Table::new(FLOWERS).open("label=species&missing=mean").unwrap().schema().unwrap().clone();
    let text = serde_json::to_string(&schema).unwrap();
    let schema: Schema = serde_json::from_str(&text).unwrap();
    assert_eq!(schema.missing, Missing::Mean);
    assert!(matches!(&schema.columns[1].kind, ColumnKind::Category { names } if names == &["blue", "red"]));
    let with = |targets| OpenOptions { schema: Some(schema.clone()), targets, ..OpenOptions::default() };
    // Other columns, another order, fewer categories and classes, a gap.
    let other = Table::new("species,id,colour,length\nrose,9,red,\n");
    let batch = all(&*other.open_with("", with(true)).unwrap());
    assert_eq!(batch.targets, Targets::Classes(vec![1]));
    assert_eq!(batch.features, [6.5 / 3.0, 0.0, 1.0], "the mean is that of the training file");
    let unlabelled = Table::new("colour,length\nblue,4\n").open_with("", with(false)).unwrap();
    assert_eq!((all(&*unlabelled).features, &unlabelled.shape().targets), (vec![4.0, 1.0, 0.0], &TargetShape::None));
    let unknown = Table::new("colour,length\nblue,4\nrad,4\n").open_with("", with(false)).err().unwrap().to_string();
    assert!(unknown.contains("line 3, column `colour`: `rad`"), "{unknown}");
    assert!(unknown.contains("did you mean `red`?"), "{unknown}");
    let lacking = Table::new("colour\nblue\n").open_with("", with(false)).err().unwrap().to_string();
    assert!(lacking.contains("no column `length`"), "{lacking}");
}

#[test]
fn a_file_without_header_or_label_is_read_by_place() {
    let schema = Table::new("p,1,2\nq,3,4\n").open("label=0&header=no").unwrap().schema().unwrap().clone();
    assert!(matches!(&schema.target, SchemaTarget::Classes { column, .. } if column == "0"));
    let options = OpenOptions { schema: Some(schema), targets: false, ..OpenOptions::default() };
    let batch = all(&*Table::new("5,6\n7,8\n").open_with("", options).unwrap());
    assert_eq!(batch.features, [5.0, 6.0, 7.0, 8.0]);
}

/// Rows of every kind of cell, some of them dropped, some over two lines.
fn long_table(path: &Path) {
    let mut text = String::from("n,colour,y,w\n");
    for row in 0..9000 {
        let number = if row % 37 == 5 { "NA".to_owned() } else { format!("{}.25", row) };
        let colour = ["red", "\"deep\nblue\"", "green"][row % 3];
        text.push_str(&format!("{number},{colour},class {},{}\n", row % 5, row % 2));
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_streamed_table_gives_the_same_batches_as_one_in_memory() {
    let table = Table::new("");
    long_table(&table.folder.path().join("t.csv"));
    let query = "label=y&weight=w&missing=drop";
    let held = table.open(query).unwrap();
    let streamed = table.open_with(query, OpenOptions { memory_limit: 10_000, ..OpenOptions::default() }).unwrap();
    assert_eq!(held.order(), Order::Any);
    assert_eq!(streamed.order(), Order::Blocks { size: 1024 });
    assert_eq!(held.schema(), streamed.schema());
    assert_eq!(held.examples(), 9000 - 9000_usize.div_ceil(37));
    let batches = |source: &Arc<dyn Source>| {
        let options = LoaderOptions { batch: 77, shuffle: false, ..LoaderOptions::default() };
        let mut epoch = Loader::new(Arc::clone(source), options).unwrap().epoch(0, 0);
        std::iter::from_fn(move || epoch.next()).map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(batches(&held), batches(&streamed));
    // Shuffled, every example comes once and is the one in memory.
    let mut seen = vec![false; held.examples()];
    let mut epoch = Loader::new(streamed, LoaderOptions::default()).unwrap().epoch(0, 0);
    let mut expected = Batch::empty();
    while let Some(batch) = epoch.next() {
        let batch = batch.unwrap();
        held.read(&batch.indices, &mut expected).unwrap();
        assert_eq!(batch, expected);
        batch.indices.iter().for_each(|index| assert!(!std::mem::replace(&mut seen[*index as usize], true)));
        epoch.recycle(batch);
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn a_table_that_shrinks_while_it_is_streamed_is_noticed() {
    let table = Table::new("");
    let path = table.folder.path().join("t.csv");
    long_table(&path);
    let options = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    let source = table.open_with("label=y&missing=drop", options).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let error = source.read(&[8000], &mut Batch::empty()).unwrap_err();
    assert!(matches!(error, Error::FileChanged { .. }), "{error}");
}

#[test]
fn seconds_since_1970_keep_their_seconds() {
    let rows: String = (0..50).map(|row| format!("{},{}\n", 1_700_000_000 + 37 * row, row % 2)).collect();
    let table = Table::new(format!("time,label\n{rows}"));
    let source = table.open("label=label").unwrap();
    let features = all(&*source).features;
    assert!(features.windows(2).all(|pair| pair[1] - pair[0] == 37.0), "{features:?}");
    assert_eq!(source.remarks(), [""; 0]);
    // Another file is read with what was subtracted from this one.
    let options = OpenOptions { schema: source.schema().cloned(), targets: false, ..table.options() };
    std::fs::write(table.folder.path().join("t.csv"), "time\n1700000037\n").unwrap();
    assert_eq!(all(&*table.open_with("", options).unwrap()).features, [features[1]]);
}

#[test]
fn numbers_that_were_exact_before_stay_as_they_are() {
    let source = Table::new("a,b,label\n0.1,1e30,x\n0.2,-1e30,y\n123456.78,3,x\n").open("label=label").unwrap();
    assert_eq!(all(&*source).features, [0.1, 1e30, 0.2, -1e30, 123_456.78, 3.0]);
}

#[test]
fn what_rounding_makes_the_same_is_told() {
    let rows: String = (0..50u64).map(|row| format!("{},{}\n", (row % 2) * (1 << 40) + row, row % 2)).collect();
    let source = Table::new(format!("id,label\n{rows}")).open("label=label").unwrap();
    let [remark] = source.remarks() else { panic!("{:?}", source.remarks()) };
    assert!(remark.starts_with("column `id` of `") && remark.contains("50 different numbers"), "{remark}");
}

#[test]
fn rows_that_are_left_out_are_told_and_named_where_they_are_to_be_predicted() {
    let table = Table::new("a,label\n1,x\n,y\n3,x\n4,\n");
    let source = table.open("label=label&missing=drop").unwrap();
    let left_out: Vec<u64> = source.left_out().iter().map(|row| row.row).collect();
    assert_eq!((source.examples(), left_out), (2, vec![1, 3]));
    assert!(source.remarks()[0].starts_with("2 of the 4 rows of `"), "{:?}", source.remarks());
    let options = OpenOptions { schema: source.schema().cloned(), targets: false, ..table.options() };
    let source = table.open_with("", options).unwrap();
    let left_out: Vec<(u64, &str)> = source.left_out().iter().map(|row| (row.row, row.reason.as_str())).collect();
    assert_eq!((source.examples(), left_out), (3, vec![(1, "no value in column `a`")]));
}

#[test]
fn options_that_contradict_the_model_are_refused() {
    let table = Table::new("a,b,c,label\n1,2,x,p\n2,3,y,q\n");
    let trained = table.open("label=label&drop=b&categories=c").unwrap();
    let known = OpenOptions { schema: trained.schema().cloned(), ..table.options() };
    let message = |query: &str| table.open_with(query, known.clone()).err().map(|error| error.to_string());
    for (query, part) in [
        ("columns=a", "`columns` names `a`, and the model was trained on `a`, `c`: leave it out"),
        ("columns=a,b", "`columns` names `a`, `b`"),
        ("drop=c", "`drop` names `c`, which the model was trained on"),
        ("categories=a", "`categories` names `a`, which the model reads as numbers"),
        ("label=label&task=regression", "`task` is `regression`, and the model predicts classes"),
        ("label=label&classes=q,p", "`classes` names `q`, `p`, and the model was trained on `p`, `q`"),
    ] {
        let found = message(query).unwrap_or_else(|| panic!("{query} is accepted"));
        assert!(found.contains(part), "{query}: {found}");
    }
    // The same in other words, and columns that the model never saw or that the file lacks, contradict nothing.
    for query in ["columns=c,a", "columns=2,0", "drop=b", "drop=z", "label=label&task=classes&classes=p,q"] {
        assert_eq!(message(query), None, "{query}");
    }
    let numbers = Table::new("a,y\n1,2.5\n2,3.5\n");
    let schema = numbers.open("label=y").unwrap().schema().cloned();
    let error = numbers.open_with("task=classes", OpenOptions { schema, ..numbers.options() }).err().expect("refused");
    assert!(error.to_string().contains("`task` is `classes`, and the model predicts numbers"), "{error}");
}

#[test]
fn rows_that_a_model_was_not_trained_on_are_remarked_on() {
    let trained =
        Table::new("a,city,label\n1,rome,p\n2,oslo,q\n").open("label=label&unknown=ignore&missing=mean").unwrap();
    let later = |text: &str| {
        let table = Table::new(text);
        let options = OpenOptions { schema: trained.schema().cloned(), ..table.options() };
        table.open_with("", options).unwrap().remarks().to_vec()
    };
    assert_eq!(later("a,city,label\n1,rome,p\n,oslo,q\n"), Vec::<String>::new());
    let remarks = later("a,city,label\n,paris,p\n,bonn,q\n,rome,q\n");
    assert!(remarks[0].starts_with("2 cells of `") && remarks[0].contains("taken for none"), "{remarks:?}");
    assert!(remarks[1].contains("has a value in `a`, which the model was trained on"), "{remarks:?}");
    assert_eq!(remarks.len(), 2);
}

#[test]
fn weights_that_are_all_zero_and_options_given_twice_are_refused() {
    let table = Table::new("a,w,label\n1,0,p\n2,0.0,q\n");
    let error = table.open("label=label&weight=w").err().expect("refused").to_string();
    assert!(error.contains("`weight` names `w`, whose values are all 0"), "{error}");
    assert_eq!(Table::new("a,w,label\n1,0,p\n2,3,q\n").open("label=label&weight=w").unwrap().examples(), 2);
    let error = table.open("label=label&drop=a&drop=w").err().expect("refused").to_string();
    assert_eq!(error, "`csv:t.csv?label=label&drop=a&drop=w` has the option `drop` twice: keep one of them");
}

#[test]
fn a_row_without_a_group_is_refused_with_its_line() {
    let table = Table::new("a,g,label\n1,x,p\n2,,q\n3,y,p\n");
    let message = table.message("label=label&group=g");
    assert!(message.contains("line 3, column `g`: expected a name of what the row belongs to"), "{message}");
    let trained = Table::new("a,label\n1,p\n2,q\n").open("label=label").unwrap();
    let options = OpenOptions { schema: trained.schema().cloned(), ..table.options() };
    let error = table.open_with("group=g", options).err().expect("refused").to_string();
    assert!(error.contains("line 3, column `g`"), "{error}");
}

#[test]
fn a_first_line_that_states_the_separator_is_no_row() {
    for text in ["sep=;\na;label\n1,5;x\n2;y\n", "\u{feff}sep=;\r\na;label\r\n1,5;x\r\n2;y\r\n"] {
        let source = Table::new(text).open("label=label&categories=a").unwrap();
        assert_eq!((source.examples(), source.schema().unwrap().columns[0].name.as_str()), (2, "a"), "{text:?}");
        assert_eq!(all(&*source).targets, Targets::Classes(vec![0, 1]));
    }
    let unnamed = Table::new("sep=;\n1;2\n3;4\n").open("label=1&header=no").unwrap();
    assert_eq!((unnamed.examples(), all(&*unnamed).features), (2, vec![1.0, 3.0]));
}

#[test]
fn a_file_that_is_not_what_it_seems_is_answered_with_what_to_do() {
    let semicolons = Table::new("length;species\n1,5;rose\n2,5;iris\n");
    assert!(semicolons.message("label=species").contains("separated by semicolons, add `delimiter=;`"));
    semicolons.open("label=species&delimiter=;").expect("as it says");
    let tabs = Table::new("length\tspecies\n1\trose\n2\tiris\n");
    assert!(tabs.message("label=species").contains("separated by tabs, add `delimiter=tab`"));
    assert!(Table::new("").message("label=species").contains("is empty: expected a line with the names"));
    assert!(Table::new("\n\n").message("label=species").contains("is empty"));
    assert!(Table::new("length,species\n").message("label=species").contains("names of its columns and no rows"));
    let dropped = Table::new("length,species\n,rose\n").message("label=species&missing=drop");
    assert!(dropped.contains("no rows left after its options were applied"), "{dropped}");
}

#[test]
fn a_header_with_numbers_in_it_is_not_taken_for_a_row_without_a_word() {
    // By the name of a column that is in it, or by one text on top of numbers.
    let table = Table::new("0,1,target\n1.5,2,0\n2.5,1,1\n3.5,0,1\n");
    for query in ["label=target", "label=2", "label=-1", "drop=target&label=0", "label=0&task=regression"] {
        let message = table.message(query);
        assert!(
            message.contains("line 1") && message.contains("`target`") && message.contains("header=yes"),
            "{message}"
        );
    }
    assert_eq!(table.open("label=target&header=yes").expect("as it says").examples(), 3);
    assert!(table.message("label=2&header=no&task=regression").contains("expected a finite number"));
    // Numbers alone may be either.
    let counted = Table::new("0,1,2\n1.5,2,0\n2.5,1,1\n");
    let remarks = counted.open("label=2").expect("a table").remarks().join("\n");
    assert!(remarks.contains("0, 1, 2 and so on") && remarks.contains("header=yes"), "{remarks}");
    assert!(counted.open("label=2&header=no").expect("a table").remarks().is_empty());
    assert!(counted.open("label=2&header=yes").expect("a table").remarks().is_empty());
    assert!(Table::new(FLOWERS).open("label=species").expect("a table").remarks().is_empty());
}
