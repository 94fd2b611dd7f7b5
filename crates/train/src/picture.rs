//! Pictures of a run, as SVG: curves over its epochs, and which classes were taken for which.

use std::fmt::Write;

use paceline_nn::evaluation::Classification;

/// Curves that share an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What is drawn.
    pub title: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Its places, from left to right; what is no number is left out.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 280.0;
/// Around the place of the curves, for numbers and names.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 44.0;
/// Colours that people with any eyes tell apart (Okabe and Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
/// More marks than these on an axis cannot be read.
const MARKS: f64 = 6.0;

/// Curves in panels side by side; `along` says what goes from left to right.
pub fn curves(panels: &[Panel], along: &str) -> String {
    let (width, height) = (panels.len().max(1) as f64 * (LEFT + WIDTH + RIGHT), TOP + HEIGHT + BOTTOM);
    let mut svg = begin(width, height);
    for (at, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, at as f64 * (LEFT + WIDTH + RIGHT) + LEFT, along);
    }
    svg + "</svg>\n"
}

fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    )
}

fn draw_panel(svg: &mut String, panel: &Panel, left: f64, along: &str) {
    let points = || panel.series.iter().flat_map(|series| &series.points).filter(|(_, y)| y.is_finite());
    let limits = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            points().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (0.0, 1.0)
        } else if low == high {
            (low - 0.5, high + 0.5)
        } else {
            (low, high)
        }
    };
    let ((x_low, x_high), (y_low, y_high)) = (limits(|point| point.0), limits(|point| point.1));
    let y_marks = marks(y_low, y_high);
    let (y_low, y_high) = (y_low.min(y_marks[0]), y_high.max(*y_marks.last().expect("an axis has marks")));
    let x_of = |x: f64| left + (x - x_low) / (x_high - x_low) * WIDTH;
    let y_of = |y: f64| TOP + HEIGHT - (y - y_low) / (y_high - y_low) * HEIGHT;
    let put =
        |svg: &mut String, line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").expect("a string takes everything");
    put(
        svg,
        format_args!(
            "<text x=\"{left:.1}\" y=\"22\" font-size=\"15\" fill=\"#1b2733\">{}</text>",
            escaped(&panel.title)
        ),
    );
    for mark in &y_marks {
        let y = y_of(*mark);
        put(svg, format_args!("<path d=\"M{left:.1} {y:.1}h{WIDTH}\" stroke=\"#e3e8ed\"/>"));
        let text = number(*mark, &y_marks);
        put(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#52616f\">{text}</text>",
                left - 8.0,
                y + 4.0
            ),
        );
    }
    let x_marks = marks(x_low, x_high);
    for mark in x_marks.iter().filter(|mark| (x_low..=x_high).contains(*mark)) {
        let (x, text) = (x_of(*mark), number(*mark, &x_marks));
        let y = TOP + HEIGHT;
        put(svg, format_args!("<path d=\"M{x:.1} {y:.1}v5\" stroke=\"#8b98a5\"/>"));
        put(
            svg,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#52616f\">{text}</text>",
                y + 19.0
            ),
        );
    }
    let (middle, below) = (left + WIDTH / 2.0, TOP + HEIGHT + 37.0);
    put(
        svg,
        format_args!(
            "<text x=\"{middle:.1}\" y=\"{below:.1}\" text-anchor=\"middle\" fill=\"#52616f\">{}</text>",
            escaped(along)
        ),
    );
    put(svg, format_args!("<path d=\"M{left:.1} {:.1}h{WIDTH}\" stroke=\"#8b98a5\"/>", TOP + HEIGHT));
    let mut name_at = left;
    for (series, colour) in panel.series.iter().zip(COLOURS.iter().cycle()) {
        let mut line = String::new();
        let mut is_down = false;
        for (x, y) in &series.points {
            if !y.is_finite() {
                is_down = false;
                continue;
            }
            let letter = if is_down { 'L' } else { 'M' };
            write!(line, "{letter}{:.1} {:.1}", x_of(*x), y_of(*y)).expect("a string takes everything");
            is_down = true;
        }
        put(
            svg,
            format_args!(
                "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>"
            ),
        );
        // A curve of few places is seen by its places.
        for (x, y) in series.points.iter().filter(|(_, y)| y.is_finite() && series.points.len() <= 30) {
            put(
                svg,
                format_args!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\" fill=\"{colour}\"/>", x_of(*x), y_of(*y)),
            );
        }
        put(svg, format_args!("<rect x=\"{name_at:.1}\" y=\"37\" width=\"12\" height=\"4\" fill=\"{colour}\"/>"));
        put(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"44\" fill=\"#1b2733\">{}</text>",
                name_at + 17.0,
                escaped(&series.name)
            ),
        );
        name_at += 34.0 + 6.8 * series.name.chars().count() as f64;
    }
}

/// Round numbers from below the low end to above the high one.
fn marks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / MARKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough).unwrap_or(rough);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last).map(|at| at as f64 * step).collect()
}

/// A number with as many digits as tell it from its neighbours.
fn number(value: f64, marks: &[f64]) -> String {
    let step = if marks.len() > 1 { marks[1] - marks[0] } else { 1.0 };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// More classes than these cannot be told apart in a picture of one page.
const MOST_CLASSES: usize = 100;
/// Beyond so many a cell has no room for its number.
const MOST_NUMBERED: usize = 30;

/// Which classes were taken for which: a row for each class that there is, a column for each that was told. None for too many classes.
pub fn confusion(classes: &Classification) -> Option<String> {
    let names = classes.names();
    let count = names.len();
    if count == 0 || count > MOST_CLASSES {
        return None;
    }
    let side = (560.0 / count as f64).clamp(8.0, 56.0);
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(24) as f64;
    let (left, top) = (50.0 + 7.0 * longest, 60.0 + 5.0 * longest);
    let mut svg = begin(left + side * count as f64 + 40.0, top + side * count as f64 + 30.0);
    let put =
        |svg: &mut String, line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").expect("a string takes everything");
    let accuracy = 100.0 * classes.accuracy();
    put(
        &mut svg,
        format_args!(
            "<text x=\"16\" y=\"24\" font-size=\"15\" fill=\"#1b2733\">Row: what it is. Column: what was told. {accuracy:.2} % are right</text>"
        ),
    );
    for (at, name) in names.iter().enumerate() {
        let name: String = name.chars().take(24).collect();
        let place = at as f64 * side + side / 2.0;
        let (x, y) = (left - 8.0, top + place + 4.0);
        if side >= 12.0 {
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"#1b2733\">{}</text>",
                    escaped(&name)
                ),
            );
            let (x, y) = (left + place, top - 8.0);
            let (turn, anchor) = if longest > 3.0 { (-40, "start") } else { (0, "middle") };
            put(
                &mut svg,
                format_args!(
                    "<text transform=\"translate({x:.1} {y:.1}) rotate({turn})\" text-anchor=\"{anchor}\" fill=\"#1b2733\">{}</text>",
                    escaped(&name)
                ),
            );
        }
    }
    for actual in 0..count {
        let all: f64 = (0..count).map(|told| classes.confusion(actual, told)).sum();
        for told in 0..count {
            let found = classes.confusion(actual, told);
            let share = if all > 0.0 { found / all } else { 0.0 };
            // The few that were mistaken are seen as well.
            let strength = share.powf(0.45);
            let [from, to] =
                [[247.0, 249.0, 251.0], if actual == told { [0.0, 100.0, 160.0] } else { [200.0, 70.0, 0.0] }];
            let colour: Vec<String> =
                (0..3).map(|c| format!("{:.0}", from[c] + strength * (to[c] - from[c]))).collect();
            let (x, y) = (left + told as f64 * side, top + actual as f64 * side);
            put(
                &mut svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"rgb({})\"/>",
                    side - 1.0,
                    side - 1.0,
                    colour.join(",")
                ),
            );
            if count <= MOST_NUMBERED && found > 0.0 {
                let colour = if strength > 0.55 { "#ffffff" } else { "#1b2733" };
                let (x, y) = (x + side / 2.0 - 0.5, y + side / 2.0 + 4.0);
                let text = if found.fract() == 0.0 { format!("{found:.0}") } else { format!("{found:.1}") };
                let size = (side / (0.7 * text.len().max(3) as f64)).clamp(6.0, 13.0);
                put(
                    &mut svg,
                    format_args!(
                        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\" text-anchor=\"middle\" fill=\"{colour}\">{text}</text>"
                    ),
                );
            }
        }
    }
    Some(svg + "</svg>\n")
}

#[cfg(test)]
mod tests {
    use super::{Panel, Series, confusion, curves, marks};
    use paceline_nn::evaluation::Classification;

    #[test]
    fn marks_are_round_and_reach_beyond_both_ends() {
        assert_eq!(marks(0.03, 2.31), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(marks(1.0, 5.0), [1.0, 2.0, 3.0, 4.0, 5.0]);
        let found = marks(0.912, 0.934);
        assert!(found[0] <= 0.912 && *found.last().unwrap() >= 0.934 && found.len() < 9, "{found:?}");
    }

    #[test]
    fn curves_lie_within_their_panel_and_gaps_are_gaps() {
        let points = vec![(1.0, 0.5), (2.0, f64::NAN), (3.0, 0.25), (4.0, 0.125)];
        let series = Series { name: "a < b".into(), points };
        let svg = curves(&[Panel { title: "loss".into(), series: vec![series] }], "epoch");
        assert!(svg.contains("a &lt; b") && svg.contains("epoch") && svg.ends_with("</svg>\n"));
        let line = svg.lines().find(|line| line.contains("stroke-width=\"2\"")).expect("a curve");
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
        // The highest place is at the top of its mark, 0.5, and the first at the left.
        assert!(line.contains("M66.0 64.0"), "{line}");
        assert!(curves(&[Panel::default()], "epoch").contains("</svg>"), "nothing to draw is no error");
    }

    #[test]
    fn every_mistake_has_its_cell() {
        let mut classes = Classification::new(["cat", "dog"].map(str::to_owned).to_vec());
        classes.add(&[0.9, 0.1, 0.2, 0.8, 0.7, 0.3], &[0, 1, 1], None);
        let svg = confusion(&classes).expect("a picture");
        assert_eq!(svg.matches("<rect x=").count(), 4);
        assert!(svg.contains("66.67 % right") && svg.contains(">cat<") && svg.matches(">1<").count() == 3, "{svg}");
        let many: Vec<String> = (0..101).map(|class| class.to_string()).collect();
        assert!(confusion(&Classification::new(many)).is_none());
    }
}
