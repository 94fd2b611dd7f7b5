use crate::Shape;
use crate::config::Padding;

/// How a window moves over an image: everything that convolution and pooling share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    /// Rows of padding above, columns of padding to the left.
    pub before: [usize; 2],
    /// Rows of padding below, columns of padding to the right.
    pub after: [usize; 2],
    /// Positions of the window, down and right.
    pub out: [usize; 2],
}

/// Why a window does not fit.
pub(crate) enum Misfit<const D: usize = 2> {
    /// A size of zero, with the name of the setting.
    Zero(&'static str),
    /// The image is smaller than the window; the least size that would do.
    TooSmall([usize; D]),
    /// Pixels are left over that no window sees.
    LeftOver([usize; D]),
}

impl Window {
    pub(crate) fn new(
        [height, width, channels]: [usize; 3],
        kernel: [usize; 2],
        stride: [usize; 2],
        dilation: [usize; 2],
        padding: Padding,
    ) -> Result<Self, Misfit> {
        for (name, value) in [("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
            if value.contains(&0) {
                return Err(Misfit::Zero(name));
            }
        }
        let size = [height, width];
        let reach = [0, 1].map(|d| (kernel[d] - 1).saturating_mul(dilation[d]).saturating_add(1));
        let total = [0, 1].map(|d| match padding {
            Padding::Valid => 0,
            Padding::Explicit(each) => each[d].saturating_mul(2),
            Padding::Same => {
                (((size[d].div_ceil(stride[d]) - 1) * stride[d]).saturating_add(reach[d])).saturating_sub(size[d])
            }
        });
        if (0..2).any(|d| size[d].saturating_add(total[d]) < reach[d]) {
            return Err(Misfit::TooSmall([0, 1].map(|d| reach[d].saturating_sub(total[d]))));
        }
        Ok(Self {
            height,
            width,
            channels,
            kernel,
            stride,
            dilation,
            before: total.map(|t| t / 2),
            after: total.map(|t| t - t / 2),
            out: [0, 1].map(|d| (size[d].saturating_add(total[d]) - reach[d]) / stride[d] + 1),
        })
    }

    /// A window over the steps of a sequence that ends at each of them, as an image of one column: what lies before the first is 0.
    pub(crate) fn causal(
        steps: usize,
        channels: usize,
        [kernel, stride, dilation]: [usize; 3],
    ) -> Result<Self, Misfit> {
        let reach = kernel.saturating_sub(1).saturating_mul(dilation);
        let padded = [steps.saturating_add(reach), 1, channels];
        let window = Self::new(padded, [kernel, 1], [stride, 1], [dilation, 1], Padding::Valid)?;
        Ok(Self { height: steps, before: [reach, 0], ..window })
    }

    /// The same, if every pixel is seen by a window.
    pub(crate) fn strict(self) -> Result<Self, Misfit> {
        let size = [self.height, self.width];
        let left = [0, 1].map(|d| {
            let reach = (self.kernel[d] - 1) * self.dilation[d] + 1;
            (size[d] + self.before[d] + self.after[d] - reach) % self.stride[d]
        });
        if left == [0, 0] { Ok(self) } else { Err(Misfit::LeftOver(left)) }
    }

    /// Numbers of one image that goes in.
    pub(crate) fn input_len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Positions of the window over one image.
    pub(crate) fn positions(&self) -> usize {
        self.out[0] * self.out[1]
    }

    pub(crate) fn is_padded(&self) -> bool {
        self.before != [0, 0] || self.after != [0, 0]
    }

    /// The pixel under cell `cell` of the window at `position`, along one dimension; `None` in the padding.
    pub(crate) fn pixel(&self, dimension: usize, position: usize, cell: usize) -> Option<usize> {
        let size = if dimension == 0 { self.height } else { self.width };
        let at = position * self.stride[dimension] + cell * self.dilation[dimension];
        at.checked_sub(self.before[dimension]).filter(|&at| at < size)
    }

    /// What comes out if every position gives so many channels.
    pub(crate) fn output(&self, channels: usize) -> Shape {
        Shape::Image { height: self.out[0], width: self.out[1], channels }
    }
}

/// What moves over something: plain kernels need to know no more of it.
pub(crate) trait Windowed {
    /// Calls `f(position, pixel, cell)` for every cell of every position that does not lie in the padding.
    fn each_cell(&self, f: impl FnMut(usize, usize, usize));

    /// Cells of the window at this position that do not lie in the padding.
    fn cells_inside(&self, position: usize) -> usize;

    fn positions(&self) -> usize;

    /// Numbers of a pixel.
    fn channels(&self) -> usize;

    /// Numbers of what it moves over.
    fn input_len(&self) -> usize;
}

impl Windowed for Window {
    fn each_cell(&self, mut f: impl FnMut(usize, usize, usize)) {
        for oy in 0..self.out[0] {
            for ox in 0..self.out[1] {
                for ky in 0..self.kernel[0] {
                    for kx in 0..self.kernel[1] {
                        if let (Some(y), Some(x)) = (self.pixel(0, oy, ky), self.pixel(1, ox, kx)) {
                            f(oy * self.out[1] + ox, y * self.width + x, ky * self.kernel[1] + kx);
                        }
                    }
                }
            }
        }
    }

    fn cells_inside(&self, position: usize) -> usize {
        let inside = |d: usize, at: usize| (0..self.kernel[d]).filter(|&k| self.pixel(d, at, k).is_some()).count();
        inside(0, position / self.out[1]) * inside(1, position % self.out[1])
    }

    fn positions(&self) -> usize {
        Window::positions(self)
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn input_len(&self) -> usize {
        Window::input_len(self)
    }
}

/// A window that moves through a volume: each slice of it is a window over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cube {
    pub depth: usize,
    /// Over the images of the volume.
    pub slice: Window,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Images of padding before the first.
    pub before: usize,
    /// Images of padding behind the last.
    pub after: usize,
    pub out: usize,
}

impl Cube {
    /// Depth comes first in all sizes.
    pub(crate) fn new(
        [depth, height, width, channels]: [usize; 4],
        kernel: [usize; 3],
        stride: [usize; 3],
        dilation: [usize; 3],
        padding: Padding<3>,
    ) -> Result<Self, Misfit<3>> {
        let of_slice = |[_, down, right]: [usize; 3]| [down, right];
        let [of_depth, of_image] = match padding {
            Padding::Valid => [Padding::Valid; 2],
            Padding::Same => [Padding::Same; 2],
            Padding::Explicit(each) => [Padding::Explicit([each[0], 0]), Padding::Explicit(of_slice(each))],
        };
        let too_small = |least: [usize; 3]| Misfit::TooSmall(least);
        let image = [height, width, channels];
        let slice = Window::new(image, of_slice(kernel), of_slice(stride), of_slice(dilation), of_image);
        // Along the depth it is a window over an image of one column.
        let column = [depth, 1, 1];
        let along = Window::new(column, [kernel[0], 1], [stride[0], 1], [dilation[0], 1], of_depth);
        match (along, slice) {
            (Ok(along), Ok(slice)) => Ok(Self {
                depth,
                slice,
                kernel: kernel[0],
                stride: stride[0],
                dilation: dilation[0],
                before: along.before[0],
                after: along.after[0],
                out: along.out[0],
            }),
            (Err(Misfit::Zero(name)), _) | (_, Err(Misfit::Zero(name))) => Err(Misfit::Zero(name)),
            (along, slice) => {
                // What fits is large enough as it is.
                let least = |misfit: Result<Window, Misfit>, enough: [usize; 2]| match misfit {
                    Err(Misfit::TooSmall(least)) => least,
                    _ => enough,
                };
                let ([depth, _], [height, width]) = (least(along, [kernel[0], 1]), least(slice, of_slice(kernel)));
                Err(too_small([depth, height, width]))
            }
        }
    }

    /// The image under slice `cell` of the window at `position`; `None` in the padding.
    fn image(&self, position: usize, cell: usize) -> Option<usize> {
        (position * self.stride + cell * self.dilation).checked_sub(self.before).filter(|&at| at < self.depth)
    }

    /// What comes out if every position gives so many channels.
    pub(crate) fn output(&self, channels: usize) -> Shape {
        let [height, width] = self.slice.out;
        Shape::Volume { depth: self.out, height, width, channels }
    }

    /// Cells of the window.
    pub(crate) fn cells(&self) -> usize {
        self.kernel.saturating_mul(self.slice.kernel[0]).saturating_mul(self.slice.kernel[1])
    }
}

impl Windowed for Cube {
    fn each_cell(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (positions, pixels) = (self.slice.positions(), self.slice.height * self.slice.width);
        let cells = self.slice.kernel[0] * self.slice.kernel[1];
        for position in 0..self.out {
            for cell in 0..self.kernel {
                if let Some(image) = self.image(position, cell) {
                    let (first, pixel, of_cube) = (position * positions, image * pixels, cell * cells);
                    self.slice.each_cell(|at, under, of_slice| f(first + at, pixel + under, of_cube + of_slice));
                }
            }
        }
    }

    fn cells_inside(&self, position: usize) -> usize {
        let positions = self.slice.positions();
        let inside = (0..self.kernel).filter(|&cell| self.image(position / positions, cell).is_some()).count();
        inside * self.slice.cells_inside(position % positions)
    }

    fn positions(&self) -> usize {
        self.out * self.slice.positions()
    }

    fn channels(&self) -> usize {
        self.slice.channels
    }

    fn input_len(&self) -> usize {
        self.depth * self.slice.input_len()
    }
}
