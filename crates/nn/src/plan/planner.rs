//! Who needs which buffer from when to when.

use std::ops::Range;

use super::arena::{Arena, Buffer, Placed};
use super::lower::Lowered;
use super::{BackPlaces, ForcePlaces, HeadPlaces, InputPlace, Places, Plan, Purpose, Slopes, Sum};
use crate::graph::{Force, Graph, Head, ValueId};
use crate::node::Node;
use crate::pass::Needs;
use crate::plain::Judged;

pub(super) struct Planner {
    lowered: Lowered,
    examples: usize,
    purpose: Purpose,
    /// By operation.
    needs: Vec<Needs>,
    /// By value: true if its gradient is needed, because a trained operation comes before it, and known, because an end or an operation behind
    /// it writes the gradient.
    learns: Vec<bool>,
    arena: Arena,
    /// By value.
    values: Vec<Buffer>,
    /// By value.
    slopes: Vec<Slope>,
}

/// The slope of a value.
#[derive(Clone, Copy)]
struct Slope {
    buffer: Buffer,
    /// Whether somebody has asked to write it.
    is_written: bool,
}

impl Planner {
    pub(super) fn new(lowered: Lowered, examples: usize, purpose: Purpose, needs: Vec<Needs>) -> Self {
        let mut learns = vec![false; lowered.graph.values.len()];
        if purpose != Purpose::Predict {
            for node in &lowered.graph.nodes {
                let is_behind = node.op.passes_gradient() && node.reads.iter().any(|read| learns[*read]);
                learns[node.writes] = node.is_trained() || is_behind;
            }
            let mut is_written = vec![false; learns.len()];
            let Graph { heads, forces, .. } = &lowered.graph;
            let ends = heads.iter().map(|head| head.value).chain(forces.iter().map(|force| force.value));
            ends.for_each(|value| is_written[value] = true);
            for node in lowered.graph.nodes.iter().rev() {
                if is_written[node.writes] && learns[node.writes] && node.op.passes_gradient() {
                    node.reads.iter().for_each(|read| is_written[*read] = true);
                }
            }
            learns.iter_mut().zip(is_written).for_each(|(learns, is_written)| *learns &= is_written);
        }
        let (arena, values, slopes) = (Arena::default(), Vec::new(), Vec::new());
        Self { lowered, examples, purpose, needs, learns, arena, values, slopes }
    }

    pub(super) fn plan(mut self, shared_memory: bool) -> Plan {
        let n = self.nodes().len();
        for value in 0..self.learns.len() {
            let buffer = self.arena.ask(self.len(value), self.life(value));
            self.values.push(buffer);
        }
        let heads: Vec<_> = (0..self.lowered.graph.heads.len()).map(|head| self.head(head)).collect();
        for value in 0..self.learns.len() {
            let (len, life) = self.life_of_slope(value).map_or((0, 0..1), |life| (self.len(value), life));
            self.slopes.push(Slope { buffer: self.arena.ask(len, life), is_written: false });
        }
        let heads: Vec<_> = heads.into_iter().enumerate().map(|(at, head)| self.slope_of_head(at, head)).collect();
        let forces: Vec<_> = (0..self.lowered.graph.forces.len()).map(|force| self.force(force)).collect();
        let mut marks = 0;
        let mut places: Vec<_> = (0..n).map(|i| self.forward(i, &mut marks)).collect();
        for (i, places) in places.iter_mut().enumerate().rev() {
            places.back = self.runs_back(i).then(|| self.backward(i));
        }
        let Self { lowered, examples, purpose, arena, values, .. } = self;
        #[cfg(test)]
        let most_alive = arena.most_alive();
        let at = arena.place(shared_memory, 2 * n + 1);
        let inputs = lowered.graph.inputs.iter();
        Plan {
            examples,
            purpose,
            places: places.into_iter().map(|places| places.at(&at)).collect(),
            heads: heads.into_iter().map(|head| head.at(&at)).collect(),
            forces: forces.into_iter().map(|force| force.at(&at)).collect(),
            inputs: inputs
                .map(|input| InputPlace { value: at.range(values[input.value]), columns: input.columns.clone() })
                .collect(),
            nodes: lowered.graph.nodes,
            untouched: Vec::new(),
            arena: at.len(),
            #[cfg(test)]
            most_alive,
            marks,
            dead_after: at.dead_after(),
        }
    }

    fn nodes(&self) -> &[Node] {
        &self.lowered.graph.nodes
    }

    fn rows(&self, value: ValueId) -> usize {
        self.examples * self.lowered.graph.values[value].copies
    }

    /// Numbers of a value; none if it was left out.
    fn len(&self, value: ValueId) -> usize {
        let graph = &self.lowered.graph;
        let is_there = self.writer(value).is_some() || graph.inputs.iter().any(|input| input.value == value);
        if is_there { self.rows(value) * graph.values[value].shape.len() } else { 0 }
    }

    /// The operations that read a value.
    fn readers(&self, value: ValueId) -> impl DoubleEndedIterator<Item = usize> {
        self.nodes().iter().enumerate().filter(move |(_, node)| node.reads.contains(&value)).map(|(i, _)| i)
    }

    fn writer(&self, value: ValueId) -> Option<usize> {
        self.nodes().iter().position(|node| node.writes == value)
    }

    fn moment_back(&self, index: usize) -> usize {
        2 * self.nodes().len() - index
    }

    fn runs_back(&self, index: usize) -> bool {
        self.learns[self.nodes()[index].writes]
    }

    /// Whether the gradient of an operation's weights may be computed by rows.
    fn has_rows(&self, index: usize) -> bool {
        let node = &self.nodes()[index];
        self.needs[index].has_rows && node.is_trained() && self.lowered.graph.has_rows(node)
    }

    /// Whether others are shown what went in, and the slope of what came out.
    fn is_shown(&self, index: usize) -> bool {
        self.purpose == Purpose::TrainTogether && self.runs_back(index) && self.has_rows(index)
    }

    fn life(&self, value: ValueId) -> Range<usize> {
        let n = self.nodes().len();
        let writer = self.writer(value);
        let mut last = self.readers(value).next_back();
        for reader in self.readers(value).filter(|reader| self.runs_back(*reader)) {
            if self.needs[reader].keeps_x {
                last = last.max(Some(self.moment_back(reader)));
            }
            if self.is_shown(reader) {
                last = Some(2 * n + 1);
            }
        }
        if let Some(writer) = writer.filter(|writer| self.runs_back(*writer) && self.needs[*writer].keeps_y) {
            last = last.max(Some(self.moment_back(writer)));
        }
        let heads = self.lowered.graph.heads.iter().zip(&self.lowered.merged);
        for (_, merged) in heads.filter(|(head, _)| head.value == value) {
            // The outputs are read when all is over.
            last = last.max(Some(if merged.is_some() { n } else { 2 * n }));
        }
        if self.lowered.graph.ends().any(|end| end == value) {
            last = last.max(Some(n));
        }
        let born = writer.unwrap_or(0);
        born..last.unwrap_or(born) + 1
    }

    /// From the first operation on the way back that writes it to the one that reads it.
    fn life_of_slope(&self, value: ValueId) -> Option<Range<usize>> {
        let n = self.nodes().len();
        let writer = self.writer(value).filter(|_| self.learns[value])?;
        let Graph { heads, forces, .. } = &self.lowered.graph;
        let is_judged = heads.iter().any(|head| head.value == value) || forces.iter().any(|force| force.value == value);
        let mut passes =
            self.readers(value).filter(|reader| self.runs_back(*reader) && self.nodes()[*reader].op.passes_gradient());
        let born = if is_judged { n } else { self.moment_back(passes.next_back()?) };
        let read = if self.is_shown(writer) { 2 * n + 1 } else { self.moment_back(writer) };
        Some(born..read + 1)
    }

    /// Where a pass writes the slope of a value, and where that is added then if another has written it before.
    fn write_slope(&mut self, value: ValueId, moment: usize) -> (Buffer, Option<Sum<Buffer>>) {
        let len = self.len(value);
        let Slope { buffer: to, is_written } = &mut self.slopes[value];
        if !self.learns[value] || !std::mem::replace(is_written, true) {
            return (*to, None);
        }
        let from = self.arena.ask(len, moment..moment + 1);
        (from, Some(Sum { from, to: *to }))
    }

    fn head(&mut self, at: usize) -> HeadPlaces<Buffer> {
        let n = self.nodes().len();
        let (head, merged) = (&self.lowered.graph.heads[at], self.lowered.merged[at]);
        let (value, len) = (self.values[head.value], self.len(head.value));
        let shape = self.lowered.graph.values[head.value].shape;
        let columns = self.lowered.graph.target_columns().into_iter().nth(at);
        let (width, steps) = shape.steps().map_or((shape.len(), None), |steps| (shape.channels(), Some(steps)));
        let targets = self.lowered.graph.targets(head) / steps.unwrap_or(1);
        let (loss, weight, smoothing) = (head.loss.clone(), head.weight, head.smoothing);
        let judged = Judged { loss, merged, width, targets, steps, weight, smoothing, columns };
        let nothing = self.arena.ask(0, 0..1);
        let (logits, output) = match merged {
            Some(_) => (value, self.arena.ask(len, n..2 * n + 1)),
            None => (nothing, value),
        };
        let scratch = self.arena.ask(judged.scratch(), n..n + 1);
        let Head { against, mask, .. } = &self.lowered.graph.heads[at];
        let [against, mask] = [against, mask].map(|value| value.map_or(nothing, |value| self.values[value]));
        HeadPlaces { judged, logits, against, mask, output, scratch, dz: nothing, sum: None }
    }

    fn slope_of_head(&mut self, at: usize, head: HeadPlaces<Buffer>) -> HeadPlaces<Buffer> {
        let (dz, sum) = self.write_slope(self.lowered.graph.heads[at].value, self.nodes().len());
        HeadPlaces { dz, sum, ..head }
    }

    fn force(&mut self, at: usize) -> ForcePlaces<Buffer> {
        let Force { value, kind } = self.lowered.graph.forces[at];
        let (dz, sum) = self.write_slope(value, self.nodes().len());
        ForcePlaces { kind, value: self.values[value], dz, sum }
    }

    fn forward(&mut self, index: usize, marks: &mut usize) -> Places<Buffer> {
        let train = self.purpose != Purpose::Predict;
        let Needs { aux, aux_always, marks: own, forward_scratch, .. } = self.needs[index];
        let end = if self.runs_back(index) { self.moment_back(index) } else { index };
        let begin = *marks;
        *marks += if train { own } else { 0 };
        let node = &self.lowered.graph.nodes[index];
        Places {
            rows: self.lowered.graph.rows(node, self.examples),
            x: node.reads.iter().map(|read| self.values[*read]).collect(),
            y: self.values[node.writes],
            aux: self.arena.ask(if train || aux_always { aux } else { 0 }, index..end + 1),
            marks: begin..*marks,
            scratch: self.arena.ask(forward_scratch, index..index + 1),
            back: None,
        }
    }

    fn backward(&mut self, index: usize) -> BackPlaces<Buffer> {
        let moment = self.moment_back(index);
        let node = self.lowered.graph.nodes[index].clone();
        let Needs { backward_scratch, keeps_x, keeps_y, .. } = self.needs[index];
        let scratch = self.arena.ask(backward_scratch, moment..moment + 1);
        let nothing = self.arena.ask(0, 0..1);
        let kept = |is_kept: bool, value: ValueId| if is_kept { self.values[value] } else { nothing };
        let kept_x = node.reads.iter().map(|read| kept(keeps_x, *read));
        let kept = kept_x.chain([kept(keeps_y, node.writes)]).collect();
        let passes = node.op.passes_gradient();
        let written =
            node.reads.iter().map(|read| if passes { self.write_slope(*read, moment) } else { (nothing, None) });
        let written: Vec<_> = written.collect();
        BackPlaces {
            scratch,
            kept,
            dy: self.slopes[node.writes].buffer,
            dx: written.iter().map(|(dx, _)| *dx).collect(),
            sums: written.into_iter().filter_map(|(_, sum)| sum).collect(),
            weights: self.slopes_of_parameters(index, |node| &node.weights),
            bias: self.slopes_of_parameters(index, |node| &node.bias),
            by_rows: self.has_rows(index),
        }
    }

    fn slopes_of_parameters(&mut self, index: usize, of: impl Fn(&Node) -> &Range<usize>) -> Slopes<Buffer> {
        let own = of(&self.nodes()[index]);
        let is_trained = |i: usize| self.runs_back(i) && self.nodes()[i].is_trained();
        let uses = |i: usize| i != index && is_trained(i) && of(&self.nodes()[i]) == own;
        // What is frozen has a gradient, which nobody wants.
        let is_frozen = self.nodes()[index].is_frozen;
        let is_written = !own.is_empty() && (is_frozen || (index..self.nodes().len()).any(uses));
        let are_final = !is_frozen && (own.is_empty() || !(0..index).any(uses));
        let (len, moment) = (if is_written { own.len() } else { 0 }, self.moment_back(index));
        Slopes { apart: self.arena.ask(len, moment..moment + 1), are_final }
    }
}

impl Places<Buffer> {
    fn at(self, at: &Placed) -> Places {
        let Self { rows, x, y, aux, marks, scratch, back } = self;
        Places {
            rows,
            x: x.into_iter().map(|x| at.range(x)).collect(),
            y: at.range(y),
            aux: at.range(aux),
            marks,
            scratch: at.range(scratch),
            back: back.map(|back| back.at(at)),
        }
    }
}

impl BackPlaces<Buffer> {
    fn at(self, at: &Placed) -> BackPlaces {
        let Self { scratch, kept, dy, dx, sums, weights, bias, by_rows } = self;
        BackPlaces {
            scratch: at.range(scratch),
            kept: kept.into_iter().map(|kept| at.range(kept)).collect(),
            dy: at.range(dy),
            dx: dx.into_iter().map(|dx| at.range(dx)).collect(),
            sums: sums.into_iter().map(|sum| sum.at(at)).collect(),
            weights: weights.at(at),
            bias: bias.at(at),
            by_rows,
        }
    }
}

impl HeadPlaces<Buffer> {
    fn at(self, at: &Placed) -> HeadPlaces {
        let Self { judged, logits, against, mask, output, scratch, dz, sum } = self;
        let [logits, against, mask, output] = [logits, against, mask, output].map(|buffer| at.range(buffer));
        let [scratch, dz] = [scratch, dz].map(|buffer| at.range(buffer));
        HeadPlaces { judged, logits, against, mask, output, scratch, dz, sum: sum.map(|sum| sum.at(at)) }
    }
}

impl ForcePlaces<Buffer> {
    fn at(self, at: &Placed) -> ForcePlaces {
        let Self { kind, value, dz, sum } = self;
        ForcePlaces { kind, value: at.range(value), dz: at.range(dz), sum: sum.map(|sum| sum.at(at)) }
    }
}

impl Sum<Buffer> {
    fn at(self, at: &Placed) -> Sum {
        Sum { from: at.range(self.from), to: at.range(self.to) }
    }
}

impl Slopes<Buffer> {
    fn at(self, at: &Placed) -> Slopes {
        Slopes { apart: at.range(self.apart), are_final: self.are_final }
    }
}
