use super::Builder;
use crate::config::Conv2d;
use crate::node::{Conv, Op};
use crate::{Error, Fan};

pub(super) fn build(config: &Conv2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Conv2d { filters, kernel, stride, dilation, groups, .. } = config;
    let window = builder.window(kernel, stride, dilation, config.padding)?;
    if filters == 0 {
        return Err(builder.wrong("`filters` must be at least 1".into()));
    }
    if groups == 0 || filters % groups != 0 || window.channels % groups != 0 {
        let message = format!(
            "`groups = {groups}` must divide both its {filters} filters and the {} channels that come in",
            window.channels
        );
        return Err(builder.wrong(message));
    }
    let channels = window.channels / groups;
    let area = kernel[0].saturating_mul(kernel[1]);
    let fan = Fan { inputs: area.saturating_mul(channels), outputs: area.saturating_mul(filters / groups) };
    let weights = builder.weights("weight", vec![kernel[0], kernel[1], channels, filters], fan)?;
    let bias = if config.bias { builder.bias("bias", filters) } else { 0..0 };
    let conv = Conv { window, filters, groups };
    builder.push_with(Op::Conv2d(conv), window.output(filters), weights, bias, 0..0);
    builder.activate();
    Ok(())
}
