use crate::spec::{count, expect_name};
use crate::{Error, ImageForm};

/// The most numbers that an image may become.
const MOST_NUMBERS: usize = 1 << 26;

/// The options of `images:folder?key=value&…`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ImageOptions {
    /// `width=64&height=48`: what images are scaled to; left out, all must have the size of the first.
    pub(super) size: Option<(u32, u32)>,
    /// `channels=1|3`: grey, or red, green and blue.
    pub(super) channels: usize,
    /// `fit=crop|stretch`.
    pub(super) fit: Fit,
    /// `unreadable=stop|skip`.
    pub(super) unreadable: Unreadable,
}

/// What is done to an image whose sides are in another proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Its middle is taken.
    Crop,
    /// It is distorted.
    Stretch,
}

/// What is done about files that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Stop,
    Skip,
}

impl ImageOptions {
    const NAMES: [&str; 7] = ["width", "height", "channels", "fit", "unreadable", "examples", "seed"];

    /// Options that the specification leaves out are those of the trained model, if there is one.
    pub(super) fn parse(pairs: &[(&str, String)], trained: Option<&ImageForm>) -> Result<Self, Error> {
        let (mut width, mut height) = (None, None);
        let mut options = Self { size: None, channels: 3, fit: Fit::Crop, unreadable: Unreadable::Stop };
        if let Some(form) = trained {
            options.channels = form.channels;
            options.fit = if form.is_stretched { Fit::Stretch } else { Fit::Crop };
        }
        for (key, value) in pairs {
            match *key {
                "width" => width = Some(count("width", value)?),
                "height" => height = Some(count("height", value)?),
                "channels" => {
                    expect_name("value of `channels`", value, &["1", "3"])?;
                    options.channels = if value == "1" { 1 } else { 3 };
                }
                "fit" => {
                    expect_name("value of `fit`", value, &["crop", "stretch"])?;
                    let fit = if value == "crop" { Fit::Crop } else { Fit::Stretch };
                    if trained.is_some() && fit != options.fit {
                        let message = format!("is `{value}`, and the model was trained otherwise: leave it out");
                        return Err(Error::Unsuitable { setting: "fit", message });
                    }
                    options.fit = fit;
                }
                "unreadable" => {
                    expect_name("value of `unreadable`", value, &["stop", "skip"])?;
                    options.unreadable = if value == "stop" { Unreadable::Stop } else { Unreadable::Skip };
                }
                other => expect_name("option of `images:`", other, &Self::NAMES)?,
            }
        }
        let alone = |setting, other: &str| {
            Err(Error::Unsuitable { setting, message: format!("is needed beside `{other}`: set both, or neither") })
        };
        options.size = match (width, height) {
            (None, None) => trained.and_then(|form| form.size),
            // What `count` lets through fits.
            (Some(width), Some(height)) => Some((width as u32, height as u32)),
            (Some(_), None) => return alone("height", "width"),
            (None, Some(_)) => return alone("width", "height"),
        };
        options.size.map_or(Ok(()), |size| options.check(size))?;
        Ok(options)
    }

    /// The options that a model keeps.
    pub(super) fn form(&self) -> ImageForm {
        ImageForm { size: self.size, channels: self.channels, is_stretched: self.fit == Fit::Stretch }
    }

    /// Fails if images of this size would be too large.
    pub(super) fn check(&self, (width, height): (u32, u32)) -> Result<(), Error> {
        let numbers = (width as usize).saturating_mul(height as usize).saturating_mul(self.channels);
        if numbers <= MOST_NUMBERS {
            return Ok(());
        }
        let message = format!(
            "of {width} is too much: with a height of {height} and {} channels an image has {numbers} numbers, and at most {MOST_NUMBERS} are taken",
            self.channels
        );
        Err(Error::Unsuitable { setting: "width", message })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, ImageOptions, Unreadable};

    fn parse(text: &str) -> Result<ImageOptions, String> {
        let pairs: Vec<(&str, String)> =
            text.split('&').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key, value.into())).collect();
        ImageOptions::parse(&pairs, None).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read_and_what_makes_no_sense_is_said() {
        let options = parse("width=64&height=48&channels=1&fit=stretch&unreadable=skip").expect("they make sense");
        assert_eq!((options.size, options.channels), (Some((64, 48)), 1));
        assert_eq!((options.fit, options.unreadable), (Fit::Stretch, Unreadable::Skip));
        for (text, part) in [
            ("width=64", "`height` is needed beside `width`"),
            ("height=64", "`width` is needed beside `height`"),
            ("width=0&height=1", "from 1 on"),
            ("width=100000&height=100000", "at most 67108864 are taken"),
            ("channels=4", "expected one of `1`, `3`"),
            ("fit=cropp", "did you mean `crop`?"),
            ("unreadable=no", "`stop`, `skip`"),
            ("widht=3", "did you mean `width`?"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
