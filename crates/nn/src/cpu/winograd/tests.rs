//! Tiles against windows read in place, and both against plain loops in `f64`.

use paceline_model::{Batch, Parts, PartsMut, Targets};

use super::super::conv2d::{self, Geometry};
use super::super::dispatch::Instructions;
use super::{Winograd, backward, forward};
use crate::config::Padding;
use crate::node::{Conv, Node, Op};
use crate::pass::{Backward, Draw, Forward};
use crate::random::Counted;
use crate::window::Window;
use crate::{Activation, Real, Shape, plain};

/// A convolution and numbers to compute it with.
struct Case {
    conv: Conv,
    examples: usize,
    relu: bool,
    x: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

/// Outputs, and slopes by weights, bias and inputs.
type Found<R> = [Vec<R>; 4];

impl Case {
    fn draw(seed: u64) -> Self {
        let stream = Counted::new(seed, 7, 0, 0);
        let pick = |at: u32, n: u32| (stream.bits(at) % n) as usize;
        let kernel = 3 + pick(0, 3);
        let padding = [Padding::Valid, Padding::Same, Padding::Explicit([2, 1])][pick(1, 3)];
        let image = [kernel + pick(2, 12), kernel + pick(3, 12), 1 + pick(4, 22)];
        let window = Window::new(image, [kernel; 2], [1, 1], [1, 1], padding).ok().expect("a window that fits");
        let filters = 1 + pick(5, 54);
        let examples = [1, 2, 7, 8, 15, 16, 17, 33][pick(6, 8)];
        let numbers = |of: u64, count: usize| {
            let stream = Counted::new(seed, 8 + of, 0, 0);
            (0..count).map(|i| stream.normal(i as u32) as f32).collect::<Vec<_>>()
        };
        Self {
            conv: Conv { window, filters, groups: 1 },
            examples,
            relu: pick(7, 2) == 0,
            x: numbers(0, examples * window.input_len()),
            weights: numbers(1, kernel * kernel * image[2] * filters),
            bias: if pick(8, 2) == 0 { numbers(2, filters) } else { Vec::new() },
            dy: numbers(3, examples * window.positions() * filters),
        }
    }

    fn run<R: Real>(
        &self,
        scratch: [usize; 2],
        ahead: impl FnOnce(&mut Forward<'_, R>),
        back: impl FnOnce(&mut Backward<'_, R>),
    ) -> Found<R> {
        let of = |values: &[f32]| values.iter().map(|v| R::of(f64::from(*v))).collect::<Vec<R>>();
        // Nobody may count on what memory held before.
        let nans = |count: usize| vec![R::of(f64::NAN); count];
        let (examples, x, weights) = (self.examples, of(&self.x), of(&self.weights));
        let batch = Batch {
            epoch: 0,
            indices: (0..examples as u64).collect(),
            width: 0,
            features: Vec::new(),
            targets: Targets::None,
            weights: None,
        };
        let draw = Draw::new(0, 0, 0, &batch);
        let mut y = nans(self.dy.len());
        ahead(&mut Forward {
            operands: Parts::none(),
            examples,
            training: true,
            draw,
            weights: &weights,
            bias: &of(&self.bias),
            running: &mut [],
            x: &x,
            y: &mut y,
            aux: &mut [],
            marks: &mut [],
            carried: &mut [],
            scratch: &mut nans(scratch[0]),
        });
        let mut slopes = [nans(weights.len()), nans(self.bias.len()), nans(x.len())];
        let [dweights, dbias, dx] = &mut slopes;
        back(&mut Backward {
            kept: Parts::none(),
            more_dx: PartsMut::none(),
            examples,
            draw,
            weights: &weights,
            x: &x,
            y: &y,
            aux: &mut [],
            marks: &[],
            scratch: &mut nans(scratch[1]),
            dy: &mut of(&self.dy),
            dweights,
            dbias,
            dx,
        });
        let [dweights, dbias, dx] = slopes;
        [y, dweights, dbias, dx]
    }

    fn expected(&self) -> Found<f64> {
        let w = &self.conv.window;
        let node = Node {
            reads: vec![0],
            writes: 1,
            is_frozen: false,
            layer: 0,
            stream: 0,
            op: Op::Conv2d(self.conv),
            input: Shape::Image { height: w.height, width: w.width, channels: w.channels },
            output: w.output(self.conv.filters),
            weights: 0..self.weights.len(),
            bias: 0..self.bias.len(),
            running: 0..0,
            activation: Activation::Identity,
        };
        let mut found: Found<f64> =
            self.run([0; 2], |pass| plain::forward(&node, pass), |pass| plain::backward(&node, pass));
        if self.relu {
            found[0].iter_mut().for_each(|y| *y = y.max(0.0));
        }
        found
    }
}

fn compare(found: &Found<f32>, expected: &Found<f64>, what: &str) {
    for (name, (found, expected)) in ["y", "dweights", "dbias", "dx"].iter().zip(found.iter().zip(expected)) {
        let rms = (expected.iter().map(|e| e * e).sum::<f64>() / expected.len().max(1) as f64).sqrt();
        for (at, (f, e)) in found.iter().zip(expected).enumerate() {
            let off = (f64::from(*f) - e).abs();
            assert!(off <= 1e-4 * rms.max(e.abs()), "{what}: {name}[{at}] is {f}, not {e}");
        }
    }
}

#[test]
fn tiles_agree_with_windows_in_place_and_with_the_reference() {
    for seed in 0..40 {
        let case = Case::draw(seed);
        let expected = case.expected();
        for instructions in Instructions::available() {
            let what = format!("seed {seed}, {instructions:?}, {} images, {:?}", case.examples, case.conv);
            let tiles = Winograd::new(case.conv, instructions).expect("a stride of 1");
            let scratch = [tiles.forward_scratch(), tiles.backward_scratch()];
            let ahead = |pass: &mut Forward<'_, f32>| forward(instructions, &tiles, case.relu, pass);
            let found = case.run(scratch, ahead, |pass| backward(instructions, &tiles, pass));
            compare(&found, &expected, &what);

            let geometry = Geometry::new(case.conv, instructions);
            let scratch = [geometry.direct_forward_scratch(), geometry.direct_backward_scratch()];
            let ahead = |pass: &mut Forward<'_, f32>| conv2d::direct_forward(instructions, &geometry, case.relu, pass);
            let direct = case.run(scratch, ahead, |pass| conv2d::direct_backward(instructions, &geometry, pass));
            let direct = direct.map(|values| values.into_iter().map(f64::from).collect());
            compare(&found, &direct, &what);
        }
    }
}

#[test]
fn only_plain_windows_are_cut_into_tiles() {
    let conv = |kernel, stride, dilation, groups| {
        let window =
            Window::new([12, 12, 4], kernel, stride, dilation, Padding::Valid).ok().expect("a window that fits");
        Conv { window, filters: 8, groups }
    };
    let takes = |conv| Winograd::new(conv, Instructions::detect()).is_some();
    assert!(takes(conv([3, 3], [1, 1], [1, 1], 1)) && takes(conv([5, 5], [1, 1], [1, 1], 1)));
    assert!(!takes(conv([3, 3], [2, 1], [1, 1], 1)) && !takes(conv([3, 3], [1, 1], [1, 2], 1)));
    assert!(!takes(conv([3, 5], [1, 1], [1, 1], 1)) && !takes(conv([3, 3], [1, 1], [1, 1], 2)));
    assert!(!takes(conv([2, 2], [1, 1], [1, 1], 1)) && !takes(conv([6, 6], [1, 1], [1, 1], 1)));
}

#[test]
fn tiles_are_taken_where_channels_filters_and_images_are_many() {
    let conv = |image, filters| {
        let window = Window::new(image, [5, 5], [1, 1], [1, 1], Padding::Valid).ok().expect("a window that fits");
        Conv { window, filters, groups: 1 }
    };
    // The two convolutions of LeNet.
    let (first, second) = (conv([28, 28, 1], 20), conv([12, 12, 20], 50));
    for instructions in Instructions::available() {
        let pays = |conv, examples| Winograd::new(conv, instructions).is_some_and(|tiles| tiles.pays(examples));
        assert!(pays(second, 128) && pays(second, 32), "{instructions:?}");
        assert!(!pays(second, 1) && !pays(first, 128), "{instructions:?}");
    }
}
