//! Sources of sequences, and of images in the files of CIFAR-10.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{Error, Normaliser, NormaliserKind, OpenOptions, Source, TargetShape, open};
use paceline_model::{Batch, Targets};

fn all(source: &dyn Source) -> Batch {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("they can be read");
    batch
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

fn opened(spec: &str) -> Arc<dyn Source> {
    open(spec, &OpenOptions::default()).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn refused(spec: &str) -> String {
    open(spec, &OpenOptions::default()).err().expect(spec).to_string()
}

/// Numbers, with −1 for what is none.
fn shown(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| if value.is_nan() { -1.0 } else { *value }).collect()
}

#[test]
fn steps_of_text_and_ids_of_sequences_are_kept_and_texts_as_order_are_remarked_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "a.txt", "abacab");
    let trained = opened(&format!("text:{path}?steps=4"));
    let later = OpenOptions { schema: trained.schema().cloned(), ..OpenOptions::default() };
    assert_eq!(open(&format!("text:{path}"), &later).expect("the same").shape(), trained.shape());
    assert_eq!(open(&format!("text:{path}?steps=2"), &later).expect("other steps").shape().features, [2, 1]);
    let rows = |order: [&str; 3]| {
        let text = format!("id,when,x,y\nq,{},1,0\np,{},2,1\nq,{},3,0\n", order[0], order[1], order[2]);
        opened(&format!("sequences:{}?id=id&order=when&label=y", file(folder.path(), "s.csv", &text)))
    };
    let source = rows(["9:30", "10:00", "10:30"]);
    assert_eq!(source.example_names(), Some(("id", &["q", "p"].map(String::from)[..])));
    let told = source.remarks().join("\n");
    assert!(told.contains("`order=when` sorts the steps") && told.contains("`9:30`, letter by letter"), "{told}");
    for order in [["1", "2", "3"], ["2024-01-31", "2024-02-01", "2024-02-02"]] {
        assert_eq!(rows(order).remarks().join("\n"), "", "{order:?}");
    }
}

#[test]
fn sequences_without_an_id_or_in_another_order_than_the_model_are_refused_and_the_unknown_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "id,t,v,cat,y\nq,1,5,a,0\nq,2,4,b,1\np,1,3,a,0\np,2,2,b,1\n";
    let path = file(folder.path(), "s.csv", text);
    let query = "?id=id&order=t&label=y&unknown=ignore&missing=mean";
    let trained = opened(&format!("sequences:{path}{query}"));
    let later = OpenOptions { schema: trained.schema().cloned(), ..OpenOptions::default() };
    let error = open(&format!("sequences:{path}?order=v"), &later).err().expect("refused").to_string();
    assert!(error.contains("`order` is `v`, and the model was trained in the order of `t`"), "{error}");
    let nameless = file(folder.path(), "n.csv", "id,t,v,cat,y\nq,1,5,a,0\n,2,4,b,1\n");
    for error in [refused(&format!("sequences:{nameless}{query}")), {
        open(&format!("sequences:{nameless}"), &later).err().expect("refused").to_string()
    }] {
        assert!(error.contains("line 3, column `id`: expected a name of what the row belongs to"), "{error}");
    }
    let other = file(folder.path(), "o.csv", "id,t,v,cat,y\nq,1,,c,0\nq,2,,d,1\n");
    let told = open(&format!("sequences:{other}"), &later).expect("it can be read").remarks().join("\n");
    assert!(told.contains("2 cells of `") && told.contains("has a value in `v`"), "{told}");
}

#[test]
fn text_is_cut_into_sequences_that_tell_the_next_character() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "a.txt", "abacab");
    let source = opened(&format!("text:{path}?steps=4"));
    assert_eq!((source.examples(), &source.shape().features[..]), (2, &[4, 1][..]));
    assert_eq!(source.schema().and_then(|schema| schema.class_names()), Some(&["a", "b", "c"].map(String::from)[..]));
    let batch = all(&*source);
    assert_eq!(shown(&batch.features), [0.0, 1.0, 0.0, 2.0, 0.0, -1.0, -1.0, -1.0]);
    let Targets::Values { width: 4, values } = &batch.targets else { panic!("{:?}", batch.targets) };
    assert_eq!(shown(values), [1.0, 0.0, 2.0, 0.0, 1.0, -1.0, -1.0, -1.0]);
    // Sequences may overlap, and a folder is one text.
    assert_eq!(opened(&format!("text:{path}?steps=4&stride=1")).examples(), 5);
    file(folder.path(), "b.md", "cc");
    file(folder.path(), "c.bin", "\u{0}");
    assert_eq!(all(&*opened(&format!("text:{}?steps=7", folder.path().display()))).features.len(), 7);
    // What was learned of one text says which characters another may have.
    let schema = source.schema().cloned();
    let later = |text: &str| {
        let path = file(folder.path(), "later.txt", text);
        open(&format!("text:{path}"), &OpenOptions { schema: schema.clone(), ..OpenOptions::default() })
    };
    assert_eq!(all(&*later("cab").expect("known characters")).features[..2], [2.0, 0.0]);
    assert!(later("abd").err().expect("an unknown character").to_string().contains("'d'"));
    assert!(refused(&format!("text:{path}?step=4")).contains("did you mean `steps`?"));
    assert!(refused(&format!("text:{path}?steps=0")).contains("from 1 on"));
}

const TABLE: &str = "id,x,y,kind\np,1,10,a\nq,2,20,b\np,3,30,b\np,4,40,a\nq,5,50,c\n";

#[test]
fn rows_that_share_a_value_are_the_steps_of_a_sequence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "steps.csv", TABLE);
    let source = opened(&format!("sequences:{path}?id=id&label=kind"));
    assert_eq!((source.examples(), &source.shape().features[..]), (2, &[3, 2][..]));
    let batch = all(&*source);
    assert_eq!(shown(&batch.features), [1.0, 10.0, 3.0, 30.0, 4.0, 40.0, 2.0, 20.0, 5.0, 50.0, -1.0, -1.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 1]), "the label of the last step counts; b is none of them");
    assert!(matches!(&source.shape().targets, TargetShape::Classes { names } if names == &["a", "c"]));
    let steps = opened(&format!("sequences:{path}?id=id&label=kind&each=step&steps=4"));
    let Targets::Values { width: 4, values } = all(&*steps).targets else { panic!("a class for every step") };
    assert_eq!(shown(&values), [0.0, 1.0, 0.0, -1.0, 1.0, 2.0, -1.0, -1.0]);
    let numbers = opened(&format!("sequences:{path}?id=id&label=y&columns=x&task=regression&each=step"));
    let batch = all(&*numbers);
    assert_eq!(shown(&batch.features), [1.0, 3.0, 4.0, 2.0, 5.0, -1.0]);
    let Targets::Values { width: 3, values } = &batch.targets else { panic!("a number for every step") };
    assert_eq!(shown(values), [10.0, 30.0, 40.0, 20.0, 50.0, -1.0]);
    // To predict on, the label is no feature either, whether it is there or not.
    let open_options = OpenOptions { targets: false, ..OpenOptions::default() };
    for label in ["kind", "unknown"] {
        let drop = if label == "kind" { "" } else { "&drop=kind" };
        let spec = format!("sequences:{path}?id=id&label={label}{drop}");
        assert_eq!(open(&spec, &open_options).expect("it can be read").shape().features, [3, 2]);
    }
    let mixed = file(folder.path(), "mixed.csv", "id,x,kind\na,1,9\nb,1,10\nc,1,1a\nd,1,9\n");
    let mixed = opened(&format!("sequences:{mixed}?id=id&label=kind"));
    assert!(matches!(&mixed.shape().targets, TargetShape::Classes { names } if names == &["10", "1a", "9"]));
    let numbers = file(folder.path(), "numbers.csv", "id,x,kind\na,1,9\nb,1,10\n");
    let numbers = opened(&format!("sequences:{numbers}?id=id&label=kind"));
    assert!(matches!(&numbers.shape().targets, TargetShape::Classes { names } if names == &["9", "10"]));
    let unlabelled =
        open(&format!("sequences:{path}?id=id&label=kind&drop=kind"), &open_options).expect("it can be read");
    assert_eq!(unlabelled.shape().features, [3, 2]);
    for (options, part) in [
        ("label=kind", "the column whose value the steps of a sequence share"),
        ("id=idd", "has no column `idd`"),
        ("id=id&label=kind&steps=2", "at least 3"),
        ("id=id&label=kind&task=regression", "line 5, column `kind`: expected a finite number, found `a`"),
        ("id=id&labl=kind", "did you mean `label`?"),
        ("id=id&label=kind&steps=99999999999999", "at most"),
    ] {
        let error = refused(&format!("sequences:{path}?{options}"));
        assert!(error.contains(part), "{options}: {error}");
    }
}

#[test]
fn a_normaliser_takes_all_steps_together_and_leaves_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "steps.csv", TABLE);
    let source = opened(&format!("sequences:{path}?id=id&label=kind"));
    let x = [1.0f64, 2.0, 3.0, 4.0, 5.0];
    let mean = x.iter().sum::<f64>() / 5.0;
    let deviation = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
    for kind in [NormaliserKind::Standardise, NormaliserKind::MinMax] {
        let normaliser = Normaliser::fit(kind, &*source).expect("it can be read").expect("a normaliser");
        let mut batch = all(&*source);
        normaliser.apply(&mut batch.features, 6).expect("it fits");
        let expected = |x: f64| if kind == NormaliserKind::MinMax { (x - 1.0) / 4.0 } else { (x - mean) / deviation };
        for (at, x) in [(0, 1.0), (2, 3.0), (4, 4.0), (6, 2.0), (8, 5.0), (1, 1.0), (9, 5.0)] {
            let found = f64::from(batch.features[at]);
            assert!((found - expected(x)).abs() < 1e-6, "{kind:?}, {at}: {found} and {}", expected(x));
        }
        assert!(batch.features[10..].iter().all(|value| value.is_nan()));
    }
}

#[test]
fn images_of_cifar_have_their_colours_side_by_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = |class: u8| {
        let plane = |colour: usize| (0..1024).map(move |pixel| ((pixel + colour) % 251) as u8);
        [vec![class], (0..3).flat_map(plane).collect()].concat()
    };
    let path = folder.path().join("data_batch_1.bin");
    std::fs::write(&path, [record(3), record(9)].concat()).expect("a file");
    for spec in [format!("cifar10:{}", path.display()), format!("cifar10:{}", folder.path().display())] {
        let source = opened(&spec);
        let batch = all(&*source);
        assert_eq!((source.examples(), &source.shape().features[..]), (2, &[32, 32, 3][..]));
        assert_eq!(batch.targets, Targets::Classes(vec![3, 9]));
        assert_eq!(batch.features[..6], [0.0, 1.0, 2.0, 1.0, 2.0, 3.0]);
    }
    std::fs::write(&path, record(10)).expect("a file");
    let error = open(&format!("cifar10:{}", path.display()), &OpenOptions::default()).err().expect("no such class");
    assert!(matches!(error, Error::LabelOutOfRange { found: 10, .. }), "{error}");
    std::fs::write(&path, [1, 2, 3]).expect("a file");
    assert!(refused(&format!("cifar10:{}", path.display())).contains("whole images of 3073 bytes"));
}
