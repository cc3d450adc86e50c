//! Contexts: threads and working memory for each engine of a process.
use crate::error::Result;
use crate::handle::{destroyed_by, opaque, Handle};
use crate::sys;

destroyed_by! { gnomon_context, gnomon_context_destroy; }

/// The working memory, and if wanted the threads, of the calls of one engine. The memory is kept
/// for the next calls, which then allocate none. Results do not depend on contexts.
///
/// ```
/// let context = gnomon::Context::new(1)?;
/// let version = context.enter(gnomon::version);
/// assert_eq!(version, gnomon::version());
/// # Ok::<(), gnomon::Error>(())
/// ```
pub struct Context(Handle<sys::gnomon_context>);

opaque!(Context);

/// Restores the context that a thread used before, also after a panic.
struct Restore(*mut sys::gnomon_context);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: an outer call of `enter` borrows the context that it used.
        unsafe { sys::gnomon_context_use(self.0) };
    }
}

impl Context {
    /// `threads`: those of a pool that belongs to the context, 1 to 4096; 0: no pool, loops run
    /// on the threads of the process. Fails for other numbers.
    pub fn new(threads: i32) -> Result<Self> {
        // SAFETY: the output is a valid pointer.
        Handle::make(|out| unsafe { sys::gnomon_context_create(threads, out) }).map(Context)
    }

    /// Calls `body`, whose calls of this thread use the context. Several threads may use a
    /// context at the same time.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        // SAFETY: the context is borrowed until the thread uses the previous one again.
        let _restore = Restore(unsafe { sys::gnomon_context_use(self.0.get() as *mut _) });
        body()
    }

    /// The bytes of working memory that no call uses at the moment.
    pub fn kept_bytes(&self) -> usize {
        // SAFETY: the handle is valid, here and below.
        unsafe { sys::gnomon_context_kept_bytes(self.0.get()) }
    }

    /// Frees the working memory that no call uses.
    pub fn release(&self) {
        unsafe { sys::gnomon_context_release(self.0.get() as *mut _) }
    }
}
