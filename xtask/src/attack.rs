//! The battery of attacks of `tests/attack`: built, run, and its rows as aligned tables.

use crate::shell::{self, Cmd};

/// Of the whole battery.
const LIMIT_S: u32 = 1_800;
/// Of its short form.
const SHORT_LIMIT_S: u32 = 180;

/// `args`: `--short`, and `--only TEXT` for the attacks with that text in their names.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut args = args.iter();
    let (mut short, mut only) = (false, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--short" => short = true,
            "--only" => only = Some(args.next().ok_or("--only TEXT: a part of the attacks' names")?),
            _ => return Err(format!("unknown option {arg}: there are --short and --only TEXT")),
        }
    }
    if let Some(why) = obstacle() {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    // What is measured is measured of what is released.
    let program = shell::executable("cargo test --release -p hikyaku --test attack --no-run")?;
    play(&program, short, only.map(String::as_str))
}

/// Why no attack can be made here, if so.
pub(crate) fn obstacle() -> Option<String> {
    (!shell::is_root()).then(|| "needs root".to_owned())
}

/// The short form, on what `cargo test` has built.
pub(crate) fn short() -> Result<(), String> {
    let program = shell::executable("cargo test -p hikyaku --test attack --no-run")?;
    play(&program, true, None)
}

fn play(program: &str, short: bool, only: Option<&str>) -> Result<(), String> {
    let form = if short { "short" } else { "long" };
    let mut command = Cmd::new(program)
        .args(["attacks", "--exact", "--ignored", "--nocapture"])
        .env("ATTACK_FORM", form)
        .limit_s(if short { SHORT_LIMIT_S } else { LIMIT_S });
    if let Some(only) = only {
        command = command.env("ATTACK_ONLY", only);
    }
    let mut tables = Vec::new();
    let result = command.lines(|line| take(&mut tables, line));
    tables.iter().for_each(print);
    result
}

/// A heading, and rows of cells; the first row has the names of the columns.
struct Table {
    heading: String,
    rows: Vec<Vec<String>>,
}

/// `table`, a heading and names of columns begin a table; `row` and cells continue it. Other lines are not for us.
fn take(tables: &mut Vec<Table>, line: &str) {
    let mut cells = line.split('\t').map(str::to_owned);
    match cells.next().as_deref() {
        Some("table") => tables.push(Table {
            heading: cells.next().unwrap_or_default(),
            rows: vec![cells.collect()],
        }),
        Some("row") => {
            if let Some(table) = tables.last_mut() {
                table.rows.push(cells.collect());
            }
        }
        _ => {}
    }
}

fn print(table: &Table) {
    if table.rows.len() < 2 {
        return;
    }
    println!("\n# {}", table.heading);
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &table.rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // The name stands to the left, figures to the right, the verdict as it is.
            line += &match column {
                0 => format!("{cell:width$}"),
                _ if column + 1 == columns => format!("  {cell}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        println!("{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_table_before_them() {
        let mut tables = Vec::new();
        for line in [
            "row\tlost",
            "table\tfirst\ta\tb",
            "running 1 test",
            "row\t1\t2",
            "table\tsecond\tc",
            "row\t3",
        ] {
            take(&mut tables, line);
        }
        let rows: Vec<_> = tables
            .iter()
            .map(|table| (table.heading.as_str(), table.rows.len()))
            .collect();
        assert_eq!(rows, [("first", 2), ("second", 2)]);
        assert_eq!(tables[0].rows[1], ["1", "2"]);
    }
}
