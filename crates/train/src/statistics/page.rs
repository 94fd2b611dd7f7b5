//! Statistics as a page of its own, with a timeline: a row for each worker, from left to right its time, coloured by phase.

use std::fmt::Write;

use super::{Phases, Stretch, TrainingStatistics};

/// A colour for each phase, told apart by those who see fewer colours, too.
const COLOURS: [&str; 6] = ["#8a8f98", "#0072b2", "#cc79a7", "#f0e442", "#e69f00", "#009e73"];
/// The width of the time, in pixels.
const WIDTH: f64 = 960.0;
/// The height of a row, and the gap between two.
const ROW: f64 = 42.0;
const GAP: f64 = 10.0;
/// Room for names.
const NAMES: f64 = 150.0;

impl TrainingStatistics {
    /// A page that needs nothing else.
    pub fn page(&self, title: &str) -> String {
        let title = escape(title);
        let end = self.workers.iter().filter_map(|worker| worker.stretches.last()).map(|last| last.to);
        let end = end.fold(0.0, f64::max).max(1e-3);
        let legend: String = Phases::NAMES
            .iter()
            .zip(COLOURS)
            .map(|(name, colour)| format!(r#"<span><i style="background:{colour}"></i>{name}</span>"#))
            .collect();
        format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n<p class=\"legend\">{legend}</p>\n{}\n{}\n\
             <p>split: waiting for examples to be read. compute: the network, forwards and backwards. encode: making what is sent. \
             wait: others are not as far, or there was no work. network: what others add up is on its way. apply: taking in what \
             others have sent, and copying states.</p>\n</html>\n",
            self.timeline(end),
            self.figures(),
        )
    }

    fn timeline(&self, end: f64) -> String {
        let height = self.workers.len() as f64 * (ROW + GAP) + 24.0;
        let wide = NAMES + WIDTH + 20.0;
        let mut drawn = format!(r#"<svg viewBox="0 0 {wide} {height}" role="img" aria-label="where the time went">"#);
        for (row, worker) in self.workers.iter().enumerate() {
            let top = row as f64 * (ROW + GAP);
            let name = escape(&worker.worker);
            let middle = top + ROW / 2.0 + 4.0;
            let _ = write!(drawn, r#"<text x="{}" y="{middle:.1}" text-anchor="end">{name}</text>"#, NAMES - 8.0);
            let _ = write!(drawn, r#"<rect class="idle" x="{NAMES}" y="{top:.1}" width="{WIDTH}" height="{ROW}"/>"#);
            worker.stretches.iter().for_each(|stretch| column(&mut drawn, stretch, top, end));
        }
        let bottom = height - 6.0;
        for tick in 0..=8 {
            let (x, at) = (NAMES + WIDTH * f64::from(tick) / 8.0, end * f64::from(tick) / 8.0);
            let _ =
                write!(drawn, r#"<text class="tick" x="{x:.1}" y="{bottom:.1}" text-anchor="middle">{at:.1} s</text>"#);
        }
        drawn + "</svg>"
    }

    fn figures(&self) -> String {
        let mut table = String::from("<table><tr><th>worker<th>steps<th>seconds<th>ms a step");
        Phases::NAMES.iter().for_each(|name| table.push_str(&format!("<th>{name}")));
        for worker in &self.workers {
            let spent = worker.spent();
            let total = spent.phases.total();
            let of_step = 1e3 * total / spent.steps.max(1) as f64;
            let name = escape(&worker.worker);
            let _ = write!(table, "\n<tr><td>{name}<td>{}<td>{total:.1}<td>{of_step:.2}", spent.steps);
            for seconds in spent.phases.values() {
                let _ = write!(table, "<td>{:.1} %", 100.0 * seconds / total.max(f64::MIN_POSITIVE));
            }
        }
        table + "</table>"
    }
}

/// A stretch of time: what it was spent on lies above each other.
fn column(drawn: &mut String, Stretch { from, to, spent }: &Stretch, top: f64, end: f64) {
    let (x, width) = (NAMES + WIDTH * from / end, (WIDTH * (to - from) / end).max(0.3));
    let total = spent.phases.total().max(f64::MIN_POSITIVE);
    let told: Vec<String> = Phases::NAMES
        .iter()
        .zip(spent.phases.values())
        .map(|(name, seconds)| format!("{name} {:.1} %", 100.0 * seconds / total))
        .collect();
    let _ = write!(drawn, "<g><title>{from:.2} to {to:.2} s, {} steps: {}</title>", spent.steps, told.join(", "));
    let mut bottom = top + ROW;
    for (seconds, colour) in spent.phases.values().iter().zip(COLOURS) {
        let height = ROW * seconds / total;
        if height > 0.0 {
            bottom -= height;
            let _ = write!(
                drawn,
                r#"<rect x="{x:.2}" y="{bottom:.2}" width="{width:.2}" height="{height:.2}" fill="{colour}"/>"#
            );
        }
    }
    drawn.push_str("</g>");
}

/// Names come from other machines.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "\
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}\
body{max-width:1200px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.3rem}svg{width:100%;height:auto}text{font-size:13px;fill:currentColor}.tick{opacity:.7;font-size:11px}\
.idle{fill:currentColor;opacity:.06}.legend span{margin-right:1.2rem;white-space:nowrap}\
.legend i{display:inline-block;width:.9em;height:.9em;margin-right:.4em;border-radius:2px;vertical-align:-.1em}\
table{border-collapse:collapse;margin:1.5rem 0;font-variant-numeric:tabular-nums}\
td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #8884}td:first-child,th:first-child{text-align:left}\
p{max-width:60rem}";

#[cfg(test)]
mod tests {
    use super::super::tests::spent;
    use super::*;

    #[test]
    fn a_page_has_a_row_for_every_worker_and_is_closed() {
        let mut statistics = TrainingStatistics::default();
        statistics.take("node1/1", 1.0, &spent(10, 0.75, 0.25));
        statistics.take("node1/1", 2.0, &spent(10, 0.5, 0.5));
        statistics.take("<b>&\"", 2.0, &spent(10, 0.5, 0.5));
        let page = statistics.page("a <run>");
        assert_eq!(page.matches(r#"class="idle""#).count(), 2);
        assert_eq!(page.matches("<g>").count(), 3);
        assert_eq!(page.matches("<g>").count(), page.matches("</g>").count());
        assert!(page.contains("compute 75.0 %") && page.contains("&lt;b&gt;&amp;&quot;") && !page.contains("<b>"));
        assert!(page.contains("a &lt;run&gt;"));
        // Half of the first stretch of the second row is as high as half a row.
        assert!(page.contains(r#"height="21.00""#), "{page}");
        TrainingStatistics::default().page("nobody");
    }
}
