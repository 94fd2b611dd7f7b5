//! A report of runs as one page that needs nothing else: figures, curves, confusion matrices, remarks and settings.

use std::fmt::Write;
use std::fs::read_to_string;
use std::path::Path;

use serde_json::Value;

use super::{Run, shown_figures};
use crate::outputs::MARK;
use paceline::train::figure;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
img { max-width: 100%; background: #fff; border-radius: 6px; } .error { color: #cf222e; } .note { color: var(--soft); }
";

/// The page of these runs; `curves` is the picture of all of them.
pub(super) fn page(runs: &[Run], curves: &str) -> String {
    let title = match runs {
        [only] => only.name.clone(),
        several => format!("{} runs", several.len()),
    };
    let title = escaped(&title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"generator\" content=\"{MARK}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    page += &overview(runs);
    if runs.iter().any(|run| !run.rows.is_empty()) {
        let _ = writeln!(page, "<h2>Curves</h2>\n{}", picture(curves, "loss and figures over the epochs"));
    }
    for run in runs {
        page += &details(run, runs.len() > 1);
    }
    page + "</html>\n"
}

fn overview(runs: &[Run]) -> String {
    let (shown, figures) = shown_figures(runs);
    let mut table = String::from("<div class=\"wide\"><table>\n<tr><th>run<th>state<th>epochs<th>steps<th>seconds");
    shown.iter().for_each(|name| table += &format!("<th>{}", if *name == "score" { "test loss" } else { name }));
    for (run, figures) in runs.iter().zip(&figures) {
        let epochs = run.kept.map_or_else(|| run.epochs.to_string(), |kept| format!("{kept} of {}", run.epochs));
        let (name, state, steps, seconds) = (escaped(&run.name), run.state.name(), run.steps, run.seconds());
        let _ = write!(table, "\n<tr><td>{name}<td>{state}<td>{epochs}<td>{steps}<td>{seconds:.1}");
        shown
            .iter()
            .for_each(|name| table += &format!("<td>{}", figures.get(name).map_or(String::new(), |v| figure(*v))));
    }
    table + "\n</table></div>\n"
}

/// The part of the page that is about one run.
fn details(run: &Run, is_one_of_several: bool) -> String {
    let mut text = String::new();
    if is_one_of_several {
        let _ = writeln!(text, "<h2>{}</h2>", escaped(&run.name));
    }
    if let Some(error) = &run.error {
        let _ = writeln!(text, "<p class=\"error\">failed: {}</p>", escaped(error));
    }
    let remarks = remarks(&run.folder.join("log.jsonl"));
    if !remarks.is_empty() {
        let items: String = remarks.iter().map(|remark| format!("<li>{}</li>", escaped(remark))).collect();
        let _ = writeln!(text, "<ul class=\"note\">{items}</ul>");
    }
    if let Ok(drawn) = read_to_string(run.folder.join("confusion.svg"))
        && drawn.starts_with("<svg")
    {
        let _ = writeln!(text, "<h2>Confusion</h2>\n{}", picture(&drawn, "which classes were taken for which"));
    }
    if !run.rows.is_empty() {
        let _ = write!(
            text,
            "<h2>Epochs</h2>\n<div class=\"wide\"><table>\n<tr><th>epoch<th>loss<th>seconds<th>examples/s"
        );
        run.metrics.iter().for_each(|name| text += &format!("<th>{}", escaped(name)));
        for row in &run.rows {
            let loss = if row.loss.is_finite() { figure(row.loss) } else { String::new() };
            let _ = write!(
                text,
                "\n<tr><td>{}<td>{loss}<td>{:.1}<td>{:.0}",
                row.epoch, row.seconds, row.examples_per_second
            );
            row.figures.iter().for_each(|value| text += &format!("<td>{}", value.map_or(String::new(), figure)));
        }
        text += "\n</table></div>\n";
    }
    if !run.network.is_empty() {
        text += "<h2>Settings</h2>\n<div class=\"wide\"><table>";
        for (key, value) in &run.network {
            let _ = write!(text, "\n<tr><td>{}<td>{}", escaped(key), escaped(&value.to_string()));
        }
        text += "\n</table></div>\n";
    }
    text
}

/// The warnings and notes of a log, each once.
fn remarks(log: &Path) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for line in read_to_string(log).unwrap_or_default().lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        if let (Some("warning" | "note"), Some(message)) = (event["event"].as_str(), event["message"].as_str())
            && !remarks.iter().any(|known| known == message)
        {
            remarks.push(message.to_owned());
        }
    }
    remarks
}

/// A picture within the page, of which nothing can be executed.
fn picture(svg: &str, told: &str) -> String {
    let encoded: String = svg.bytes().fold(String::with_capacity(2 * svg.len()), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'-' | b'_' | b'.' | b'/' | b':' | b'=' | b',' | b';' => {
                text.push(char::from(byte));
            }
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
        text
    });
    format!("<img alt=\"{told}\" src=\"data:image/svg+xml,{encoded}\">")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
