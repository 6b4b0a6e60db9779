//! Times as a line: what a message costs, and each of its bytes.

/// Seconds per message and per byte, so that the relative errors' squares are least. `times`: bytes and microseconds.
pub(super) fn line(times: impl Iterator<Item = (usize, f64)>) -> (f64, f64) {
    // t = α + βn, divided by t: 1 = α x + β y.
    let (mut xx, mut xy, mut yy, mut x1, mut y1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (size, micros) in times {
        let seconds = micros / 1e6;
        let (x, y) = (1.0 / seconds, size as f64 / seconds);
        (xx, xy, yy, x1, y1) = (xx + x * x, xy + x * y, yy + y * y, x1 + x, y1 + y);
    }
    let determinant = xx * yy - xy * xy;
    let alpha = (x1 * yy - y1 * xy) / determinant;
    let beta = (y1 * xx - x1 * xy) / determinant;
    // What is measured on a busy machine may slope the wrong way.
    (alpha.max(1e-9), beta.max(1e-12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_in_what_lies_on_it() {
        let time = |size: usize| (size, 3.0 + size as f64 * 0.25e-3);
        let (alpha, beta) = line([8, 1024, 65_536, 1 << 20].map(time).into_iter());
        assert!((alpha * 1e6 - 3.0).abs() < 1e-6 && (beta * 1e9 - 0.25).abs() < 1e-6);
    }
}
