//! Which classes were taken for which.

use paceline_nn::evaluation::Classification;

use super::{begin, escaped, put};

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
    // Wide enough for what stands above it.
    let mut svg = begin((left + side * count as f64 + 40.0).max(470.0), top + side * count as f64 + 30.0);
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
    use paceline_nn::evaluation::Classification;

    use super::confusion;

    #[test]
    fn every_mistake_has_its_cell() {
        let mut classes = Classification::new(["cat", "dog"].map(str::to_owned).to_vec());
        classes.add(&[0.9, 0.1, 0.2, 0.8, 0.7, 0.3], &[0, 1, 1], None);
        let svg = confusion(&classes).expect("a picture");
        assert_eq!(svg.matches("<rect x=").count(), 4);
        assert!(svg.contains("66.67 % are right") && svg.contains(">cat<") && svg.matches(">1<").count() == 3, "{svg}");
        let many: Vec<String> = (0..101).map(|class| class.to_string()).collect();
        assert!(confusion(&Classification::new(many)).is_none());
    }
}
