//! Positional encodings for Transformers: rotations, biases, attention with them, and the
//! positions of released models. The crate is a thin layer over the C library Gnomon.
//!
//! ```
//! use gnomon::{attention, rotate, AttentionInput, Direction, Frequencies, LayerPlan, Mask};
//! use gnomon::{Pairing, RotarySpec, RotaryTable, Tensor, TensorMut};
//!
//! let (tokens, heads, key_heads, head_dim) = (16, 4, 2, 64);
//! let mut q = vec![0.5f32; tokens * heads * head_dim];
//! let mut k = vec![0.25f32; tokens * key_heads * head_dim];
//! let v = k.clone();
//! let mut out = vec![0f32; q.len()];
//!
//! let spec = RotarySpec { base: 500000.0, ..RotarySpec::new(head_dim, Pairing::Halves) };
//! let ids: Vec<i64> = (0..tokens as i64).collect();
//! let table = RotaryTable::new(&Frequencies::new(&spec)?, &Tensor::from(&ids[..]))?;
//!
//! let [queries, keys] = [[1, tokens, heads, head_dim], [1, tokens, key_heads, head_dim]];
//! let mut q = TensorMut::new(&mut q, &queries)?;
//! let mut k = TensorMut::new(&mut k, &keys)?;
//! rotate(&mut q, Some(&mut k), &table, Direction::Forward)?;
//!
//! let plan = LayerPlan::new(Mask::causal())?;
//! let input = AttentionInput::new(q.as_tensor(), k.as_tensor(), Tensor::new(&v, &keys)?);
//! attention(&input, &plan, &mut TensorMut::new(&mut out, &queries)?, None)?;
//! # Ok::<(), gnomon::Error>(())
//! ```
//!
//! Letters of shapes: B batch, T query tokens, S key tokens, A position axes, H query heads, Hk
//! key heads, D head dimension of queries and keys, Dv head dimension of values, R rotary
//! dimension, C width of embeddings.
//!
//! Argument order: inputs, plan, options, outputs; operations in place have their argument first.
//! Errors have the message of the library ([`Error`]). Handles are freed when they are dropped.
//! Several threads may use a handle at the same time, and one at a time may modify it; the types
//! are `Send` and `Sync`, and methods that modify a handle take `&mut self`.
#![warn(missing_docs)]

mod attention;
mod context;
mod element;
mod embedding;
mod error;
mod handle;
#[cfg(feature = "model")]
pub mod json;
#[cfg(feature = "model")]
mod model;
mod paged_cache;
mod plan;
mod rotary;
pub mod sys;
mod tensor;

pub use attention::*;
pub use context::Context;
pub use element::{Bf16, E4m3, Element, Float, F16};
pub use embedding::*;
pub use error::{Error, Result, Status};
#[cfg(feature = "model")]
pub use model::*;
pub use paged_cache::*;
pub use plan::{
    add_position, alibi_slopes, prepare, prepare_input, prepare_with, LayerPlan, Mask, Softmax,
    Terms, Visibility,
};
pub use rotary::*;
pub use tensor::{Tensor, TensorMut, MAX_AXES};

use std::ffi::CStr;

/// The version of the library, for example "0.1.0".
pub fn version() -> String {
    // SAFETY: the function returns a string of the library.
    unsafe { CStr::from_ptr(sys::gnomon_version()) }.to_string_lossy().into_owned()
}

/// The instruction set of the kernels: "portable", "sse4", "avx2", "avx512", "neon". It is "" if
/// the environment variable `GNOMON_ISA` names one that is not available.
pub fn isa() -> String {
    // SAFETY: the function returns a string of the library.
    unsafe { CStr::from_ptr(sys::gnomon_isa()) }.to_string_lossy().into_owned()
}

/// Sets the largest number of threads that calls of this thread use. Results do not depend on
/// it. Fails if the number is less than 1.
pub fn set_threads(count: i32) -> Result<()> {
    // SAFETY: the function takes any number.
    error::check(unsafe { sys::gnomon_set_threads(count) })
}

/// The largest number of threads that calls of this thread use.
pub fn threads() -> i32 {
    // SAFETY: the function only reads.
    unsafe { sys::gnomon_threads() }
}
