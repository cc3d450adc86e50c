//! Errors: the status and the message of the C API.
use crate::sys;
use std::ffi::CStr;
use std::fmt;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// An argument breaks a rule; the message names the rule.
    InvalidArgument,
    /// A file does not have the expected format.
    FormatError,
    /// An allocation failed.
    OutOfMemory,
    /// An error in the library.
    InternalError,
}

/// A failed call: `[rotary] rotary_dim must be even, got 7`.
///
/// The messages are those of the library. `[rust]` at the beginning of a message names a rule of
/// this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

/// The result of a call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kind of the error.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The operation, the rule, and the value that was given.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn refuse<T>(rule: impl fmt::Display, got: impl fmt::Display) -> Result<T> {
        let message = format!("[rust] {}, got {}", rule, got);
        Err(Error { status: Status::InvalidArgument, message })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Converts the status of a call of this thread, with its message.
pub(crate) fn check(status: sys::gnomon_status) -> Result<()> {
    let status = match status {
        sys::GNOMON_OK => return Ok(()),
        sys::GNOMON_INVALID_ARGUMENT => Status::InvalidArgument,
        sys::GNOMON_FORMAT_ERROR => Status::FormatError,
        sys::GNOMON_OUT_OF_MEMORY => Status::OutOfMemory,
        _ => Status::InternalError,
    };
    // SAFETY: the pointer is valid until the next failed call of this thread.
    let message = unsafe { CStr::from_ptr(sys::gnomon_error_message()) };
    Err(Error { status, message: message.to_string_lossy().into_owned() })
}

/// A size as the C API takes it.
pub(crate) fn size(name: &str, value: usize) -> Result<i64> {
    match i64::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => Error::refuse(format_args!("{} must be at most 2^63 - 1", name), value),
    }
}
