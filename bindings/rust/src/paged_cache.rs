//! Paged KV caches, and attention over sequences of different lengths.
use crate::attention::AttentionInput;
use crate::element::{Bf16, Element, Float, F16};
use crate::error::{check, size, Error, Result};
use crate::handle::{destroyed_by, Handle};
use crate::plan::LayerPlan;
use crate::rotary::{Frequencies, RotaryTable};
use crate::sys;
use crate::tensor::{pointer_if, raw_if, raw_mut_if, Tensor, TensorMut};
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::slice;

destroyed_by! { gnomon_paged_kv_cache, gnomon_paged_kv_cache_destroy; }

/// A type of the entries of a [`PagedKvCache`]: `f32`, [`F16`], [`Bf16`].
pub trait Cached: Float {
    #[doc(hidden)]
    const TYPE: sys::gnomon_cache_type;
}
impl Cached for f32 {
    const TYPE: sys::gnomon_cache_type = sys::GNOMON_CACHE_F32;
}
impl Cached for F16 {
    const TYPE: sys::gnomon_cache_type = sys::GNOMON_CACHE_F16;
}
impl Cached for Bf16 {
    const TYPE: sys::gnomon_cache_type = sys::GNOMON_CACHE_BF16;
}

/// The sizes of a [`PagedKvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedKvCacheSpec {
    /// P, the blocks of all sequences together.
    pub blocks: usize,
    /// The entries of a block.
    pub block_size: usize,
    /// Hk, the key heads.
    pub heads: usize,
    /// D, of keys.
    pub head_dim: usize,
    /// Dv, of values; 0: the values are the keys.
    pub value_dim: usize,
}

/// The keys and values of many sequences of one layer, in one pool of blocks. Sequences share
/// the blocks of a common prefix. `C` is the type of the entries.
pub struct PagedKvCache<C: Cached> {
    handle: Handle<sys::gnomon_paged_kv_cache>,
    entries: PhantomData<C>,
}

impl<C: Cached> fmt::Debug for PagedKvCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PagedKvCache { .. }")
    }
}

/// The elements and the shape of a tensor that the library gave; none of one without data.
///
/// # Safety
///
/// The tensor is valid for 'a.
unsafe fn elements<'a, T: Element>(from: &sys::gnomon_tensor) -> Result<(&'a [T], Vec<usize>)> {
    if from.data.is_null() || from.ndim < 1 {
        return Ok((&[], vec![0]));
    }
    let axes = from.ndim as usize;
    let extents = slice::from_raw_parts(from.shape, axes);
    let shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
    let bits = from.dtype.bits as usize;
    if from.dtype.code != T::CODE || bits != 8 * size_of::<T>() {
        return Error::refuse("a pool must have elements of its type", bits);
    }
    let mut count = 1;
    for axis in (0..axes).rev() {
        let stride =
            if from.strides.is_null() { count } else { *from.strides.add(axis) as usize };
        if shape[axis] > 1 && stride != count {
            return Error::refuse("a pool must be contiguous", stride);
        }
        count *= shape[axis];
    }
    let first = (from.data as *const u8).add(from.byte_offset as usize) as *const T;
    Ok((slice::from_raw_parts(first, count), shape))
}

fn empty() -> sys::gnomon_tensor {
    sys::gnomon_tensor {
        data: null_mut(),
        device: sys::gnomon_device { device_type: 1, device_id: 0 },
        ndim: 0,
        dtype: sys::gnomon_data_type { code: 0, bits: 0, lanes: 1 },
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    }
}

impl<C: Cached> PagedKvCache<C> {
    /// A cache without sequences. `frequencies`: those of the keys, copied; `None`: keys are not
    /// rotated. Fails if a size is 0 where it may not be, or does not fit in memory.
    pub fn new(spec: &PagedKvCacheSpec, frequencies: Option<&Frequencies>) -> Result<Self> {
        let spec = sys::gnomon_paged_kv_cache_spec {
            blocks: size("blocks", spec.blocks)?,
            block_size: size("block_size", spec.block_size)?,
            heads: size("heads", spec.heads)?,
            head_dim: size("head_dim", spec.head_dim)?,
            value_dim: size("value_dim", spec.value_dim)?,
            r#type: C::TYPE as i32,
            ..Default::default()
        };
        let frequencies = frequencies.map_or(null(), |frequencies| frequencies.0.get());
        // SAFETY: the spec lives during the call; the library checks its values.
        let handle = Handle::make(|out| unsafe {
            sys::gnomon_paged_kv_cache_create(&spec, frequencies, out)
        })?;
        Ok(PagedKvCache { handle, entries: PhantomData })
    }

    /// Starts a sequence without entries. Returns its number.
    pub fn start(&mut self) -> Result<i64> {
        let mut sequence = 0;
        // SAFETY: the handle is valid and borrowed mutably, here and below.
        check(unsafe {
            sys::gnomon_paged_kv_cache_start(self.handle.get_mut(), &mut sequence)
        })?;
        Ok(sequence)
    }

    /// Starts a sequence with the first `tokens` entries of another; `None`: all of them. Both
    /// hold the same blocks.
    pub fn fork(&mut self, sequence: i64, tokens: Option<usize>) -> Result<i64> {
        let tokens = tokens.map_or(Ok(-1), |tokens| size("tokens", tokens))?;
        let mut fork = 0;
        check(unsafe {
            sys::gnomon_paged_kv_cache_fork(self.handle.get_mut(), sequence, tokens, &mut fork)
        })?;
        Ok(fork)
    }

    /// Keeps the first `tokens` entries of a sequence.
    pub fn truncate(&mut self, sequence: i64, tokens: usize) -> Result<()> {
        let tokens = size("tokens", tokens)?;
        check(unsafe {
            sys::gnomon_paged_kv_cache_truncate(self.handle.get_mut(), sequence, tokens)
        })
    }

    /// Ends a sequence. Blocks that no other sequence holds become free.
    pub fn end(&mut self, sequence: i64) -> Result<()> {
        check(unsafe { sys::gnomon_paged_kv_cache_end(self.handle.get_mut(), sequence) })
    }

    /// The entries of a sequence.
    pub fn tokens(&self, sequence: i64) -> Result<usize> {
        let mut tokens = 0;
        check(unsafe {
            sys::gnomon_paged_kv_cache_tokens(
                self.handle.get(),
                sequence,
                &mut tokens,
                null_mut(),
            )
        })?;
        Ok(tokens as usize)
    }

    /// The blocks that no sequence holds.
    pub fn free_blocks(&self) -> usize {
        unsafe { sys::gnomon_paged_kv_cache_free_blocks(self.handle.get()) as usize }
    }

    /// Rotates new keys k `[rows, Hk, D]` and writes them after the last entry of each sequence;
    /// copies the values v `[rows, Hk, Dv]`. sequences: `[N]`, each number once. starts: `[N + 1]`,
    /// sequence n gets rows starts\[n\] to starts\[n + 1\] - 1; `None`: row n. `table`: the rows of
    /// the entries, shared between layers; `None`: computed here. If it fails with
    /// [`Status::InvalidArgument`](crate::Status), nothing has changed.
    pub fn append<T: Float>(
        &mut self,
        k: &Tensor<'_, T>,
        v: Option<&Tensor<'_, T>>,
        sequences: &[i64],
        starts: Option<&[i64]>,
        table: Option<&RotaryTable>,
    ) -> Result<()> {
        let (v, sequences) = (raw_if(v), Tensor::from(sequences));
        let starts = starts.map(Tensor::from);
        let raw_starts = raw_if(starts.as_ref());
        check(unsafe {
            sys::gnomon_paged_kv_cache_append(
                self.handle.get_mut(),
                &k.raw(),
                pointer_if(&v),
                &sequences.raw(),
                pointer_if(&raw_starts),
                null(),
                table.map_or(null(), |table| table.0.get()),
            )
        })
    }

    /// Computes attention of the queries of some sequences, q `[N, T, H, D]`, the last T entries
    /// of each, over all entries of the sequence. out: `[N, T, H, Dv]`. The mask of the plan must
    /// have the offset 0 or none.
    pub fn attention<T: Float>(
        &mut self,
        q: &Tensor<'_, T>,
        sequences: &[i64],
        plan: &LayerPlan<'_>,
        out: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        let sequences = Tensor::from(sequences);
        let (mut keys, mut values, mut table, mut lengths) =
            (empty(), empty(), empty(), empty());
        // SAFETY: the pool is borrowed until the cache is destroyed, its table until the next
        // call for it. This call ends before both, because `self` is borrowed mutably.
        unsafe {
            let cache = self.handle.get_mut();
            check(sys::gnomon_paged_kv_cache_tensors(
                cache,
                &mut keys,
                &mut values,
                null_mut(),
                null_mut(),
            ))?;
            check(sys::gnomon_paged_kv_cache_block_table(
                cache,
                &sequences.raw(),
                &mut table,
                &mut lengths,
            ))?;
            let (keys, key_shape) = elements::<C>(&keys)?;
            let (values, value_shape) = elements::<C>(&values)?;
            let (table, table_shape) = elements::<i32>(&table)?;
            let (lengths, _) = elements::<i64>(&lengths)?;
            let k = Tensor::new(keys, &key_shape)?;
            let v = if values.is_empty() { k } else { Tensor::new(values, &value_shape)? };
            let batch = RaggedBatch {
                key_lengths: Some(Tensor::from(lengths)),
                block_table: Some(Tensor::new(table, &table_shape)?),
                ..RaggedBatch::default()
            };
            attention_ragged(&AttentionInput::new(*q, k, v), &batch, plan, out, None)
        }
    }

    /// Rotates all keys to other frequencies.
    pub fn change_frequencies(&mut self, to: &Frequencies) -> Result<()> {
        check(unsafe {
            sys::gnomon_paged_kv_cache_change_frequencies(self.handle.get_mut(), to.0.get())
        })
    }
}

/// The rows of the sequences of one call. At most one of the query tensors, and of the key
/// tensors, is given; without one, all sequences have all rows of `[N, T, H, D]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RaggedBatch<'a> {
    /// `[N + 1]`: q is `[1, rows, H, D]`.
    pub query_starts: Option<Tensor<'a, i64>>,
    /// `[N]`: q is `[N, T, H, D]`.
    pub query_lengths: Option<Tensor<'a, i64>>,
    /// `[N + 1]`: k and v are `[1, rows, Hk, D]`.
    pub key_starts: Option<Tensor<'a, i64>>,
    /// `[N]`: k and v are `[N, S, Hk, D]`, or pages.
    pub key_lengths: Option<Tensor<'a, i64>>,
    /// `[N]`, the keys before the first query; `None`: the number of keys less that of queries.
    pub offsets: Option<Tensor<'a, i64>>,
    /// `[N, M]`: k and v are `[P, page, Hk, D]`.
    pub block_table: Option<Tensor<'a, i32>>,
}

/// Like [`attention`](crate::attention()), for sequences of different lengths. Rows of q outside
/// the sequences get 0. Fails for plans with parts other than a window, slopes or a strip, a cap,
/// sinks and a table that rotates queries.
pub fn attention_ragged<T: Float, K: Element>(
    input: &AttentionInput<'_, T, K>,
    batch: &RaggedBatch<'_>,
    plan: &LayerPlan<'_>,
    out: &mut TensorMut<'_, T>,
    lse: Option<&mut TensorMut<'_, T::Sum>>,
) -> Result<()> {
    let query_starts = raw_if(batch.query_starts.as_ref());
    let query_lengths = raw_if(batch.query_lengths.as_ref());
    let key_starts = raw_if(batch.key_starts.as_ref());
    let key_lengths = raw_if(batch.key_lengths.as_ref());
    let offsets = raw_if(batch.offsets.as_ref());
    let block_table = raw_if(batch.block_table.as_ref());
    let raw_batch = sys::gnomon_ragged_batch {
        query_starts: pointer_if(&query_starts),
        query_lengths: pointer_if(&query_lengths),
        key_starts: pointer_if(&key_starts),
        key_lengths: pointer_if(&key_lengths),
        offsets: pointer_if(&offsets),
        block_table: pointer_if(&block_table),
        ..Default::default()
    };
    let lse = raw_mut_if(lse);
    // SAFETY: the tensors describe borrowed slices; the library checks lengths and blocks.
    check(input.with_raw(|input| unsafe {
        sys::gnomon_attention_ragged(
            input,
            &raw_batch,
            plan.handle.get(),
            &out.raw(),
            pointer_if(&lse),
        )
    }))
}
