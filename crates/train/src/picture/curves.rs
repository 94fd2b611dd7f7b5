//! Curves that share an axis.

use std::fmt::Write;

use super::{begin, escaped, put};

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
    /// Its colour, by number: what belongs together has the same.
    pub colour: usize,
    /// Whether its line is broken.
    pub is_dashed: bool,
    /// Its places, from left to right; what is no number is left out.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 280.0;
/// Around the place of the curves, for numbers and names.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 44.0;
/// A line of names above the curves.
const NAMES: f64 = 20.0;
/// The colour of a series: one of these, and from then on hues that are as far from each other as the golden angle makes them.
fn colour(number: usize) -> String {
    match COLOURS.get(number) {
        Some(colour) => (*colour).to_owned(),
        None => {
            let hue = (number as f64 * 137.508) % 360.0;
            format!("hsl({hue:.0},65%,{}%)", [35, 50][number % 2])
        }
    }
}

/// Colours that people with any eyes tell apart (Okabe and Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
/// More marks than these on an axis cannot be read.
const MARKS: f64 = 6.0;
/// Numbers that differ by more than this factor are drawn by their magnitude: otherwise most of a loss would be a line along the ground.
const FAR_APART: f64 = 50.0;

/// Curves in panels side by side; `along` says what goes from left to right.
pub fn curves(panels: &[Panel], along: &str) -> String {
    let names: Vec<Vec<(f64, f64)>> = panels.iter().map(places_of_names).collect();
    let lines = names.iter().flatten().map(|(_, line)| line + 1.0).fold(1.0, f64::max);
    let top = 34.0 + lines * NAMES + 10.0;
    let (width, height) = (panels.len().max(1) as f64 * (LEFT + WIDTH + RIGHT), top + HEIGHT + BOTTOM);
    let mut svg = begin(width, height);
    for (at, (panel, names)) in panels.iter().zip(&names).enumerate() {
        let left = at as f64 * (LEFT + WIDTH + RIGHT) + LEFT;
        draw_panel(&mut svg, panel, (left, top), along);
        draw_names(&mut svg, panel, names, left);
    }
    svg + "</svg>\n"
}

/// Where the name of each curve begins, and on which line.
fn places_of_names(panel: &Panel) -> Vec<(f64, f64)> {
    let (mut at, mut line) = (0.0, 0.0);
    let place = |series: &Series| {
        let width = 38.0 + 6.8 * series.name.chars().count() as f64;
        if at > 0.0 && at + width > WIDTH {
            (at, line) = (0.0, line + 1.0);
        }
        let place = (at, line);
        at += width;
        place
    };
    panel.series.iter().map(place).collect()
}

fn draw_names(svg: &mut String, panel: &Panel, places: &[(f64, f64)], left: f64) {
    put(
        svg,
        format_args!(
            "<text x=\"{left:.1}\" y=\"22\" font-size=\"15\" fill=\"#1b2733\">{}</text>",
            escaped(&panel.title)
        ),
    );
    for (series, (at, line)) in panel.series.iter().zip(places) {
        let (x, y) = (left + at, 39.0 + line * NAMES);
        put(svg, format_args!("<path d=\"M{x:.1} {y:.1}h18\" {}/>", stroke(series)));
        let (x, y, name) = (x + 23.0, y + 4.0, escaped(&series.name));
        put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#1b2733\">{name}</text>"));
    }
}

fn stroke(series: &Series) -> String {
    let colour = colour(series.colour);
    let dashes = if series.is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dashes}")
}

/// What goes from one end of an axis to the other.
struct Axis {
    ends: (f64, f64),
    marks: Vec<f64>,
    is_of_magnitudes: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, may_be_of_magnitudes: bool) -> Self {
        let values = values.filter(|value| value.is_finite());
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v: f64| (low.min(v), high.max(v)));
        if may_be_of_magnitudes && low > 0.0 && high / low > FAR_APART {
            let marks: Vec<f64> =
                (low.log10().floor() as i32..=high.log10().ceil() as i32).map(|power| 10f64.powi(power)).collect();
            let ends = (marks[0].log10(), marks[marks.len() - 1].log10());
            return Self { ends, marks, is_of_magnitudes: true };
        }
        let ends = match () {
            () if low > high => (0.0, 1.0),
            () if low == high => (low - 0.5, high + 0.5),
            () => (low, high),
        };
        Self { ends, marks: marks(ends.0, ends.1), is_of_magnitudes: false }
    }

    /// So that its ends are marks.
    fn ended_by_marks(mut self) -> Self {
        if let ([first, .., last], false) = (&self.marks[..], self.is_of_magnitudes) {
            self.ends = (self.ends.0.min(*first), self.ends.1.max(*last));
        }
        self
    }

    /// How far along it a value is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = if self.is_of_magnitudes { value.log10() } else { value };
        (value - self.ends.0) / (self.ends.1 - self.ends.0)
    }

    fn text(&self, mark: f64) -> String {
        if self.is_of_magnitudes {
            return if (1e-4..1e5).contains(&mark) { mark.to_string() } else { format!("{mark:e}") };
        }
        number(mark, &self.marks)
    }
}

fn draw_panel(svg: &mut String, panel: &Panel, (left, top): (f64, f64), along: &str) {
    let points = || panel.series.iter().flat_map(|series| &series.points).filter(|(_, y)| y.is_finite());
    let (across, up) = (
        Axis::of(points().map(|point| point.0), false),
        Axis::of(points().map(|point| point.1), true).ended_by_marks(),
    );
    let x_of = |x: f64| left + across.share(x) * WIDTH;
    let y_of = |y: f64| top + HEIGHT - up.share(y) * HEIGHT;
    for mark in &up.marks {
        let (x, y, text) = (left - 8.0, y_of(*mark), up.text(*mark));
        put(svg, format_args!("<path d=\"M{left:.1} {y:.1}h{WIDTH}\" stroke=\"#e3e8ed\"/>"));
        let y = y + 4.0;
        put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"#52616f\">{text}</text>"));
    }
    let bottom = top + HEIGHT;
    for mark in across.marks.iter().filter(|mark| (0.0..=1.0).contains(&across.share(**mark))) {
        let (x, text) = (x_of(*mark), across.text(*mark));
        put(svg, format_args!("<path d=\"M{x:.1} {bottom:.1}v5\" stroke=\"#8b98a5\"/>"));
        let y = bottom + 19.0;
        put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#52616f\">{text}</text>"));
    }
    let (x, y, along) = (left + WIDTH / 2.0, bottom + 37.0, escaped(along));
    put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#52616f\">{along}</text>"));
    put(svg, format_args!("<path d=\"M{left:.1} {bottom:.1}h{WIDTH}\" stroke=\"#8b98a5\"/>"));
    for series in &panel.series {
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
        put(svg, format_args!("<path d=\"{line}\" {}/>", stroke(series)));
        // A curve of few places is seen by its places.
        let colour = colour(series.colour);
        for (x, y) in series.points.iter().filter(|(_, y)| y.is_finite() && series.points.len() <= 30) {
            let (x, y) = (x_of(*x), y_of(*y));
            put(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>"));
        }
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

#[cfg(test)]
mod tests {
    use super::{Panel, Series, curves, marks};

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
        let series = Series { name: "a < b".into(), points, ..Series::default() };
        let svg = curves(&[Panel { title: "loss".into(), series: vec![series] }], "epoch");
        assert!(svg.contains("a &lt; b") && svg.contains("epoch") && svg.ends_with("</svg>\n"));
        let line =
            svg.lines().rfind(|line| line.contains("stroke-width=\"2\"") && line.contains('L')).expect("a curve");
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
        // The highest place is at the top of its mark, 0.5, and the first at the left.
        assert!(line.contains("M66.0 64.0"), "{line}");
        assert!(curves(&[Panel::default()], "epoch").contains("</svg>"), "nothing to draw is no error");
    }

    #[test]
    fn numbers_that_are_far_apart_are_drawn_by_their_magnitude() {
        let of = |low: f64| Panel {
            title: "loss".into(),
            series: vec![Series { name: "a".into(), points: vec![(1.0, 10.0), (2.0, low)], ..Series::default() }],
        };
        let far = curves(&[of(0.001)], "epoch");
        assert!([">10<", ">1<", ">0.1<", ">0.01<", ">0.001<"].iter().all(|mark| far.contains(mark)), "{far}");
        let near = curves(&[of(1.0)], "epoch");
        assert!(near.contains(">8<") && !near.contains(">0.1<"), "{near}");
    }

    #[test]
    fn names_that_do_not_fit_go_onto_the_next_line() {
        let series = |name: &str, is_dashed| Series { name: name.into(), is_dashed, ..Series::default() };
        let all =
            ["a run with a long name", "another with such a name", "a third one"].map(|name| series(name, name < "an"));
        let svg = curves(&[Panel { title: "loss".into(), series: all.to_vec() }], "epoch");
        let lines: Vec<&str> = all.iter().filter_map(|all| svg.lines().find(|line| line.contains(&all.name))).collect();
        let y = |line: &str| line.split("y=\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
        assert!(y(lines[0]) == y(lines[1]) && y(lines[1]) != y(lines[2]), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray").count(), 4, "in the picture and beside the name");
    }
}
