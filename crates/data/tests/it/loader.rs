use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_data::{
    Arrays, Error, ExampleShape, Loader, LoaderOptions, Normaliser, NormaliserKind, OpenOptions, Source, TargetShape,
    open,
};
use paceline_model::{Batch, Targets};

fn digits() -> Arc<dyn Source> {
    open("digits:", &OpenOptions::default()).unwrap()
}

fn batches(loader: &Loader, epoch: u64, from: u64) -> Vec<Batch> {
    let mut epoch = loader.epoch(epoch, from);
    std::iter::from_fn(|| epoch.next()).map(Result::unwrap).collect()
}

#[test]
fn an_epoch_gives_every_example_once_and_a_short_last_batch() {
    for prefetch in [0, 1, 5] {
        let options = LoaderOptions { batch: 100, prefetch, ..LoaderOptions::default() };
        let loader = Loader::new(digits(), options).unwrap();
        let epoch = batches(&loader, 4, 0);
        assert_eq!((epoch.len() as u64, loader.steps_per_epoch()), (18, 18));
        assert!(epoch[..17].iter().all(|batch| batch.examples() == 100));
        assert_eq!(epoch[17].examples(), 97);
        assert!(epoch.iter().all(|batch| batch.epoch == 4));
        let seen: HashSet<u64> = epoch.iter().flat_map(|batch| batch.indices.iter().copied()).collect();
        assert_eq!(seen.len(), 1797);
    }
}

#[test]
fn steps_by_length_hold_sequences_that_are_about_as_long_as_each_other() {
    const STEPS: usize = 9;
    let length = |index: u64| 1 + (index * 5 % 9) as usize;
    let row = |index| (0..2 * STEPS).map(move |at| if at < 2 * length(index) { index as f32 } else { f32::NAN });
    let shape = ExampleShape { features: vec![STEPS, 2], targets: TargetShape::None };
    let source: Arc<dyn Source> =
        Arc::new(Arrays::new((0..500).flat_map(row).collect(), shape, Targets::None).unwrap());
    let options = LoaderOptions { batch: 20, by_length: true, seed: 3, ..LoaderOptions::default() };
    let loader = Loader::new(Arc::clone(&source), options.clone()).unwrap();
    let epochs = [0, 1].map(|epoch| batches(&loader, epoch, 0));
    for epoch in &epochs {
        let seen: HashSet<u64> = epoch.iter().flat_map(|batch| batch.indices.iter().copied()).collect();
        assert_eq!((epoch.len(), seen.len()), (25, 500));
        let ends = |batch: &Batch| {
            let lengths = batch.indices.iter().map(|index| length(*index));
            (lengths.clone().min().unwrap(), lengths.max().unwrap())
        };
        assert!(epoch.iter().map(ends).all(|(shortest, longest)| longest <= shortest + 1));
        assert!(!epoch.is_sorted_by_key(ends), "which step comes first is by chance");
    }
    assert_ne!(epochs[0][0].indices, epochs[1][0].indices);
    // Whoever is told what comes next finds the same order.
    let mut told = Batch::empty();
    loader.read(1, 40..60, &mut told).unwrap();
    assert_eq!(told.indices, epochs[1][2].indices);
    assert_eq!(batches(&loader, 1, 7)[0].indices, epochs[1][7].indices);
    for wrong in
        [Loader::new(digits(), options.clone()), Loader::new(source, LoaderOptions { shuffle: false, ..options })]
    {
        assert!(wrong.err().expect("no lengths to go by").to_string().contains("data.by_length"));
    }
}

#[test]
fn starting_at_a_step_gives_the_very_same_batches() {
    let normaliser = Normaliser::fit(NormaliserKind::MinMax, &*digits()).unwrap();
    let loader = |prefetch| {
        let options =
            LoaderOptions { batch: 64, seed: 9, prefetch, normaliser: normaliser.clone(), ..Default::default() };
        Loader::new(digits(), options).unwrap()
    };
    let whole = batches(&loader(3), 2, 0);
    assert_eq!(batches(&loader(3), 2, 11), whole[11..]);
    assert_eq!(batches(&loader(0), 2, 0), whole);
    assert_ne!(batches(&loader(3), 3, 0)[0].indices, whole[0].indices);
    assert!(batches(&loader(3), 2, 29).is_empty());
}

#[test]
fn without_shuffling_examples_come_in_order() {
    let loader = Loader::new(digits(), LoaderOptions { shuffle: false, ..LoaderOptions::default() }).unwrap();
    let seen: Vec<u64> = batches(&loader, 0, 0).into_iter().flat_map(|batch| batch.indices).collect();
    assert_eq!(seen, (0..1797).collect::<Vec<_>>());
}

#[test]
fn buffers_that_come_back_are_filled_again_across_epochs() {
    let class_weights = Some(vec![0.5; 10]);
    let options = LoaderOptions { batch: 16, prefetch: 2, class_weights, ..LoaderOptions::default() };
    let loader = Loader::new(digits(), options).unwrap();
    let (mut features, mut weights) = (HashSet::new(), HashSet::new());
    for number in 0..3 {
        let mut epoch = loader.epoch(number, 0);
        while let Some(batch) = epoch.next() {
            let batch = batch.unwrap();
            features.insert(batch.features.as_ptr() as usize);
            weights.insert(batch.weights.as_ref().unwrap().as_ptr() as usize);
            epoch.recycle(batch);
        }
    }
    // 339 batches went through: two ready, one being filled, one with us.
    assert!(features.len() <= 4, "{} buffers for features", features.len());
    assert!(weights.len() <= 4, "{} buffers for weights", weights.len());
}

#[test]
fn class_weights_multiply_the_weights_of_the_examples() {
    let names = vec!["a".to_owned(), "b".to_owned()];
    let shape = ExampleShape { features: vec![1], targets: TargetShape::Classes { names } };
    let plain = Arrays::new(vec![0.0; 3], shape, Targets::Classes(vec![0, 1, 1])).unwrap();
    let weights_of = |source: Arrays, class_weights: Option<Vec<f32>>| {
        let options = LoaderOptions { shuffle: false, class_weights, ..LoaderOptions::default() };
        batches(&Loader::new(Arc::new(source), options).unwrap(), 0, 0).remove(0).weights
    };
    assert_eq!(weights_of(plain.clone(), None), None);
    assert_eq!(weights_of(plain.clone(), Some(vec![1.0, 3.0])), Some(vec![1.0, 3.0, 3.0]));
    let weighted = plain.with_weights(vec![2.0, 0.5, 1.0]).unwrap();
    assert_eq!(weights_of(weighted, Some(vec![1.0, 3.0])), Some(vec![2.0, 1.5, 3.0]));
}

#[test]
fn options_that_do_not_fit_the_source_are_refused() {
    let refused = |options| Loader::new(digits(), options).err().unwrap().to_string();
    assert!(
        refused(LoaderOptions { batch: 0, ..LoaderOptions::default() })
            .contains("`batch`: expected at least 1, found 0")
    );
    let class_weights = Some(vec![1.0; 9]);
    assert!(refused(LoaderOptions { class_weights, ..LoaderOptions::default() }).contains("10 finite numbers"));
    let normaliser = Some(Normaliser::MinMax { minimum: vec![0.0; 3], range: vec![1.0; 3] });
    assert!(refused(LoaderOptions { normaliser, ..LoaderOptions::default() }).contains("expected 64, found 3"));
}

/// Fails in one way at the example that it is told.
struct Failing {
    shape: ExampleShape,
    panics: bool,
    reads: AtomicUsize,
}

impl Failing {
    fn new(panics: bool) -> Arc<Self> {
        let shape = ExampleShape { features: vec![1], targets: TargetShape::None };
        Arc::new(Self { shape, panics, reads: AtomicUsize::new(0) })
    }
}

impl Source for Failing {
    fn examples(&self) -> usize {
        1_000_000
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if indices.contains(&30) {
            assert!(!self.panics, "the disk caught fire");
            return Err(Error::IndexOutOfRange { index: 30, examples: 0 });
        }
        *batch = Batch { indices: indices.to_vec(), width: 1, features: vec![0.0; indices.len()], ..Batch::empty() };
        Ok(())
    }
}

#[test]
fn an_error_or_a_panic_of_the_thread_arrives_in_its_place_and_ends_the_epoch() {
    for (panics, prefetch) in [(false, 0), (false, 2), (true, 0), (true, 2)] {
        let options = LoaderOptions { batch: 10, shuffle: false, prefetch, ..LoaderOptions::default() };
        let loader = Loader::new(Failing::new(panics), options).unwrap();
        let mut epoch = loader.epoch(1, 0);
        for _ in 0..3 {
            assert!(epoch.next().unwrap().is_ok());
        }
        match epoch.next().unwrap().unwrap_err() {
            Error::LoaderPanicked { epoch: 1, step: 3, message } if panics => {
                assert_eq!(message, "the disk caught fire");
            }
            Error::IndexOutOfRange { index: 30, .. } if !panics => {}
            other => panic!("{other}"),
        }
        assert!(epoch.next().is_none());
    }
}

#[test]
fn dropping_an_epoch_midway_stops_and_joins_its_thread() {
    let source = Failing::new(false);
    let options = LoaderOptions { batch: 10, shuffle: false, prefetch: 3, ..LoaderOptions::default() };
    let loader = Loader::new(Arc::clone(&source) as Arc<dyn Source>, options).unwrap();
    let mut epoch = loader.epoch(0, 10);
    epoch.next().unwrap().unwrap();
    drop(epoch);
    drop(loader);
    // The thread held the source; joined, it holds it no more. Of 99,990 steps it read no further than the channel.
    assert_eq!(Arc::strong_count(&source), 1);
    assert!(source.reads.load(Ordering::SeqCst) <= 5 + 4, "{:?}", source.reads);
}
