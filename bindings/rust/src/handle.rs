//! Owners of the handles of the C API.
use crate::error::{check, Result};
use crate::sys;
use std::ptr::{null_mut, NonNull};

/// An opaque type of the C API, and the function that frees it.
pub(crate) trait Destroy {
    /// # Safety
    ///
    /// `pointer` is a handle that the C API made, and is not used after the call.
    unsafe fn destroy(pointer: *mut Self);
}

/// A handle, freed when it is dropped.
pub(crate) struct Handle<Raw: Destroy>(NonNull<Raw>);

// SAFETY: gnomon.h: several threads may read one handle at the same time, and only one may
// modify it. `get_mut` requires a unique borrow.
unsafe impl<Raw: Destroy> Send for Handle<Raw> {}
unsafe impl<Raw: Destroy> Sync for Handle<Raw> {}

impl<Raw: Destroy> Handle<Raw> {
    /// Makes a handle with a function of the C API whose last argument is the output.
    pub(crate) fn make(call: impl FnOnce(*mut *mut Raw) -> sys::gnomon_status) -> Result<Self> {
        let mut out = null_mut();
        check(call(&mut out))?;
        Ok(Handle(NonNull::new(out).expect("a call without error makes a handle")))
    }

    pub(crate) fn get(&self) -> *const Raw {
        self.0.as_ptr()
    }

    pub(crate) fn get_mut(&mut self) -> *mut Raw {
        self.0.as_ptr()
    }
}

impl<Raw: Destroy> Drop for Handle<Raw> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned.
        unsafe { Raw::destroy(self.0.as_ptr()) }
    }
}

macro_rules! destroyed_by {
    ($($raw:ident, $destroy:ident;)*) => {
        $(impl crate::handle::Destroy for crate::sys::$raw {
            unsafe fn destroy(pointer: *mut Self) {
                crate::sys::$destroy(pointer)
            }
        })*
    };
}
pub(crate) use destroyed_by;

/// Implements `Debug` for owners of handles, whose contents are opaque.
macro_rules! opaque {
    ($($name:ident$(<$life:lifetime>)?),*) => {
        $(impl std::fmt::Debug for $name$(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), " { .. }"))
            }
        })*
    };
}
pub(crate) use opaque;
