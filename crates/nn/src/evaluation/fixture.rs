//! The expected numbers that `tests/fixtures/evaluation.py` made, and how evaluations are compared.

use proptest::prelude::*;
use serde_json::Value;

/// `tests/fixtures/evaluation.json`.
pub(super) fn expected() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/evaluation.json")).expect("the fixture is JSON")
}

/// Whether two numbers are the same but for rounding: 1e-12 relative, absolute below 1.
pub(super) fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-12 * wanted.abs().max(1.0)
}

/// Whether two numbers are the same but for 1e-12 of their size, however small they are.
pub(super) fn relatively_close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-12 * wanted.abs()
}

/// Checks that all of `found` are close to the list `wanted`.
pub(super) fn assert_close(what: &str, found: impl IntoIterator<Item = f64>, wanted: &Value) {
    let found: Vec<f64> = found.into_iter().collect();
    let wanted: Vec<f64> = list(wanted).map(float).collect();
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (&a, &b)) in found.iter().zip(&wanted).enumerate() {
        assert!(close(a, b), "{what} {i}: found {a}, wanted {b}");
    }
}

pub(super) fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The numbers of a list, `null` as NaN.
pub(super) fn floats(values: &Value) -> Vec<f32> {
    list(values).map(|value| value.as_f64().map_or(f32::NAN, |value| value as f32)).collect()
}

pub(super) fn classes(values: &Value) -> Vec<u32> {
    list(values).map(|value| value.as_u64().expect("a class") as u32).collect()
}

/// Outputs, classes and weights of `rare_classes` in `evaluation.py`.
pub(super) fn rare_classes(case: &Value) -> (Vec<f32>, Vec<u32>, Option<Vec<f32>>) {
    let [tied, weighted] = ["tied", "weighted"].map(|key| case[key].as_bool().expect("a flag"));
    let (mut outputs, mut classes, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..40_000u32 {
        let drawn = (row * 7919 % 40_009) as f32 / 40_009.0;
        let drawn = if tied { (drawn * 64.0).floor() / 64.0 } else { drawn };
        let is_rare = [17, 4_000, 11_111, 23_456, 31_337, 39_998].contains(&row);
        let class = if is_rare { 2 } else { row % 5 / 3 };
        let second = if class == 1 { drawn * 0.5 + 0.25 } else { drawn * 0.625 };
        let third = if is_rare { drawn * 0.875 + 0.125 } else { drawn * drawn * 0.5 };
        outputs.extend([0.5 - drawn * 0.25, second, third]);
        classes.push(class);
        weights.push(1.0 + (row % 7) as f32 / 8.0);
    }
    (outputs, classes, weighted.then_some(weights))
}

/// The weights of a case, if it has any.
pub(super) fn weights(case: &Value) -> Option<Vec<f32>> {
    case["weights"].is_array().then(|| floats(&case["weights"]))
}

pub(super) fn names(count: usize) -> Vec<String> {
    (0..count).map(|class| format!("class {class}")).collect()
}

/// Examples dealt out to up to five parts, some of them empty, and the same parts in any order.
pub(super) fn parts<T: Clone + std::fmt::Debug>(
    example: impl Strategy<Value = T>,
) -> impl Strategy<Value = (Vec<Vec<T>>, Vec<Vec<T>>)> {
    prop::collection::vec(prop::collection::vec(example, 0..20), 1..=5)
        .prop_flat_map(|parts| (Just(parts.clone()), Just(parts).prop_shuffle()))
}

/// The weight of an example. Ranges of `proptest` begin at a multiple of the end's last place: elsewhere it panics now and then.
pub(super) fn weight() -> impl Strategy<Value = f32> {
    1.0 / 1024.0..9.0f32
}

fn list(values: &Value) -> std::slice::Iter<'_, Value> {
    values.as_array().expect("a list").iter()
}
