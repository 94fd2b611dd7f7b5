use super::Builder;
use crate::config::Yolo2Output;
use crate::loss::BoxLoss;
use crate::node::Op;
use crate::{Error, Loss, Registry};

pub(super) fn yolo2(config: &Yolo2Output, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let Yolo2Output { boxes, coordinates, no_object, .. } = config;
    let is_size = |size: &f32| *size > 0.0 && size.is_finite();
    if boxes.is_empty() || !boxes.iter().flatten().all(is_size) {
        return Err(builder.wrong("`boxes` must name at least one width and height, each above 0".into()));
    }
    for (name, value) in [("coordinates", coordinates), ("no_object", no_object)] {
        if !(*value >= 0.0 && value.is_finite()) {
            return Err(builder.wrong(format!("`{name}` must be 0 or more, found {value}")));
        }
    }
    let [.., channels] = builder.image()?;
    let loss = Loss::Boxes(BoxLoss { boxes: boxes.len(), coordinates: *coordinates, no_object: *no_object });
    if loss.targets(builder.shape).is_none() {
        let count = boxes.len();
        let expected = format!("for each of its {count} boxes 5 channels and one for every class");
        return Err(
            builder.misfit(format!("an image with {expected}, so a multiple of {count} and more than {}", 5 * count))
        );
    }
    let classes = channels / boxes.len() - 5;
    builder.push(Op::Boxes { sizes: boxes.as_slice().into(), classes }, builder.shape);
    builder.end_with(&loss, 1.0, 0.0, registry)
}
