//! Tables that are added to embeddings.
use crate::element::Float;
use crate::error::{check, Result};
use crate::sys;
use crate::tensor::{Tensor, TensorMut};

/// The order of sines and cosines in a sinusoidal table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinusoidalLayout {
    /// sin cos sin cos ...: Vaswani et al. 2017.
    Interleaved = 1,
    /// Sines, then cosines, of the same frequencies.
    HalfSplit = 2,
    /// Sines, then cosines; the last frequency is 1/base: fairseq, XGLM.
    Tensor2Tensor = 3,
}

/// Computes the sinusoidal table `[T, C]` at positions `[T]`. Fails if C is odd or the base is not
/// positive.
pub fn sinusoidal<T: Float>(
    positions: &Tensor<'_, i64>,
    layout: SinusoidalLayout,
    base: f64,
    out: &mut TensorMut<'_, T>,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices.
    check(unsafe { sys::gnomon_sinusoidal(&positions.raw(), layout as i32, base, &out.raw()) })
}

/// x\[b, t\] += scale table\[t\]. x: `[B, T, C]`; table: `[T, C]`.
pub fn add_table<T: Float>(
    x: &mut TensorMut<'_, T>,
    table: &Tensor<'_, f32>,
    scale: f32,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices that do not overlap.
    check(unsafe { sys::gnomon_add_table(&x.raw(), &table.raw(), scale) })
}

/// x\[b, t\] += table\[rows\[b, t\]\]. x: `[B, T, C]`; table: `[N, C]`; rows: `[B, T]`. Fails if a row
/// is outside the table.
pub fn add_rows<T: Float>(
    x: &mut TensorMut<'_, T>,
    table: &Tensor<'_, f32>,
    rows: &Tensor<'_, i64>,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices that do not overlap.
    check(unsafe { sys::gnomon_add_rows(&x.raw(), &table.raw(), &rows.raw()) })
}

/// table_grad\[rows\[b, t\]\] += grad\[b, t\], in a fixed order. Fails if a row is outside the
/// table.
pub fn add_rows_backward<T: Float>(
    grad: &Tensor<'_, T>,
    rows: &Tensor<'_, i64>,
    table_grad: &mut TensorMut<'_, f32>,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices that do not overlap.
    check(unsafe { sys::gnomon_add_rows_backward(&grad.raw(), &rows.raw(), &table_grad.raw()) })
}
