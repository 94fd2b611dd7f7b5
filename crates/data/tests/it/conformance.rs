//! What every source must do, asked of each kind.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    Arrays, Error, Example, ExampleShape, ExampleTarget, OpenOptions, Source, Stream, Subset, TargetShape, open, split,
};
use paceline_model::{Batch, Targets};

fn check(name: &str, source: &dyn Source) {
    let examples = source.examples() as u64;
    let width = source.shape().width();
    assert!(examples >= 4 && width >= 1, "{name}");
    let read = |indices: &[u64]| {
        let mut batch = Batch::empty();
        source.read(indices, &mut batch).unwrap_or_else(|error| panic!("{name}: {error}"));
        batch
    };
    let whole = read(&(0..examples).collect::<Vec<_>>());
    assert_eq!(whole.features.len() as u64, examples * width as u64, "{name}");
    assert_eq!(whole.weights.is_some(), source.weighted(), "{name}");
    match (&whole.targets, &source.shape().targets) {
        (Targets::None, TargetShape::None) => {}
        (Targets::Classes(classes), TargetShape::Classes { names }) => {
            assert_eq!(classes.len() as u64, examples, "{name}");
            assert!(classes.iter().all(|class| (*class as usize) < names.len()), "{name}");
        }
        (Targets::Values { width, values }, TargetShape::Values { names }) => {
            assert_eq!((*width, values.len()), (names.len(), examples as usize * names.len()), "{name}");
        }
        (found, shape) => panic!("{name}: {found:?} for {shape:?}"),
    }
    // Any order, repeats included, gives the rows that reading everything gave.
    let picked = [examples - 1, 0, 2, 2, 1];
    let batch = read(&picked);
    for (row, index) in picked.iter().enumerate() {
        assert_eq!(batch.row(row), whole.row(*index as usize), "{name}, example {index}");
        assert_eq!(batch.indices[row], whole.indices[*index as usize], "{name}");
        if let (Targets::Classes(some), Targets::Classes(all)) = (&batch.targets, &whole.targets) {
            assert_eq!(some[row], all[*index as usize], "{name}, example {index}");
        }
    }
    // A batch that was filled before is replaced, whatever it held.
    let mut used = Batch {
        epoch: 3,
        indices: vec![9; 50],
        width: 7,
        features: vec![5.0; 900],
        targets: Targets::Values { width: 2, values: vec![1.0; 99] },
        weights: Some(vec![4.0; 12]),
    };
    source.read(&picked, &mut used).unwrap();
    assert_eq!(used, Batch { epoch: 3, ..batch }, "{name}");
    // Reading again as much allocates nothing.
    let places = (used.features.as_ptr(), used.indices.as_ptr());
    source.read(&picked, &mut used).unwrap();
    assert_eq!((used.features.as_ptr(), used.indices.as_ptr()), places, "{name}");
    let error = source.read(&[0, examples], &mut used).unwrap_err();
    assert!(matches!(error, Error::IndexOutOfRange { index, .. } if index == examples), "{name}: {error}");
}

fn iris(folder: &Path) -> String {
    let mut text = String::from("length,colour,w,species\n");
    for row in 0..50 {
        let (colour, species) = (["red", "blue"][row % 2], ["setosa", "virginica", "other"][row % 3]);
        text.push_str(&format!("{}.5,{colour},{},{species}\n", row, row % 4));
    }
    let path = folder.join("iris.csv");
    std::fs::write(&path, text).unwrap();
    format!("csv:{}?label=species&weight=w", path.display())
}

#[test]
fn every_kind_of_source_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::default();
    let digits = open("digits:", &options).unwrap();
    check("digits", &*digits);
    check("digits:test", &*open("digits:test", &options).unwrap());
    check("table", &*open(&iris(folder.path()), &options).unwrap());
    let streamed = OpenOptions { memory_limit: 0, ..OpenOptions::default() };
    check("streamed table", &*open(&iris(folder.path()), &streamed).unwrap());
    for options in [&options, &streamed] {
        let path = folder.path().join("rows.jsonl");
        let row = |at: usize| format!("{{\"x\": [{at}, {}], \"y\": \"{}\"}}\n", at * at, at % 3);
        std::fs::write(&path, (0..40).map(row).collect::<String>()).unwrap();
        check("lines of JSON", &*open(&format!("jsonl:{}?label=y", path.display()), options).unwrap());
    }
    for (name, text) in [("lines", "abc\nbca\ncab\nbac\n"), ("labelled lines", "x\tab\ny\tba\nx\taa\nx\tbb\n")] {
        let path = folder.path().join("lines.txt");
        std::fs::write(&path, text).unwrap();
        check(name, &*open(&format!("lines:{}", path.display()), &options).unwrap());
    }
    #[cfg(feature = "images")]
    for options in [&options, &streamed] {
        let images = folder.path().join("images");
        for at in 0..5u8 {
            let path = images.join(["a", "b"][usize::from(at % 2)]).join(format!("{at}.png"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            image::RgbImage::from_pixel(3, 2, image::Rgb([at, 2, 3])).save(path).unwrap();
        }
        check("images", &*open(&format!("images:{}", images.display()), options).unwrap());
    }
    check("first", &Subset::first(Arc::clone(&digits), 30));
    check("picked", &Subset::of(Arc::clone(&digits), vec![9, 3, 200, 3, 5]).unwrap());
    check("split", &*split(digits, 0.1, 1).unwrap().0);
    let shape = ExampleShape { features: vec![2], targets: TargetShape::Values { names: vec!["y".to_owned()] } };
    let targets = Targets::Values { width: 1, values: vec![1.0, 2.0, 3.0, 4.0] };
    check("arrays", &Arrays::new((0..8).map(|value| value as f32).collect(), shape.clone(), targets).unwrap());
    check(
        "stream",
        &Stream::new(shape, 4, || {
            (0..4).map(|at| {
                Ok(Example { features: vec![at as f32, 1.0], target: ExampleTarget::Values(vec![at as f32]) })
            })
        }),
    );
}
