//! Figures: both axes logarithmic, one line a transport.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    failure::Failure,
    report::{number, size},
};

/// One line of a figure.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Size and value.
    pub points: Vec<(usize, f64)>,
    look: Option<(usize, usize)>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Over the figure.
    pub title: String,
    /// Under the title, smaller: where and how it was measured.
    pub notes: Vec<String>,
    /// The label of the horizontal axis, with its unit.
    pub across: String,
    /// The label of the vertical axis, with its unit.
    pub up: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// A table of the numbers stands below.
    pub has_table: bool,
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
/// Pixels drawn and left out, in turns; nothing is left out of the first.
const STYLES: [(i32, i32); 5] = [(1, 0), (10, 6), (3, 4), (16, 4), (1, 6)];
/// Pixels of the figure without its legend.
const SIZE: (u32, u32) = (860, 560);
/// Pixels between two lines of the table, and of its first column.
const ROW: (i32, i32) = (17, 60);
/// Most ticks of the horizontal axis.
const TICKS: f64 = 14.0;

impl Line {
    /// A line in a colour of its own.
    pub fn new(name: impl Into<String>, points: Vec<(usize, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            look: None,
        }
    }

    /// The same in the colour and the style with these numbers: lines that have something in common share one of them.
    #[must_use]
    pub fn look(mut self, colour: usize, style: usize) -> Self {
        self.look = Some((colour, style));
        self
    }

    /// The points that have a place on a logarithmic axis.
    fn shown(&self) -> impl Iterator<Item = &(usize, f64)> {
        self.points.iter().filter(|(size, _)| *size > 0)
    }

    /// Colour and style of the line with this number.
    fn style(&self, number: usize) -> (ShapeStyle, (i32, i32)) {
        let (colour, style) = self.look.unwrap_or((number, number / COLOURS.len()));
        let colour = COLOURS[colour % COLOURS.len()];
        (colour.stroke_width(2), STYLES[style % STYLES.len()])
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
        for (_, value) in points().filter(|(_, value)| *value > 0.0) {
            (low, high) = (low.min(*value), high.max(*value));
        }
        if high == 0.0 {
            return Err("nothing was measured".into());
        }
        let sizes: BTreeSet<usize> = points().map(|at| at.0).collect();
        let mut svg = String::new();
        self.draw_in(&mut svg, &sizes, (low / 1.3, high * 1.3))
            .map_err(|error| error.to_string())?;
        Ok(svg)
    }

    fn draw_in(&self, svg: &mut String, sizes: &BTreeSet<usize>, up: (f64, f64)) -> Drawing {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max();
        let legend = 70 + 8 * longest.unwrap_or(0) as u32;
        let below = match self.has_table {
            true => (self.sizes().len() as u32 + 2) * ROW.0 as u32,
            false => 0,
        };
        let area = SVGBackend::with_string(svg, (SIZE.0 + legend, SIZE.1 + below)).into_drawing_area();
        area.fill(&WHITE)?;
        let middle = (SIZE.0 / 2) as i32;
        let centred = |size: i32| ("sans-serif", size).into_font().into_text_style(&area);
        let anchor = Pos::new(HPos::Center, VPos::Top);
        area.draw(&Text::new(self.title.clone(), (middle, 12), centred(20).pos(anchor)))?;
        for (index, note) in (0..).zip(&self.notes) {
            let style = centred(12).pos(anchor).color(&RGBColor(90, 90, 90));
            area.draw(&Text::new(note.clone(), (middle, 40 + 16 * index), style))?;
        }
        let (above, table) = area.split_vertically(SIZE.1);
        let (chart, beside) = above.split_horizontally(SIZE.0);
        self.draw_chart(&chart, sizes, up)?;
        self.draw_legend(&beside)?;
        if self.has_table {
            self.draw_table(&table)?;
        }
        area.present()?;
        Ok(())
    }

    fn draw_chart(&self, area: &Area<'_>, sizes: &BTreeSet<usize>, up: (f64, f64)) -> Drawing {
        let (least, most) = (
            sizes.first().map_or(1, |size| *size),
            sizes.last().map_or(1, |size| *size),
        );
        let across = (least as f64 / 1.3)..(most as f64 * 1.3);
        let ticks = ticks_at(sizes).into_iter().map(|size| size as f64).collect();
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .margin_top(46 + 16 * self.notes.len() as u32)
            .x_label_area_size(48)
            .y_label_area_size(76)
            .build_cartesian_2d(
                across.log_scale().with_key_points(ticks),
                (up.0..up.1).log_scale().with_key_points(round_numbers(up)),
            )?;
        chart
            .configure_mesh()
            .x_desc(&self.across)
            .y_desc(&self.up)
            .x_label_formatter(&|at| size::text(at.round() as usize))
            .y_label_formatter(&|value| plain(*value))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 16))
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()?;
        for (number, line) in self.lines.iter().enumerate() {
            let points: Vec<(f64, f64)> = line.shown().map(|(size, value)| (*size as f64, *value)).collect();
            let (style, (drawn, left_out)) = line.style(number);
            if left_out == 0 {
                chart.draw_series(LineSeries::new(points.clone(), style))?;
            } else {
                chart.draw_series(DashedLineSeries::new(points.clone(), drawn, left_out, style))?;
            }
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, style.filled())))?;
        }
        Ok(())
    }

    /// All sizes, with those that have no place on the axis.
    fn sizes(&self) -> BTreeSet<usize> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(|at| at.0).collect()
    }

    /// A row for each size, a column for each line.
    fn draw_table(&self, area: &Area<'_>) -> Drawing {
        let text = ("sans-serif", 12).into_font().into_text_style(area);
        let text = text.pos(Pos::new(HPos::Right, VPos::Top));
        // The longest name fits into its column.
        let names = ("sans-serif", 10).into_font().into_text_style(area).pos(text.pos);
        let width = (area.dim_in_pixel().0 as i32 - ROW.1 - 8) / self.lines.len().max(1) as i32;
        let put = |row: i32, column: i32, cell: String, style: &TextStyle<'_>| {
            area.draw(&Text::new(cell, (ROW.1 + column * width, row * ROW.0), style.clone()))
        };
        put(0, 0, "bytes".to_owned(), &text)?;
        for (column, (index, line)) in (1..).zip(self.lines.iter().enumerate()) {
            let colour = line.style(index).0.color;
            put(0, column, line.name.clone(), &names.color(&colour))?;
        }
        for (row, size) in (1..).zip(self.sizes()) {
            put(row, 0, size::text(size), &text)?;
            for (column, line) in (1..).zip(&self.lines) {
                let value = line.points.iter().find(|at| at.0 == size).map(|at| at.1);
                put(row, column, number(value), &text)?;
            }
        }
        Ok(())
    }

    /// A line for each line, beside the chart, where it is in the way of nothing.
    fn draw_legend(&self, area: &Area<'_>) -> Drawing {
        let text = ("sans-serif", 14).into_font().into_text_style(area);
        let text = text.pos(Pos::new(HPos::Left, VPos::Center));
        let top = 62 + 16 * self.notes.len() as i32;
        for (index, (number, line)) in (0..).zip(self.lines.iter().enumerate()) {
            let (style, (drawn, left_out)) = line.style(number);
            let y = top + 22 * index;
            let mut from = 4;
            while from < 44 {
                let to = if left_out == 0 { 44 } else { (from + drawn).min(44) };
                area.draw(&PathElement::new([(from, y), (to, y)], style))?;
                from = to + left_out.max(1);
            }
            area.draw(&Text::new(line.name.clone(), (52, y), text.clone()))?;
        }
        Ok(())
    }
}

type Drawing = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The sizes that get a tick: all, but for those too close to the one before.
fn ticks_at(sizes: &BTreeSet<usize>) -> Vec<usize> {
    let span = match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) => (*last as f64 / *first as f64).ln(),
        _ => 0.0,
    };
    let mut ticks: Vec<usize> = Vec::new();
    for &size in sizes {
        let far = |last: &usize| (size as f64 / *last as f64).ln() >= span / TICKS * 0.999;
        if ticks.last().is_none_or(far) {
            ticks.push(size);
        }
    }
    ticks
}

/// 1, 2 and 5 times powers of ten in a range; powers of ten alone, if that are enough.
fn round_numbers((low, high): (f64, f64)) -> Vec<f64> {
    let powers = || (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let within = |value: &f64| (low..=high).contains(value);
    let of = |factors: &[f64]| -> Vec<f64> {
        powers()
            .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
            .filter(within)
            .collect()
    };
    let tens = of(&[1.0]);
    if tens.len() > 4 { tens } else { of(&[1.0, 2.0, 5.0]) }
}

/// A number on an axis.
fn plain(value: f64) -> String {
    // Products with powers of ten are off by a last bit.
    let places = |value: f64| format!("{}", (value * 1e9).round() / 1e9);
    match value {
        _ if value >= 1e6 => places(value / 1e6) + "M",
        _ if value >= 1e4 => places(value / 1e3) + "k",
        _ if value < 1e-4 => format!("{value:.0e}"),
        _ => places(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(lines: Vec<Line>) -> Figure {
        Figure {
            title: "Latency".into(),
            notes: vec!["CPU of a test".into(), "MTU 1500".into()],
            across: "message size, bytes".into(),
            up: "one-way time, µs".into(),
            lines,
            has_table: false,
        }
    }

    #[test]
    fn a_figure_says_what_it_shows() {
        let svg = figure(vec![Line::new("hikyaku/udp", vec![(8, 2.5), (65_536, 9.0)])])
            .svg()
            .unwrap();
        assert!(svg.starts_with("<svg"));
        for text in [
            "hikyaku/udp",
            "Latency",
            "CPU of a test",
            "MTU 1500",
            "message size, bytes",
            "one-way time, µs",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn numbers_stand_below() {
        let mut figure = figure(vec![
            Line::new("a", vec![(0, 1.25), (8, 2.5)]),
            Line::new("b", vec![(8, 312.7)]),
        ]);
        figure.has_table = true;
        let svg = figure.svg().unwrap();
        let text = |cell: &str| svg.split('\n').filter(|line| line.trim() == cell).count();
        assert_eq!(
            [text("1.25"), text("2.50"), text("312.7"), text("-")],
            [1, 1, 1, 1],
            "{svg}"
        );
    }

    /// Right of everything that is drawn.
    #[test]
    fn the_legend_is_outside() {
        let svg = figure(vec![Line::new("a line", vec![(8, 2.5), (65_536, 9.0)])])
            .svg()
            .unwrap();
        let at = svg[..svg.find("a line").unwrap()].rfind("<text x=\"").unwrap() + 9;
        let x: u32 = svg[at..].split('"').next().unwrap().parse().unwrap();
        assert!(x > SIZE.0, "{x}");
        let circles = svg.split("<circle cx=\"").skip(1);
        for circle in circles {
            let x: u32 = circle.split('"').next().unwrap().parse().unwrap();
            assert!(x < SIZE.0, "{x}");
        }
    }

    #[test]
    fn lines_share_a_colour_or_a_style() {
        let points = vec![(8, 2.5), (65_536, 9.0)];
        let line = |colour, style| Line::new("x", points.clone()).look(colour, style).style(0);
        assert_eq!(line(1, 0).0.color, line(1, 2).0.color);
        assert_ne!(line(1, 0).0.color, line(2, 0).0.color);
        assert_eq!(line(1, 2).1, line(2, 2).1);
        assert_ne!(line(1, 0).1, line(1, 2).1);
        // Without being told: no two of the first of them look alike.
        let looks: Vec<_> = (0..35).map(|number| Line::new("x", Vec::new()).style(number)).collect();
        let alike = |a: usize, b: usize| looks[a].0.color == looks[b].0.color && looks[a].1 == looks[b].1;
        assert!((0..35).all(|a| (0..a).all(|b| !alike(a, b))));
    }

    #[test]
    fn ticks_are_at_the_data() {
        let tens: BTreeSet<usize> = (0..=6).map(|power| 10_usize.pow(power)).collect();
        assert!(ticks_at(&tens).into_iter().eq(tens));
        let twos: BTreeSet<usize> = (0..=22).map(|power| 1 << power).collect();
        let ticks = ticks_at(&twos);
        assert!(
            (8..=15).contains(&ticks.len()) && ticks.iter().all(|tick| twos.contains(tick)),
            "{ticks:?}"
        );
        assert_eq!(round_numbers((0.7, 30.0)), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(round_numbers((0.7, 2e5)), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(figure(Vec::new()).svg().is_err());
    }
}
