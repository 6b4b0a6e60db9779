//! PMI messages: a command and its fields, in two wire formats.
//!
//! - **Version 1**: one line, `cmd=get_result rc=0 value=abc` and a line feed; fields are separated by blanks.
//! - **Version 2**: six characters with the length of what follows, then `cmd=kvs-get-response;rc=0;value=abc;`. A
//!   semicolon within a value is written twice.
//!
//! Sources: `src/pmi/maint/pmi-1.1.txt` and `pmi-2.0.txt` of MPICH; Flux RFC 13.

use std::fmt;

/// Longest message, in bytes, that is sent or accepted. Hydra's own limit is 4,096 for version 1.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Bytes of the length in front of a message of version 2.
pub const LENGTH_BYTES: usize = 6;

/// Wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Lines.
    One,
    /// Messages behind their length.
    Two,
}

/// Why bytes are not a message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// Nothing, or nothing but blanks.
    Empty,
    /// More than [`MAX_MESSAGE`] bytes.
    TooLong,
    /// Not UTF-8, or a control character in it.
    NotText,
    /// The first field is not `cmd`.
    NoCommand,
    /// A field without `=`, or without a name before it.
    NoField(String),
    /// The length in front of a message of version 2 is no number.
    NoLength(String),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::TooLong => write!(f, "it is longer than {MAX_MESSAGE} bytes"),
            Self::NotText => f.write_str("it is not text"),
            Self::NoCommand => f.write_str("it does not begin with cmd="),
            Self::NoField(field) => write!(f, "'{field}' is not name=value"),
            Self::NoLength(length) => write!(f, "'{length}' is not the length of a message"),
        }
    }
}

crate::debug_as_display!(MessageError);

impl std::error::Error for MessageError {}

/// A command and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    fields: Vec<(String, String)>,
}

impl Message {
    /// A message without fields.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self {
            fields: vec![("cmd".to_owned(), command.to_owned())],
        }
    }

    /// With one more field. Names and values must not have blanks or control characters in them.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.fields[0].1
    }

    /// The first field of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().skip(1).find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The first field of that name, as a number.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// The encoded message: with its line feed, or after its length.
    #[must_use]
    pub fn encode(&self, version: Version) -> String {
        let mut text = String::new();
        match version {
            Version::One => {
                for (name, value) in &self.fields {
                    let blank = if text.is_empty() { "" } else { " " };
                    text.push_str(&format!("{blank}{name}={value}"));
                }
                text.push('\n');
                text
            }
            Version::Two => {
                for (name, value) in &self.fields {
                    text.push_str(&format!("{name}={};", value.replace(';', ";;")));
                }
                format!("{:width$}{text}", text.len(), width = LENGTH_BYTES)
            }
        }
    }

    /// Reads a line of version 1, with or without its line feed.
    ///
    /// # Errors
    /// The error in the line; any bytes give a message or an error.
    pub fn parse_line(line: &[u8]) -> Result<Self, MessageError> {
        let text = text_of(line)?;
        let fields = text.split_ascii_whitespace().map(field);
        Self::from_fields(fields.collect::<Result<_, _>>()?)
    }

    /// Reads the body of a message of version 2, without its length.
    ///
    /// # Errors
    /// The error in the body; any bytes give a message or an error.
    pub fn parse_body(body: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Vec::new();
        let mut part = String::new();
        let mut characters = text_of(body)?.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                ';' if characters.next_if_eq(&';').is_some() => part.push(';'),
                ';' => fields.push(field(&std::mem::take(&mut part))?),
                '\n' if characters.peek().is_none() => {}
                _ => part.push(character),
            }
        }
        // The last semicolon is missing in some messages.
        if !part.is_empty() {
            fields.push(field(&part)?);
        }
        Self::from_fields(fields)
    }

    /// Reads the length in front of a message of version 2: a number with blanks before or after it.
    ///
    /// # Errors
    /// It is no number, or exceeds [`MAX_MESSAGE`].
    pub fn parse_length(bytes: &[u8]) -> Result<usize, MessageError> {
        let text = String::from_utf8_lossy(bytes);
        match text.trim_matches(' ').parse::<usize>() {
            Ok(length) if length <= MAX_MESSAGE => Ok(length),
            Ok(_) => Err(MessageError::TooLong),
            Err(_) => Err(MessageError::NoLength(text.escape_default().to_string())),
        }
    }

    fn from_fields(fields: Vec<(String, String)>) -> Result<Self, MessageError> {
        match fields.first() {
            None => Err(MessageError::Empty),
            Some((name, _)) if name != "cmd" => Err(MessageError::NoCommand),
            Some(_) => Ok(Self { fields }),
        }
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, MessageError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| MessageError::NotText)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.chars().any(char::is_control) {
        return Err(MessageError::NotText);
    }
    Ok(text)
}

fn field(text: &str) -> Result<(String, String), MessageError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(MessageError::NoField(text.chars().take(64).collect())),
    }
}

/// Bytes as lower-case hexadecimal digits, which every PMI can carry.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Marks a rank's second connection, on which it receives reports of failed ranks.
pub(super) const NEWS: &str = "news";

/// Stands for the value of a rank that has put none.
pub(super) const NOTHING: &str = "-";

/// Prefixes a key with the rank, since the keys of a job share one name space.
pub(super) fn key_of(rank: u32, key: &str) -> String {
    format!("hk.{rank}.{key}")
}

/// Decodes the output of [`to_hex`]; `None` if it is something else.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.contains('+') {
        return None;
    }
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    (0..text.len()).step_by(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_hydra_and_slurm() {
        let message = Message::parse_line(b"cmd=get_result rc=-1 msg=key_nope_not_found value=unknown\n").unwrap();
        assert_eq!(message.command(), "get_result");
        assert_eq!(message.number::<i32>("rc"), Some(-1));
        assert_eq!(message.get("value"), Some("unknown"));
        assert_eq!(message.get("cmd"), None);
        let message = Message::parse_body(b"cmd=kvs-get-response;rc=0;found=TRUE;value=v;;0;").unwrap();
        assert_eq!(message.get("value"), Some("v;0"));
        assert_eq!(Message::parse_length(b"114   "), Ok(114));
        assert_eq!(Message::parse_length(b"    27"), Ok(27));
    }

    #[test]
    fn what_is_no_message_says_why() {
        assert_eq!(Message::parse_line(b" \n"), Err(MessageError::Empty));
        assert_eq!(Message::parse_line(b"rc=0 cmd=x"), Err(MessageError::NoCommand));
        assert_eq!(
            Message::parse_line(b"cmd=x hello"),
            Err(MessageError::NoField("hello".into()))
        );
        assert_eq!(
            Message::parse_line(b"cmd=x =1"),
            Err(MessageError::NoField("=1".into()))
        );
        assert_eq!(Message::parse_line(b"cmd=\xff"), Err(MessageError::NotText));
        assert_eq!(Message::parse_line(b"cmd=a\nb=c"), Err(MessageError::NotText));
        assert_eq!(
            Message::parse_line(&[b'a'; MAX_MESSAGE + 1]),
            Err(MessageError::TooLong)
        );
        assert_eq!(
            Message::parse_length(b"99999x"),
            Err(MessageError::NoLength("99999x".into()))
        );
        assert_eq!(Message::parse_length(b"999999"), Err(MessageError::TooLong));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::parse_line(&bytes);
            let _ = Message::parse_body(&bytes);
            let _ = Message::parse_length(&bytes);
        }

        #[test]
        fn nearly_right_ones_too(text in "(cmd=)?[a-z=; \\n0-9]{0,60}") {
            if let Ok(message) = Message::parse_line(text.as_bytes()) {
                prop_assert_eq!(Message::parse_line(message.encode(Version::One).as_bytes()), Ok(message));
            }
            let _ = Message::parse_body(text.as_bytes());
        }

        #[test]
        fn what_is_written_is_read(
            command in "[a-z_-]{1,20}",
            fields in proptest::collection::vec(("[a-z_]{1,10}", "[!-~]{0,30}"), 0..6),
        ) {
            let mut message = Message::new(&command);
            for (name, value) in &fields {
                message = message.with(name, value);
            }
            let line = message.encode(Version::One);
            prop_assert_eq!(Message::parse_line(line.as_bytes()), Ok(message));
        }

        #[test]
        fn what_is_written_behind_its_length_is_read(
            command in "[a-z_-]{1,20}",
            // A value that ends with a semicolon is ambiguous.
            fields in proptest::collection::vec(("[a-z_]{1,10}", "[ -~]{0,30}[!-:<-~]"), 0..6),
        ) {
            let mut message = Message::new(&command);
            for (name, value) in &fields {
                message = message.with(name, value);
            }
            let text = message.encode(Version::Two);
            let (length, body) = text.split_at(LENGTH_BYTES);
            prop_assert_eq!(Message::parse_length(length.as_bytes()), Ok(body.len()));
            prop_assert_eq!(Message::parse_body(body.as_bytes()), Ok(message));
        }

        #[test]
        fn hexadecimal(bytes in proptest::collection::vec(any::<u8>(), 0..50), text in "\\PC{0,8}") {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
            let _ = from_hex(&text);
        }
    }
}
