//! Layers that look at all steps of a sequence at once.

use super::Builder;
use super::dense::weigh_with;
use crate::config::{Attention, LearnedSelfAttention, SelfAttention};
use crate::graph::ValueId;
use crate::node::{Looking, Op};
use crate::{Error, Fan, Shape};

/// Numbers of a head.
pub(super) fn head_size(
    units: usize,
    heads: usize,
    stated: Option<usize>,
    builder: &Builder<'_>,
) -> Result<usize, Error> {
    if units == 0 || heads == 0 || stated == Some(0) {
        return Err(builder.wrong("`units`, `heads` and `head_size` must be at least 1".into()));
    }
    match stated {
        Some(size) => Ok(size),
        None if units.is_multiple_of(heads) => Ok(units / heads),
        None => Err(builder.wrong(format!(
            "`units` ({units}) cannot be shared evenly among {heads} `heads`: say with `head_size` by how many numbers each compares"
        ))),
    }
}

/// What questions find among the steps of keys and values.
fn look(
    op: Looking,
    [questions, keys, values]: [ValueId; 3],
    mask: Option<ValueId>,
    output: Shape,
    builder: &mut Builder<'_>,
) {
    let reads = [Some(questions), Some(keys), Some(values), mask].into_iter().flatten().collect();
    builder.push_reading(Op::Attention(op), reads, output, 0..0);
}

pub(super) fn to_itself(config: &SelfAttention, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, _] = builder.sequence()?;
    let &SelfAttention { units, heads, causal, .. } = config;
    let size = head_size(units, heads, config.head_size, builder)?;
    let (read, mask) = (builder.value(), builder.mask());
    let project = |name: &str, builder: &mut Builder<'_>| {
        builder.continue_from(read);
        weigh_with(name, heads * size, false, builder).map(|()| builder.value())
    };
    let [q, k, v] = ["query_weight", "key_weight", "value_weight"].map(|name| project(name, builder));
    let op = Looking { heads, size, queries: steps, steps, causal };
    look(op, [q?, k?, v?], mask, Shape::Sequence { steps, features: heads * size }, builder);
    weigh_with("output_weight", units, false, builder)?;
    builder.activate();
    Ok(())
}

pub(super) fn learned(config: &LearnedSelfAttention, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, _] = builder.sequence()?;
    let &LearnedSelfAttention { units, queries, heads, .. } = config;
    let size = head_size(units, heads, config.head_size, builder)?;
    if queries == 0 {
        return Err(builder.wrong("`queries` must be at least 1".into()));
    }
    let (read, mask, width) = (builder.value(), builder.mask(), heads * size);
    let questions = builder.weights("query", vec![queries, width], Fan { inputs: width, outputs: width })?;
    let output = Shape::Sequence { steps: queries, features: width };
    builder.push_reading(Op::Learned, vec![read], output, questions);
    builder.set_mask(None);
    let questions = builder.value();
    let project = |name: &str, builder: &mut Builder<'_>| {
        builder.continue_from(read);
        weigh_with(name, width, false, builder).map(|()| builder.value())
    };
    let [k, v] = ["key_weight", "value_weight"].map(|name| project(name, builder));
    look(Looking { heads, size, queries, steps, causal: false }, [questions, k?, v?], mask, output, builder);
    weigh_with("output_weight", units, false, builder)?;
    builder.activate();
    Ok(())
}

/// Questions, keys and values are three values that come in; of two the second is keys and values.
pub(super) fn between(config: &Attention, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Attention { units, heads, project, .. } = config;
    let operands = builder.operands();
    let (questions, keys, values) = match operands[..] {
        [questions, keys] => (questions, keys, keys),
        [questions, keys, values] => (questions, keys, values),
        _ => {
            let found = operands.len();
            return Err(builder.wrong(format!(
                "expected questions, keys and values to come in, or questions and keys, found {found}"
            )));
        }
    };
    builder.same_copies()?;
    let sequences: Vec<[usize; 2]> = (operands.iter())
        .map(|operand| {
            builder.continue_from(*operand);
            builder.sequence()
        })
        .collect::<Result<_, _>>()?;
    let (asked, steps) = (sequences[0][0], sequences[1][0]);
    if let Some([other, _]) = sequences.get(2).filter(|[other, _]| *other != steps) {
        return Err(builder
            .wrong(format!("expected a value for every key: there are {steps} steps of keys and {other} of values")));
    }
    let size = head_size(units, heads, config.head_size, builder)?;
    let width = heads * size;
    builder.continue_from(keys);
    let mask = builder.mask();
    let mut read = [questions, keys, values];
    if project {
        for (value, name) in read.iter_mut().zip(["query_weight", "key_weight", "value_weight"]) {
            builder.continue_from(*value);
            weigh_with(name, width, false, builder)?;
            *value = builder.value();
        }
    } else if let Some([_, found]) = sequences.iter().find(|[_, features]| *features != width) {
        return Err(builder.wrong(format!(
            "what is not projected is compared as it is: expected steps of `heads` times `head_size` ({width}) numbers, found {found}"
        )));
    }
    let output = Shape::Sequence { steps: asked, features: width };
    look(Looking { heads, size, queries: asked, steps, causal: false }, read, mask, output, builder);
    if project {
        weigh_with("output_weight", units, false, builder)?;
    }
    builder.activate();
    Ok(())
}
