//! A reader of the JSON that the library writes.
use crate::error::{Error, Result};
use std::fmt;
use std::ops::Index;

/// A value of JSON. `value["key"]` and `value[0]` are `Null` where there is no such part.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// null
    Null,
    /// true, false
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Value>),
    /// An object, in the order of the text.
    Object(Vec<(String, Value)>),
}

/// Arrays and objects inside each other, at most.
const DEPTH: usize = 128;

static NULL: Value = Value::Null;

impl Value {
    /// Reads a text. Fails if it is not JSON.
    pub fn parse(text: &str) -> Result<Value> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let value = reader.value()?;
        reader.space();
        if reader.at < text.len() {
            return reader.fail("the end");
        }
        Ok(value)
    }

    /// The number, if this is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(x) => Some(*x),
            _ => None,
        }
    }

    /// The number, if it is a size.
    pub fn as_usize(&self) -> Option<usize> {
        self.as_f64().filter(|x| *x >= 0.0 && x.fract() == 0.0 && *x < 9e15).map(|x| x as usize)
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(x) => Some(*x),
            _ => None,
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(x) => Some(x),
            _ => None,
        }
    }

    /// The elements of an array; none of another value.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Array(x) => x,
            _ => &[],
        }
    }
}

impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        match self {
            Value::Object(members) => {
                members.iter().find(|(name, _)| name == key).map_or(&NULL, |(_, value)| value)
            }
            _ => &NULL,
        }
    }
}

impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, i: usize) -> &Value {
        self.elements().get(i).unwrap_or(&NULL)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, expected: impl fmt::Display) -> Result<T> {
        let rule = format!("JSON must have {} at byte {}", expected, self.at);
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => Error::refuse(rule, format_args!("{:?}", found)),
            None => Error::refuse(rule, "the end"),
        }
    }

    fn peek(&self) -> u8 {
        *self.text.as_bytes().get(self.at).unwrap_or(&0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn value(&mut self) -> Result<Value> {
        self.space();
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => Ok(Value::Text(self.string()?)),
            b'-' | b'0'..=b'9' => self.number(),
            _ if self.accept("null") => Ok(Value::Null),
            _ if self.accept("true") => Ok(Value::Bool(true)),
            _ if self.accept("false") => Ok(Value::Bool(false)),
            _ => self.fail("a value"),
        }
    }

    fn number(&mut self) -> Result<Value> {
        let begin = self.at;
        while matches!(self.peek(), b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
            self.at += 1;
        }
        match self.text[begin..self.at].parse() {
            Ok(x) => Ok(Value::Number(x)),
            Err(_) => {
                self.at = begin;
                self.fail("a number")
            }
        }
    }

    fn enter(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH {
            return self.fail(format_args!("at most {} levels", DEPTH));
        }
        Ok(())
    }

    /// Reads a comma, or the end of an array or object. Returns whether another part follows.
    fn follows(&mut self, end: &str, is_first: bool) -> Result<bool> {
        self.space();
        if self.accept(end) {
            self.depth -= 1;
            return Ok(false);
        }
        if !is_first && !self.accept(",") {
            return self.fail(format_args!("\",\" or {:?}", end));
        }
        Ok(true)
    }

    fn array(&mut self) -> Result<Value> {
        self.enter()?;
        let mut elements = Vec::new();
        while self.follows("]", elements.is_empty())? {
            elements.push(self.value()?);
        }
        Ok(Value::Array(elements))
    }

    fn object(&mut self) -> Result<Value> {
        self.enter()?;
        let mut members = Vec::new();
        while self.follows("}", members.is_empty())? {
            self.space();
            let key = self.string()?;
            self.space();
            if !self.accept(":") {
                return self.fail("\":\"");
            }
            members.push((key, self.value()?));
        }
        Ok(Value::Object(members))
    }

    fn string(&mut self) -> Result<String> {
        if !self.accept("\"") {
            return self.fail("a string");
        }
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            text.push_str(&rest[..plain]);
            self.at += plain;
            if self.accept("\"") {
                return Ok(text);
            }
            if !self.accept("\\") {
                return self.fail("the end of a string");
            }
            text.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let letter = self.peek();
        let found = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let high = self.hex()?;
                if (0xd800..0xdc00).contains(&high) && self.accept("\\u") {
                    let low = self.hex()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Ok(char::REPLACEMENT_CHARACTER);
                    }
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return self.fail("an escape"),
        };
        self.at += 1;
        Ok(found)
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) || digits.is_empty() {
            return self.fail("4 hexadecimal digits");
        }
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn values_are_read() {
        let value = Value::parse(
            r#" {"a": [1, -2.5e3, true, null, "x\n\"\u00e9\ud83d\ude00/"], "b": {}, "c": []} "#,
        )
        .unwrap();
        assert_eq!(value["a"][0].as_usize(), Some(1));
        assert_eq!(value["a"][1].as_f64(), Some(-2500.0));
        assert_eq!(value["a"][1].as_usize(), None);
        assert_eq!(value["a"][2].as_bool(), Some(true));
        assert_eq!(value["a"][3], Value::Null);
        assert_eq!(value["a"][4].as_str(), Some("x\n\"é😀/"));
        assert_eq!(value["b"], Value::Object(vec![]));
        assert_eq!(value["c"].elements().len(), 0);
        assert_eq!(value["none"][7]["none"], Value::Null);
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, message) in [
            ("", "[rust] JSON must have a value at byte 0, got the end"),
            ("[1 2]", "[rust] JSON must have \",\" or \"]\" at byte 3, got '2'"),
            ("{\"a\" 1}", "[rust] JSON must have \":\" at byte 5, got '1'"),
            ("[1] x", "[rust] JSON must have the end at byte 4, got 'x'"),
            ("1e", "[rust] JSON must have a number at byte 0, got '1'"),
            ("\"\\u12\"", "[rust] JSON must have 4 hexadecimal digits at byte 3, got '1'"),
            ("\"\\ud800\\u0000\"", ""),
            ("\"a", "[rust] JSON must have the end of a string at byte 2, got the end"),
        ] {
            match Value::parse(text) {
                Err(error) => assert_eq!(error.message(), message),
                Ok(value) => assert_eq!((message, value.as_str()), ("", Some("\u{fffd}"))),
            }
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(Value::parse(&deep).unwrap_err().message().contains("at most 128 levels"));
    }
}
