//! A network as a picture: one box a layer, below all that goes into it.

use std::collections::HashMap;
use std::fmt::Write as _;

use paceline::nn::Network;

/// Of a box.
const WIDTH: usize = 210;
const HEIGHT: usize = 46;
/// Between boxes.
const GAP: usize = 40;
/// Around all.
const MARGIN: usize = 30;

struct Drawn {
    name: String,
    kind: String,
    gives: String,
    after: Vec<String>,
    rank: usize,
}

/// The picture, as SVG.
pub(crate) fn svg(network: &Network) -> String {
    let boxes = boxes(network);
    let ranks = 1 + boxes.iter().map(|drawn| drawn.rank).max().unwrap_or(0);
    let in_rank = |rank: usize| boxes.iter().filter(move |drawn| drawn.rank == rank);
    let widest = (0..ranks).map(|rank| in_rank(rank).count()).max().unwrap_or(1);
    // What passes by several rows goes round on the right.
    let passes = boxes.iter().flat_map(|drawn| drawn.after.iter().map(move |after| (drawn, after)));
    let far = passes.filter(|(drawn, after)| rank_of(&boxes, after) + 1 < drawn.rank).count().min(6);
    let width = 2 * MARGIN + widest * (WIDTH + GAP) - GAP + far * 14 + if far > 0 { GAP } else { 0 };
    let height = 2 * MARGIN + ranks * (HEIGHT + GAP) - GAP;
    let row = widest * (WIDTH + GAP) - GAP;
    let mut places: HashMap<&str, (usize, usize)> = HashMap::new();
    for rank in 0..ranks {
        let count = in_rank(rank).count();
        let first = MARGIN + (row - (count * (WIDTH + GAP) - GAP)) / 2;
        for (at, drawn) in in_rank(rank).enumerate() {
            places.insert(&drawn.name, (first + at * (WIDTH + GAP), MARGIN + rank * (HEIGHT + GAP)));
        }
    }
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif">
<!-- drawn by paceline -->
<rect width="100%" height="100%" fill="#ffffff"/>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b6b7b"/></marker></defs>
"##
    );
    let mut lane = 0;
    for drawn in &boxes {
        let (x, y) = places[drawn.name.as_str()];
        for (at, after) in drawn.after.iter().enumerate() {
            let (from_x, from_y) = places[after.as_str()];
            let to = x + (at + 1) * WIDTH / (drawn.after.len() + 1);
            let (start, from_y) = (from_x + WIDTH / 2, from_y + HEIGHT);
            let path = if rank_of(&boxes, after) + 1 == drawn.rank {
                format!("M{start} {from_y}C{start} {} {to} {} {to} {y}", from_y + GAP / 2, y - GAP / 2)
            } else {
                let side = MARGIN + row + GAP / 2 + (lane % 6) * 14;
                lane += 1;
                let (down, up) = (from_y + GAP / 2, y - GAP / 2);
                format!(
                    "M{start} {from_y}Q{start} {down} {} {down}H{}Q{side} {down} {side} {}V{}Q{side} {up} {} {up}H{}Q{to} {up} {to} {y}",
                    start + 10,
                    side - 10,
                    down + 10,
                    up - 10,
                    side - 10,
                    to + 10
                )
            };
            let _ = writeln!(
                svg,
                r##"<path d="{path}" fill="none" stroke="#5b6b7b" stroke-width="1.5" marker-end="url(#tip)"/>"##
            );
        }
    }
    for Drawn { name, kind, gives, after, .. } in &boxes {
        let (x, y) = places[name.as_str()];
        let fill = if after.is_empty() {
            "#e8f1e4"
        } else if kind == "output" || kind == "loss" {
            "#fbe9d9"
        } else {
            "#e6eef7"
        };
        let title =
            if name.parse::<usize>().is_ok() || name == kind { kind.clone() } else { format!("{kind} · {name}") };
        let middle = x + WIDTH / 2;
        let _ = writeln!(
            svg,
            r##"<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#5b6b7b"/>
<text x="{middle}" y="{}" font-size="14" text-anchor="middle" fill="#1c2733">{}</text>
<text x="{middle}" y="{}" font-size="11" text-anchor="middle" fill="#5b6b7b">{}</text>"##,
            y + 19,
            escaped(&shortened(&title)),
            y + 36,
            escaped(gives)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn rank_of(boxes: &[Drawn], name: &str) -> usize {
    boxes.iter().find(|drawn| drawn.name == name).map_or(0, |drawn| drawn.rank)
}

/// The inputs and all layers, with how many layers lie before each at most.
fn boxes(network: &Network) -> Vec<Drawn> {
    let inputs = network.config().inputs.iter().map(|input| Drawn {
        name: input.name.clone(),
        kind: "input".into(),
        gives: input.kind.shape().to_string(),
        after: Vec::new(),
        rank: 0,
    });
    let layers = network.layers().iter().map(|layer| Drawn {
        name: layer.name.clone(),
        kind: layer.kind.to_owned(),
        gives: layer.output.to_string(),
        after: layer.after.clone(),
        rank: 0,
    });
    let mut boxes: Vec<Drawn> = inputs.chain(layers).collect();
    // Each round brings at least one more layer below all that goes into it.
    for _ in 0..boxes.len() {
        for at in 0..boxes.len() {
            let below = boxes[at].after.iter().map(|after| 1 + rank_of(&boxes, after)).max();
            boxes[at].rank = below.unwrap_or(0);
        }
    }
    boxes
}

fn shortened(text: &str) -> String {
    const MOST: usize = 28;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
