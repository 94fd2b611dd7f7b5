//! Pictures of a run, as SVG: curves over its epochs, and which classes were taken for which.

mod confusion;
mod curves;

use std::fmt::Write;

pub use confusion::confusion;
pub use curves::{Panel, Series, curves};

fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<!-- drawn by paceline -->\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    )
}

fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("a string takes everything");
}

fn escaped(text: &str) -> String {
    // Control characters may not stand in XML, whatever is written for them.
    let text = text.replace(|letter: char| letter.is_control(), "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
