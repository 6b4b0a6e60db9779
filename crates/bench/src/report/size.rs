//! Sizes as people write them: `8`, `64K`, `1M` (K = 1024, M = 1024 K).

use crate::failure::Failure;

/// Largest message that a benchmark sends.
pub const LARGEST: usize = 256 << 20;

/// Reads a size.
pub fn parse(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a size; write bytes such as 8, 2048, 64K or 1M"))?;
    match number.checked_mul(factor) {
        Some(size) if size <= LARGEST => Ok(size),
        _ => Err(format!("`{text}` is too large; at most {}", self::text(LARGEST))),
    }
}

/// Only a ping-pong makes sense without bytes: elsewhere they are what is counted.
pub fn not_empty(sizes: &[usize]) -> Result<(), Failure> {
    if sizes.contains(&0) {
        return Err(Failure::usage("only `bench latency` takes messages of 0 bytes"));
    }
    Ok(())
}

/// Writes a size: the shortest exact form.
pub fn text(size: usize) -> String {
    match size {
        _ if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        _ if size >= 8 << 10 && size.is_multiple_of(1 << 10) => format!("{}K", size >> 10),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("8"), Ok(8));
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("64k"), Ok(65_536));
        assert_eq!(parse("1M"), Ok(1 << 20));
        assert_eq!(parse(" 2048 "), Ok(2048));
    }

    #[test]
    fn nonsense_is_refused_with_advice() {
        for text in ["", "K", "eight", "-1", "1.5M", "8Q"] {
            assert!(parse(text).unwrap_err().contains("64K"), "{text}");
        }
        assert_eq!(parse("0"), Ok(0));
        assert!(not_empty(&[8, 0]).is_err());
        assert!(not_empty(&[8]).is_ok());
        assert!(parse("1024M").unwrap_err().contains("at most 256M"));
        assert!(parse("99999999999999999999").is_err());
        assert!(parse("18446744073709551615K").unwrap_err().contains("too large"));
    }

    #[test]
    fn sizes_are_written_short_and_exact() {
        for size in [1, 1023, 1024, 2048, 65_536, 65_537, 1 << 20, (1 << 20) + 1024] {
            assert_eq!(parse(&text(size)), Ok(size));
        }
        assert_eq!(
            (text(2048), text(65_536), text(4 << 20)),
            ("2048".into(), "64K".into(), "4M".into())
        );
    }
}
