//! Boxes around things in an image, found by a grid of cells (Redmon and Farhadi 2017).
//!
//! A cell tells of several boxes: the place of the middle within the cell, width and height in cells, how sure it is, and a chance for
//! every class. Its target is the left, upper, right and lower edge of the box whose middle lies in it, in cells from the corner of the
//! image, and a number for every class; all of them are 0 where there is no middle. Of the boxes of a cell the one that overlaps most with
//! the target answers for it.

use super::BoxLoss;
use crate::Real;

/// Numbers of a box before its classes: place, size, and how sure it is.
const OF_BOX: usize = 5;
/// Numbers of a target before its classes.
const OF_TARGET: usize = 4;

/// Numbers of the target of a cell with so many outputs, if they can be boxes.
pub(super) fn targets(boxes: usize, outputs: usize) -> Option<usize> {
    let each = outputs.checked_div(boxes).filter(|_| outputs.is_multiple_of(boxes))?;
    each.checked_sub(OF_BOX).filter(|classes| *classes > 0).map(|classes| OF_TARGET + classes)
}

/// How much of both a box shares with the target, from 0 to 1, and the slopes by its place and size.
fn overlap<R: Real>(own: &[R], wanted: [R; 4]) -> (R, [R; 4]) {
    let half = R::of(0.5);
    let mut shared = [R::ZERO; 2];
    let mut by_place = [R::ZERO; 2];
    let mut by_size = [R::ZERO; 2];
    for axis in 0..2 {
        let [low, high] = [-half, half].map(|side| own[axis] + side * own[2 + axis]);
        let [first, last] = [-half, half].map(|side| wanted[axis] + side * wanted[2 + axis]);
        shared[axis] = high.min(last) - low.max(first);
        let ends_it = if high < last { R::ONE } else { R::ZERO };
        let begins_it = if low > first { R::ONE } else { R::ZERO };
        by_place[axis] = ends_it - begins_it;
        by_size[axis] = half * (ends_it + begins_it);
    }
    if shared[0] <= R::ZERO || shared[1] <= R::ZERO {
        return (R::ZERO, [R::ZERO; 4]);
    }
    let common = shared[0] * shared[1];
    let all = own[2] * own[3] + wanted[2] * wanted[3] - common;
    let mut slopes = [R::ZERO; 4];
    for axis in 0..2 {
        let other = shared[1 - axis];
        let slope = |of_common: R, of_area: R| (of_common * (all + common) - common * of_area) / (all * all);
        slopes[axis] = slope(by_place[axis] * other, R::ZERO);
        slopes[2 + axis] = slope(by_size[axis] * other, own[3 - axis]);
    }
    (common / all, slopes)
}

/// The squares of what place, roots of the size, sureness and chances differ by; where nothing is, sureness alone counts.
pub(super) fn row<R: Real>(config: BoxLoss, target: &[R], output: &[R], slope: &mut [R]) -> R {
    let BoxLoss { boxes, coordinates, no_object } = config;
    let cells = output.len() / boxes - target.len();
    let [coordinates, no_object] = [coordinates, no_object].map(|factor| R::of(f64::from(factor)));
    let (two, half) = (R::of(2.0), R::of(0.5));
    let (of_cell, wanted) = (output.len() / cells, target.len() / cells);
    let each = of_cell / boxes;
    slope.fill(R::ZERO);
    let mut sum = R::ZERO;
    let rows = output.chunks_exact(of_cell).zip(slope.chunks_exact_mut(of_cell));
    for ((output, slope), target) in rows.zip(target.chunks_exact(wanted)) {
        let (edges, classes) = target.split_at(OF_TARGET);
        let size = [edges[2] - edges[0], edges[3] - edges[1]];
        let is_there = size[0] > R::ZERO && size[1] > R::ZERO;
        // The middle, from the corner of the cell that it lies in.
        let within = |low: R, high: R| {
            let middle = ((low + high) * half).to_f64();
            R::of(middle - middle.floor())
        };
        let wanted = [within(edges[0], edges[2]), within(edges[1], edges[3]), size[0], size[1]];
        let overlaps: Vec<R> = output.chunks_exact(each).map(|own| overlap(own, wanted).0).collect();
        let most = (1..boxes).fold(0, |most, at| if overlaps[at] > overlaps[most] { at } else { most });
        for (at, (own, slope)) in output.chunks_exact(each).zip(slope.chunks_exact_mut(each)).enumerate() {
            let mut squared = |place: usize, difference: R, factor: R, by: R| {
                slope[place] += two * factor * difference * by;
                sum += factor * difference * difference;
            };
            if !is_there || at != most {
                squared(4, own[4], no_object, R::ONE);
                continue;
            }
            for axis in 0..2 {
                squared(axis, own[axis] - wanted[axis], coordinates, R::ONE);
                let root = own[2 + axis].max(R::EDGE).sqrt();
                squared(2 + axis, root - wanted[2 + axis].sqrt(), coordinates, half / root);
            }
            for (class, wanted) in classes.iter().enumerate() {
                squared(OF_BOX + class, own[OF_BOX + class] - *wanted, R::ONE, R::ONE);
            }
            let (shared, slopes) = overlap(own, wanted);
            squared(4, own[4] - shared, R::ONE, R::ONE);
            let beyond = own[4] - shared;
            (0..4).for_each(|place| slope[place] -= two * beyond * slopes[place]);
        }
    }
    sum
}

/// The targets that the surest box of every cell stands for, where it is rather sure than not; else 0.
pub(super) fn told(boxes: usize, [height, width]: [usize; 2], output: &[f32]) -> Vec<f32> {
    let of_cell = output.len() / (height * width);
    let each = of_cell / boxes;
    let cell = |(at, output): (usize, &[f32])| {
        let surest = output.chunks_exact(each).max_by(|a, b| a[4].total_cmp(&b[4])).expect("there are boxes");
        if surest[4] <= 0.5 {
            return vec![0.0; each - 1];
        }
        let corner = [(at % width) as f32, (at / width) as f32];
        let edge = |axis: usize, side: f32| corner[axis] + surest[axis] + side * surest[2 + axis];
        let edges = [edge(0, -0.5), edge(1, -0.5), edge(0, 0.5), edge(1, 0.5)];
        edges.into_iter().chain(surest[OF_BOX..].iter().copied()).collect()
    };
    output.chunks_exact(of_cell).enumerate().flat_map(cell).collect()
}
