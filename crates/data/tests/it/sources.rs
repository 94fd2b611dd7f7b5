use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_data::{
    Arrays, Error, Example, ExampleShape, ExampleTarget, NormaliserKind, OpenOptions, Order, Source, Stream, Subset,
    TargetShape, inspect, open, split,
};
use paceline_model::{Batch, Targets};

fn read(source: &dyn Source, indices: &[u64]) -> Result<Batch, Error> {
    let mut batch = Batch::empty();
    source.read(indices, &mut batch).map(|()| batch)
}

fn two_classes() -> ExampleShape {
    let names = vec!["no".to_owned(), "yes".to_owned()];
    ExampleShape { features: vec![2], targets: TargetShape::Classes { names } }
}

#[test]
fn the_digits_are_split_into_parts_that_share_nothing() {
    let indices_of = |part: &str| -> HashSet<u64> {
        let source = open(part, &OpenOptions::default()).unwrap();
        assert_eq!(source.default_normaliser(), NormaliserKind::MinMax);
        let all: Vec<u64> = (0..source.examples() as u64).collect();
        read(&*source, &all).unwrap().indices.into_iter().collect()
    };
    let (train, test) = (indices_of("digits:train"), indices_of("digits:test"));
    assert_eq!((train.len(), test.len()), (1438, 359));
    assert!(train.is_disjoint(&test));
    assert_eq!(train, indices_of("digits:train"));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let message = |spec| open(spec, &OpenOptions::default()).err().unwrap().to_string();
    assert!(message("digits:trian").contains("did you mean `train`?"), "{}", message("digits:trian"));
    assert!(message("mnist:tset").contains("did you mean `test`?"), "{}", message("mnist:tset"));
    assert!(message("cvs:x").contains("did you mean `csv:x`?"), "{}", message("cvs:x"));
}

#[test]
fn a_split_is_fair_and_depends_on_the_seed() {
    let digits = open("digits:", &OpenOptions::default()).unwrap();
    let first_of = |seed| {
        let (part, rest) = split(Arc::clone(&digits), 0.25, seed).unwrap();
        assert_eq!(part.examples() + rest.examples(), 1797);
        read(&*part, &(0..449).collect::<Vec<_>>()).unwrap().indices
    };
    assert_eq!(first_of(1), first_of(1));
    assert_ne!(first_of(1), first_of(2));
    let mean = first_of(1).iter().sum::<u64>() as f64 / 449.0;
    assert!((800.0..1000.0).contains(&mean), "the part lies all over the source, mean index {mean}");
    assert!(split(digits, 1.5, 0).is_err());
}

#[test]
fn arrays_that_do_not_fit_together_are_refused() {
    let message = |features: Vec<f32>, targets| Arrays::new(features, two_classes(), targets).unwrap_err().to_string();
    assert!(message(vec![0.0; 3], Targets::None).contains("multiple of 2"));
    assert!(message(vec![0.0; 4], Targets::Classes(vec![0])).contains("expected 2, found 1"));
    assert!(message(vec![0.0; 4], Targets::Classes(vec![0, 2])).contains("label 2"));
    assert!(message(vec![0.0; 4], Targets::None).contains("expected classes, found none"));
    let not_a_number = message(vec![0.0, 0.0, 0.0, f32::NAN], Targets::Classes(vec![0, 1]));
    assert!(not_a_number.contains("example 1") && not_a_number.contains("place 1"), "{not_a_number}");
    let good = Arrays::new(vec![0.0; 4], two_classes(), Targets::Classes(vec![0, 1])).unwrap();
    assert!(good.with_weights(vec![1.0, -1.0]).is_err());
}

fn counting_stream(examples: usize, given: u32) -> (Stream, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let stream = Stream::new(two_classes(), examples, move || {
        count.fetch_add(1, Ordering::SeqCst);
        (0..given).map(|at| Ok(Example { features: vec![at as f32, 0.0], target: ExampleTarget::Class(at % 2) }))
    });
    (stream, made)
}

#[test]
fn a_stream_goes_forward_and_starts_over_only_to_go_back() {
    let (stream, made) = counting_stream(10, 10);
    assert_eq!(stream.order(), Order::Sequential);
    assert_eq!(read(&stream, &[0, 1]).unwrap().features, [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(read(&stream, &[4, 9]).unwrap().targets, Targets::Classes(vec![0, 1]));
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert_eq!(read(&stream, &[3]).unwrap().features, [3.0, 0.0]);
    assert_eq!(made.load(Ordering::SeqCst), 2);
}

#[test]
fn a_stream_that_ends_early_or_fails_says_where() {
    let (short, _) = counting_stream(10, 7);
    let error = read(&short, &[8]).unwrap_err();
    assert!(matches!(error, Error::StreamEnded { expected: 10, found: 7 }), "{error}");
    let failing = Stream::new(two_classes(), 3, || std::iter::once(Err("the cable is loose".into())));
    let message = read(&failing, &[0]).unwrap_err().to_string();
    assert!(message.contains("example 0") && message.contains("the cable is loose"), "{message}");
}

#[test]
fn a_subset_counts_for_itself_but_names_the_examples_of_its_source() {
    let digits = open("digits:", &OpenOptions::default()).unwrap();
    let subset = Subset::of(Arc::clone(&digits), vec![1000, 7]).unwrap();
    let (of_subset, of_source) = (read(&subset, &[0, 1]).unwrap(), read(&*digits, &[1000, 7]).unwrap());
    assert_eq!(of_subset, of_source);
    assert!(matches!(Subset::of(digits, vec![1797]), Err(Error::IndexOutOfRange { index: 1797, .. })));
}

#[test]
fn a_summary_counts_classes_and_columns() {
    let digits = inspect(&*open("digits:", &OpenOptions::default()).unwrap()).unwrap();
    assert_eq!(digits.examples, 1797);
    // `numpy.bincount(sklearn.datasets.load_digits().target)`
    let counts: Vec<u64> = digits.classes.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert_eq!(digits.columns.len(), 64);
    assert_eq!((digits.columns[0].minimum, digits.columns[0].maximum), (0.0, 0.0));
    // `sklearn.datasets.load_digits().data.mean(axis=0)[[20, 60]]`
    let means = [20, 60].map(|column| (digits.columns[column].mean * 1e6).round() / 1e6);
    assert_eq!(means, [7.097941, 11.809126]);
    let text = digits.to_string();
    assert!(text.starts_with("1797 examples of 8 × 8 × 1 features"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("feature 63")), "{text}");
}
