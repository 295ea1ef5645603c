//! A plot of ratios as SVG: a bar for each figure, from 0 to 2, with a line at 1. At this line, Flyball and stock cost
//! the same.

use std::fmt::Write;

/// The bars of one workload.
pub(super) struct Group {
    pub(super) name: String,
    /// The name of each figure, and its ratio.
    pub(super) bars: Vec<(String, f64)>,
}

/// The left end of the bars, in pixels.
const LEFT: f64 = 300.0;
/// The length of a bar for the ratio 1, in pixels.
const ONE: f64 = 240.0;
/// The largest ratio that is drawn.
const MAX_RATIO: f64 = 2.0;
/// The height of a line, in pixels.
const LINE: f64 = 18.0;

/// An SVG image.
pub(super) fn svg(groups: &[Group]) -> String {
    let lines: usize = groups.iter().map(|group| group.bars.len() + 2).sum();
    let (width, height) = (LEFT + ONE * MAX_RATIO + 60.0, (lines as f64 + 2.0) * LINE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, style: &str, text: &str| {
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" {style}>{}</text>",
            escaped(text)
        );
    };
    text(
        LEFT,
        LINE,
        "fill=\"#555\"",
        "Flyball's cost relative to kube-controller-manager's: shorter is better",
    );
    let mut y = 2.0 * LINE;
    let mut bars = String::new();
    for group in groups {
        y += LINE;
        text(8.0, y, "font-weight=\"bold\"", &group.name);
        for (figure, ratio) in &group.bars {
            y += LINE;
            let (length, color) = (
                ratio.clamp(0.0, MAX_RATIO) * ONE,
                if *ratio <= 1.0 { "#2a7ab0" } else { "#c0392b" },
            );
            text(LEFT - 8.0, y, "text-anchor=\"end\"", figure);
            text(LEFT + length + 6.0, y, "", &format!("{ratio:.2}"));
            let top = y - LINE * 0.7;
            let _ = writeln!(
                bars,
                "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{color}\"/>",
                LINE * 0.8
            );
        }
        y += LINE;
    }
    out += &bars;
    let same = LEFT + ONE;
    let _ = writeln!(
        out,
        "<line x1=\"{same}\" y1=\"{LINE}\" x2=\"{same}\" y2=\"{y}\" stroke=\"#555\" stroke-dasharray=\"4\"/>"
    );
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_bar_as_long_as_its_ratio() {
        let bars = vec![("CPU, s".into(), 0.5), ("a < b".into(), 7.0)];
        let svg = svg(&[Group {
            name: "converge".into(),
            bars,
        }]);
        assert!(
            svg.contains(&format!("width=\"{:.1}\"", ONE / 2.0))
                && svg.contains(&format!("width=\"{:.1}\"", ONE * MAX_RATIO))
        );
        assert!(svg.contains("a &lt; b") && svg.contains(">7.00<") && svg.ends_with("</svg>\n"));
    }
}
