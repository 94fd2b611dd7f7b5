use super::Builder;
use crate::config::{Conv2d, Conv2dTransposed, DepthwiseConv2d, Padding, SeparableConv2d};
use crate::node::{Conv, Op, Transposed};
use crate::window::Window;
use crate::{Error, Fan, Shape};

pub(super) fn build(config: &Conv2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Conv2d { filters, kernel, stride, dilation, groups, .. } = config;
    let window = builder.window(kernel, stride, dilation, config.padding, config.strict)?;
    convolve("weight", window, filters, groups, config.bias, builder)?;
    builder.activate();
    Ok(())
}

/// So many filters for every channel, which see nothing of the others.
pub(super) fn depthwise(config: &DepthwiseConv2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &DepthwiseConv2d { multiplier, kernel, stride, dilation, .. } = config;
    let window = builder.window(kernel, stride, dilation, config.padding, config.strict)?;
    let filters = of_channels(window, multiplier, builder)?;
    convolve("weight", window, filters, window.channels, config.bias, builder)?;
    builder.activate();
    Ok(())
}

/// The same without a bias, and then every filter over the channels of single pixels.
pub(super) fn separable(config: &SeparableConv2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &SeparableConv2d { filters, multiplier, kernel, stride, dilation, .. } = config;
    let window = builder.window(kernel, stride, dilation, config.padding, config.strict)?;
    let between = of_channels(window, multiplier, builder)?;
    convolve("depth_weight", window, between, window.channels, false, builder)?;
    let window = builder.window([1, 1], [1, 1], [1, 1], Padding::Valid, false)?;
    convolve("weight", window, filters, 1, config.bias, builder)?;
    builder.activate();
    Ok(())
}

/// Every pixel spread over a window.
pub(super) fn transposed(config: &Conv2dTransposed, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Conv2dTransposed { filters, kernel, stride, dilation, padding, bias, .. } = config;
    let input = builder.image()?;
    let sizes = [("kernel", kernel), ("stride", stride), ("dilation", dilation)];
    if let Some((name, _)) = sizes.iter().find(|(_, size)| size.contains(&0)) {
        return Err(builder.wrong(format!("`{name}` must be at least 1 in both directions")));
    }
    if filters == 0 {
        return Err(builder.wrong("`filters` must be at least 1".into()));
    }
    let full = [0, 1].map(|d| {
        let reach = (kernel[d] - 1).saturating_mul(dilation[d]).saturating_add(1);
        (input[d] - 1).saturating_mul(stride[d]).saturating_add(reach)
    });
    let same = [0, 1].map(|d| input[d].saturating_mul(stride[d]));
    let (before, out) = match padding {
        Padding::Valid => ([0, 0], full),
        Padding::Same => ([0, 1].map(|d| full[d].saturating_sub(same[d]) / 2), same),
        Padding::Explicit(each) => (each, [0, 1].map(|d| full[d].saturating_sub(each[d].saturating_mul(2)))),
    };
    if out.contains(&0) {
        return Err(builder.wrong(format!("`padding` cuts off all of the {}×{} that come out", full[0], full[1])));
    }
    let [_, _, channels] = input;
    let area = kernel[0].saturating_mul(kernel[1]);
    let fan = Fan { inputs: area.saturating_mul(channels), outputs: area.saturating_mul(filters) };
    let weights = builder.weights("weight", vec![kernel[0], kernel[1], filters, channels], fan)?;
    let bias = if bias { builder.bias("bias", filters) } else { 0..0 };
    let op = Transposed { input, filters, kernel, stride, dilation, before, out };
    let output = Shape::Image { height: out[0], width: out[1], channels: filters };
    builder.push_with(Op::Transposed(op), output, weights, bias, 0..0);
    builder.activate();
    Ok(())
}

fn of_channels(window: Window, multiplier: usize, builder: &Builder<'_>) -> Result<usize, Error> {
    match window.channels.checked_mul(multiplier) {
        Some(filters) if multiplier > 0 => Ok(filters),
        _ => Err(builder.wrong(format!("`multiplier` must be at least 1, found {multiplier}"))),
    }
}

pub(super) fn convolve(
    name: &str,
    window: Window,
    filters: usize,
    groups: usize,
    has_bias: bool,
    builder: &mut Builder<'_>,
) -> Result<(), Error> {
    if filters == 0 {
        return Err(builder.wrong("`filters` must be at least 1".into()));
    }
    if groups == 0 || !filters.is_multiple_of(groups) || !window.channels.is_multiple_of(groups) {
        let message = format!(
            "`groups = {groups}` must divide both its {filters} filters and the {} channels that come in",
            window.channels
        );
        return Err(builder.wrong(message));
    }
    let channels = window.channels / groups;
    let kernel = window.kernel;
    let area = kernel[0].saturating_mul(kernel[1]);
    let fan = Fan { inputs: area.saturating_mul(channels), outputs: area.saturating_mul(filters / groups) };
    let weights = builder.weights(name, vec![kernel[0], kernel[1], channels, filters], fan)?;
    let bias = if has_bias { builder.bias("bias", filters) } else { 0..0 };
    let conv = Conv { window, filters, groups };
    builder.push_with(Op::Conv2d(conv), window.output(filters), weights, bias, 0..0);
    Ok(())
}
