//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

/// What `Content-Type` it has.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric does.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until the process ends.
    Counter,
}

/// Metrics as text.
#[derive(Default)]
pub(super) struct Exposition(String);

/// One value, and what tells it from others of the same metric.
pub(super) type Sample<'a> = (Vec<(&'static str, &'a str)>, f64);

impl Exposition {
    /// A metric with one value.
    pub(super) fn single(&mut self, kind: Kind, name: &str, help: &str, value: f64) {
        self.family(kind, name, help, [(Vec::new(), value)]);
    }

    /// A metric with a value for each of several things; nothing at all if there are none.
    pub(super) fn family<'a>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample<'a>>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            self.line(format_args!("{name}{labels} {}", number(value)));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn number(value: f64) -> String {
    if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Kind};

    #[test]
    fn is_written_as_the_format_says() {
        let mut text = Exposition::default();
        text.single(Kind::Counter, "a_total", "A \\ and\na line.", 12.0);
        text.family(Kind::Gauge, "nothing", "Not there.", []);
        let labels = vec![("path", "C:\\\"x\"\n"), ("worker", "3")];
        text.family(Kind::Gauge, "b", "B.", [(labels, f64::NAN), (vec![("worker", "é")], f64::NEG_INFINITY)]);
        text.single(Kind::Gauge, "c", "C.", f64::INFINITY);
        let expected = r#"# HELP a_total A \\ and\na line.
# TYPE a_total counter
a_total 12
# HELP b B.
# TYPE b gauge
b{path="C:\\\"x\"\n",worker="3"} NaN
b{worker="é"} -Inf
# HELP c C.
# TYPE c gauge
c +Inf
"#;
        assert_eq!(text.into_text(), expected);
    }
}
