use super::Builder;
use crate::Error;
use crate::config::Dropout;

pub(super) fn build(config: &Dropout, builder: &mut Builder<'_>) -> Result<(), Error> {
    if !(0.0..1.0).contains(&config.rate) {
        return Err(builder.wrong(format!("`rate` must be 0 or more and less than 1, found {}", config.rate)));
    }
    builder.drop_numbers(config.rate);
    Ok(())
}
