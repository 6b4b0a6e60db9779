//! Figures: both axes logarithmic, one line a transport.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use plotters::prelude::*;

use crate::{failure::Failure, report::size};

/// One line of a figure.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Size and value.
    pub points: Vec<(usize, f64)>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Over the figure.
    pub title: String,
    /// What stands on the horizontal axis.
    pub across: String,
    /// What stands on the vertical axis.
    pub up: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Colours that colour-blind people can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

impl Line {
    /// The points that have a place on a logarithmic axis.
    fn shown(&self) -> impl Iterator<Item = &(usize, f64)> {
        self.points.iter().filter(|(size, _)| *size > 0)
    }
}

/// A file that a figure can be written to: it may take minutes until there is something to draw.
pub(crate) fn file(file: PathBuf) -> Result<PathBuf, String> {
    if file.extension().is_none_or(|extension| extension != "svg") {
        return Err("the name must end in .svg".to_owned());
    }
    let mut options = OpenOptions::new();
    let tried = match fs::metadata(&file) {
        Ok(there) if !there.is_file() => return Err("there is something that is no file".to_owned()),
        Ok(_) => options.append(true).open(&file).map(drop),
        // A link to nothing: whether it can be written to shows when it is.
        Err(_) if fs::symlink_metadata(&file).is_ok() => Ok(()),
        // Nothing is left behind if the measurement fails.
        Err(_) => options
            .write(true)
            .create_new(true)
            .open(&file)
            .and_then(|_| fs::remove_file(&file)),
    };
    tried.map_err(|error| error.to_string())?;
    Ok(file)
}

impl Figure {
    /// Draws into a file.
    pub fn draw(&self, file: &Path) -> Result<(), Failure> {
        let failure = |error: String| Failure::run(format!("drawing {}: {error}", file.display()));
        let svg = self.svg().map_err(failure)?;
        fs::write(file, svg).map_err(|error| failure(error.to_string()))
    }

    /// The figure as SVG.
    fn svg(&self) -> Result<String, String> {
        let points = || self.lines.iter().flat_map(Line::shown);
        let (mut low, mut high) = (f64::INFINITY, 0_f64);
        for (_, value) in points() {
            (low, high) = (low.min(*value), high.max(*value));
        }
        let (Some(least), Some(most)) = (points().map(|at| at.0).min(), points().map(|at| at.0).max()) else {
            return Err("nothing was measured".into());
        };
        let mut svg = String::new();
        draw(
            self,
            &mut svg,
            (least as f64 / 1.5, most as f64 * 1.5),
            (low / 1.6, high * 1.6),
        )
        .map_err(|error| error.to_string())?;
        Ok(svg)
    }
}

type Drawing = Result<(), Box<dyn std::error::Error>>;

fn draw(figure: &Figure, svg: &mut String, across: (f64, f64), up: (f64, f64)) -> Drawing {
    let area = SVGBackend::with_string(svg, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(&figure.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d((across.0..across.1).log_scale().base(2.0), (up.0..up.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(&figure.across)
        .y_desc(&figure.up)
        .x_label_formatter(&|at| size::text(at.round() as usize))
        .y_label_formatter(&|value| plain(*value))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .light_line_style(RGBColor(240, 240, 240))
        .draw()?;
    for (line, colour) in figure.lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = line.shown().map(|(size, value)| (*size as f64, *value)).collect();
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.clone(), style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(160, 160, 160))
        .label_font(("sans-serif", 15))
        .legend_area_size(34)
        .draw()?;
    area.present()?;
    Ok(())
}

/// A number on an axis.
fn plain(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e4 => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_names() {
        let line = Line {
            name: "hikyaku/udp".into(),
            points: vec![(8, 2.5), (65_536, 9.0)],
        };
        let figure = Figure {
            title: "Latency".into(),
            across: "B".into(),
            up: "µs".into(),
            lines: vec![line],
        };
        let svg = figure.svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("hikyaku/udp") && svg.contains("Latency"));
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let figure = Figure {
            title: String::new(),
            across: String::new(),
            up: String::new(),
            lines: Vec::new(),
        };
        assert!(figure.svg().is_err());
    }
}
