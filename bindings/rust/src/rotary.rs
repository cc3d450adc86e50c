//! Rotary position embeddings: frequencies, tables, rotations.
use crate::element::{Element, Float};
use crate::error::{check, size, Result};
use crate::handle::{destroyed_by, opaque, Handle};
use crate::sys;
use crate::tensor::{pointer_if, raw_if, raw_mut_if, Tensor, TensorMut};
use std::ptr::null;

/// Which elements of a head are a pair. There is no default: the wrong one gives a model that
/// is wrong without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// (i, i + R/2): Llama as converted for Hugging Face, GPT-NeoX.
    Halves = 1,
    /// (2i, 2i + 1): GPT-J, RoFormer, Llama as released by Meta.
    Adjacent = 2,
}

/// The direction of a rotation. The gradient of a rotation is the inverse rotation of the
/// gradient of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By position times frequency.
    Forward = 1,
    /// Back.
    Inverse = 2,
}

/// The settings of rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotarySpec {
    /// R, the number of rotated elements of a head; even.
    pub rotary_dim: usize,
    /// Which elements are a pair.
    pub pairing: Pairing,
    /// `rope_theta`.
    pub base: f64,
    /// The index of the first rotated element of a head.
    pub head_offset: usize,
}

impl RotarySpec {
    /// The base 10000 and the head offset 0.
    pub fn new(rotary_dim: usize, pairing: Pairing) -> Self {
        RotarySpec { rotary_dim, pairing, base: 10000.0, head_offset: 0 }
    }

    fn raw(&self) -> Result<sys::gnomon_rotary_spec> {
        Ok(sys::gnomon_rotary_spec {
            rotary_dim: size("rotary_dim", self.rotary_dim)?,
            pairing: self.pairing as i32,
            base: self.base,
            head_offset: size("head_offset", self.head_offset)?,
            ..Default::default()
        })
    }
}

destroyed_by! {
    gnomon_frequencies, gnomon_frequencies_destroy;
    gnomon_rotary_table, gnomon_rotary_table_destroy;
}

/// The frequency of each pair of a head, in radians per position, and the settings of a
/// rotation.
pub struct Frequencies(pub(crate) Handle<sys::gnomon_frequencies>);

/// cos and sin of the tokens of a batch. Threads, layers, queries and keys share a table.
pub struct RotaryTable(pub(crate) Handle<sys::gnomon_rotary_table>);

opaque!(Frequencies, RotaryTable);

impl Frequencies {
    /// The frequencies base^(-2i / R). Fails if the dimension is odd or 0, or the base is not
    /// positive and finite.
    pub fn new(spec: &RotarySpec) -> Result<Self> {
        let spec = spec.raw()?;
        // SAFETY: the spec lives during the call; the library checks its values.
        Handle::make(|out| unsafe { sys::gnomon_frequencies_create(&spec, out) })
            .map(Frequencies)
    }

    /// Frequencies from given values, `[R/2]`. `axes`: the position axis of each pair, `[R/2]`;
    /// `None`: axis 0. `table_scale`: a factor on cos and sin, 1 if the model has none. The base
    /// of the spec is not used. Fails if a length is not R/2, or a value is not finite.
    pub fn from_values(
        spec: &RotarySpec,
        inv_freq: &[f64],
        axes: Option<&[i32]>,
        table_scale: f64,
    ) -> Result<Self> {
        let spec = spec.raw()?;
        let inv_freq = Tensor::from(inv_freq);
        let axes = axes.map(Tensor::from);
        let (values, axes) = (inv_freq.raw(), raw_if(axes.as_ref()));
        // SAFETY: the tensors describe borrowed slices.
        Handle::make(|out| unsafe {
            sys::gnomon_frequencies_from(&spec, &values, pointer_if(&axes), table_scale, out)
        })
        .map(Frequencies)
    }

    /// R/2, the number of frequencies.
    pub fn count(&self) -> usize {
        // SAFETY: the handle is valid.
        unsafe { sys::gnomon_frequencies_count(self.0.get()) as usize }
    }

    /// The frequencies, `[R/2]`.
    pub fn values(&self) -> Result<Vec<f64>> {
        let mut values = vec![0.0; self.count()];
        let mut out = TensorMut::from(&mut values[..]);
        // SAFETY: the tensor describes the vector.
        check(unsafe { sys::gnomon_frequencies_get(self.0.get(), &out.raw()) })?;
        Ok(values)
    }
}

impl RotaryTable {
    /// The table at positions `[T]` (shared by the batch), `[B, T]` or `[A, B, T]`. Fails for other
    /// shapes, and if the frequencies have more axes than the positions.
    pub fn new(frequencies: &Frequencies, positions: &Tensor<'_, i64>) -> Result<Self> {
        let positions = positions.raw();
        // SAFETY: the tensor describes a borrowed slice.
        Handle::make(|out| unsafe {
            sys::gnomon_rotary_table_create(frequencies.0.get(), &positions, out)
        })
        .map(RotaryTable)
    }

    /// Copies the table to `cos` and `sin`, both `[B or 1, T, R/2]`. Fails for other shapes.
    pub fn get(
        &self,
        cos: &mut TensorMut<'_, f32>,
        sin: &mut TensorMut<'_, f32>,
    ) -> Result<()> {
        // SAFETY: the tensors describe slices that are borrowed mutably.
        check(unsafe { sys::gnomon_rotary_table_get(self.0.get(), &cos.raw(), &sin.raw()) })
    }
}

/// Computes cos and sin `[T, R/2]` at positions `[T]`, without a table, for kernels of the caller.
/// Each entry is rounded once. Fails for other shapes, and if the frequencies have several axes.
pub fn cos_sin<T: Float>(
    positions: &Tensor<'_, i64>,
    frequencies: &Frequencies,
    cos: &mut TensorMut<'_, T>,
    sin: &mut TensorMut<'_, T>,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices.
    check(unsafe {
        sys::gnomon_cos_sin(&positions.raw(), frequencies.0.get(), &cos.raw(), &sin.raw())
    })
}

/// Rotates q and k in place. Shapes: `[B, T, H, D]` or `[T, H, D]`, any strides, D contiguous. Fails
/// if a shape does not fit the table.
pub fn rotate<T: Float>(
    q: &mut TensorMut<'_, T>,
    k: Option<&mut TensorMut<'_, T>>,
    table: &RotaryTable,
    direction: Direction,
) -> Result<()> {
    let k = raw_mut_if(k);
    // SAFETY: the tensors describe slices that are borrowed mutably, so they do not overlap.
    check(unsafe {
        sys::gnomon_rotate(&q.raw(), pointer_if(&k), table.0.get(), direction as i32)
    })
}

/// Like [`rotate`], but writes the rotated x to `out`, which has the shape of x.
pub fn rotate_to<T: Float>(
    x: &Tensor<'_, T>,
    table: &RotaryTable,
    direction: Direction,
    out: &mut TensorMut<'_, T>,
) -> Result<()> {
    // SAFETY: the tensors describe borrowed slices that do not overlap.
    check(unsafe {
        sys::gnomon_rotate_to(&x.raw(), table.0.get(), direction as i32, &out.raw())
    })
}

/// Rotates q and k in place at positions, `[T]` or `[A, 1 or B, T]`, without a table: for a decoding
/// step. Shapes and errors as for [`rotate`].
pub fn rotate_at<T: Float>(
    q: &mut TensorMut<'_, T>,
    k: Option<&mut TensorMut<'_, T>>,
    positions: &Tensor<'_, i64>,
    frequencies: &Frequencies,
) -> Result<()> {
    let k = raw_mut_if(k);
    // SAFETY: as in `rotate`.
    check(unsafe {
        sys::gnomon_rotate_at(&q.raw(), pointer_if(&k), &positions.raw(), frequencies.0.get())
    })
}

/// Rotates new keys and writes them to `slot`, a part of a KV cache. `slot` has the shape of k,
/// and elements of its type; or 16-bit elements for `f32` keys; or `i8` with scales `[B, T, Hk]`.
/// Without a table, k is copied without rotation: use this for values.
pub fn append<T: Float, Slot: Element>(
    k: &Tensor<'_, T>,
    table: Option<&RotaryTable>,
    slot: &mut TensorMut<'_, Slot>,
    scales: Option<&mut TensorMut<'_, f32>>,
) -> Result<()> {
    let scales = raw_mut_if(scales);
    let table = table.map_or(null(), |table| table.0.get());
    // SAFETY: the tensors describe borrowed slices that do not overlap.
    check(unsafe { sys::gnomon_append(&k.raw(), table, &slot.raw(), pointer_if(&scales)) })
}

/// Moves cached keys `[B, S, Hk, D]` by `delta` positions, in place.
pub fn shift_keys<T: Float>(
    cached: &mut TensorMut<'_, T>,
    frequencies: &Frequencies,
    delta: i64,
) -> Result<()> {
    // SAFETY: the tensor describes a slice that is borrowed mutably.
    check(unsafe { sys::gnomon_shift_keys(&cached.raw(), frequencies.0.get(), delta) })
}
