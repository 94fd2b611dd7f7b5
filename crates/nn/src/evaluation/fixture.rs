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
