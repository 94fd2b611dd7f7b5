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
pub(crate) enum Misfit {
    /// A size of zero, with the name of the setting.
    Zero(&'static str),
    /// The image is smaller than the window; the least size that would do.
    TooSmall([usize; 2]),
    /// Pixels are left over that no window sees.
    LeftOver([usize; 2]),
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
