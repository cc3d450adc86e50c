//! The plan of a layer: its mask, its softmax, and all places in which position enters.
use crate::element::Float;
use crate::error::{check, size, Result};
use crate::handle::{destroyed_by, opaque, Handle};
use crate::rotary::RotaryTable;
use crate::sys;
use crate::tensor::{pointer_if, raw_if, raw_mut_if, Tensor, TensorMut};
use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::null;

/// The keys that a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Keys at its own position and before.
    Causal = 1,
    /// All keys.
    Bidirectional = 2,
}

/// The mask of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The keys that a query sees.
    pub visibility: Visibility,
    /// The number of keys before the key of the first query, n after a cache of n tokens. `None`
    /// is refused unless there are as many keys as queries.
    pub offset: Option<usize>,
    /// The largest number of keys that a query sees before its own position; `None`: no limit.
    /// `sliding_window` w of a config is w - 1.
    pub left: Option<usize>,
    /// The largest number of keys that a query sees after its own position; `None`: no limit.
    pub right: Option<usize>,
}

impl Mask {
    /// Keys at the position of the query and before, of as many keys as queries.
    pub fn causal() -> Self {
        Mask { visibility: Visibility::Causal, offset: None, left: None, right: None }
    }

    /// The same with `cached` keys before the key of the first query.
    pub fn causal_after(cached: usize) -> Self {
        Mask { offset: Some(cached), ..Mask::causal() }
    }

    /// All keys.
    pub fn bidirectional() -> Self {
        Mask { visibility: Visibility::Bidirectional, ..Mask::causal() }
    }
}

/// The softmax of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Softmax<'a> {
    /// The factor on q . k; `None`: 1 / sqrt(D).
    pub scale: Option<f64>,
    /// The soft cap of the scores (Gemma 2).
    pub cap: Option<f64>,
    /// One attention sink for each head, `[H]` (gpt-oss). Copied.
    pub sinks: Option<&'a [f64]>,
}

destroyed_by! {
    gnomon_layer_plan, gnomon_layer_plan_destroy;
    gnomon_terms, gnomon_terms_destroy;
}

/// The plan of a layer. `'a` is the lifetime of a dense bias, which the plan borrows; a plan
/// without one borrows nothing.
pub struct LayerPlan<'a> {
    pub(crate) handle: Handle<sys::gnomon_layer_plan>,
    dense: PhantomData<&'a [f32]>,
}

/// Terms of tokens: the inputs of attention that depend on what the tokens hold, as the forget
/// gates of FoX.
pub struct Terms(pub(crate) Handle<sys::gnomon_terms>);

opaque!(LayerPlan<'_>, Terms);

fn limit(name: &str, value: Option<usize>) -> Result<i64> {
    value.map_or(Ok(-1), |value| size(name, value))
}

impl<'a> LayerPlan<'a> {
    /// A plan that adds no position.
    pub fn new(mask: Mask) -> Result<Self> {
        // SAFETY: the output is a valid pointer.
        let handle = Handle::make(|out| unsafe { sys::gnomon_layer_plan_create(out) })?;
        let mut plan = LayerPlan::from_handle(handle);
        plan.set_mask(mask)?;
        Ok(plan)
    }

    pub(crate) fn from_handle(handle: Handle<sys::gnomon_layer_plan>) -> Self {
        LayerPlan { handle, dense: PhantomData }
    }

    /// Sets the mask.
    pub fn set_mask(&mut self, mask: Mask) -> Result<()> {
        let (offset, left) = (limit("offset", mask.offset)?, limit("left", mask.left)?);
        let right = limit("right", mask.right)?;
        let plan = self.handle.get_mut();
        // SAFETY: the handle is valid and borrowed mutably, here and below.
        check(unsafe {
            sys::gnomon_layer_plan_set_mask(plan, mask.visibility as i32, offset, left, right)
        })
    }

    /// Sets the softmax.
    pub fn set_softmax(&mut self, softmax: Softmax<'_>) -> Result<()> {
        let scale = softmax.scale.unwrap_or(f64::NAN);
        let sinks = softmax.sinks.map(Tensor::from);
        let raw_sinks = raw_if(sinks.as_ref());
        check(unsafe {
            sys::gnomon_layer_plan_set_softmax(
                self.handle.get_mut(),
                scale,
                softmax.cap.unwrap_or(0.0),
                pointer_if(&raw_sinks),
            )
        })
    }

    /// Sets whether softmax weights of bfloat16 may be rounded to bfloat16 before they are
    /// multiplied by values, on processors that multiply bfloat16: faster, with an additional
    /// error of at most 2^-8 of the largest |v|. A new plan allows it.
    pub fn round_weights(&mut self, is_allowed: bool) -> Result<()> {
        let allowed = i32::from(is_allowed);
        check(unsafe { sys::gnomon_layer_plan_round_weights(self.handle.get_mut(), allowed) })
    }

    /// Sets the tables that rotate q and k inside [`attention`](crate::attention()); `None`: no
    /// rotation there. The plan shares the tables and does not copy them.
    pub fn set_rotary(
        &mut self,
        queries: Option<&RotaryTable>,
        keys: Option<&RotaryTable>,
    ) -> Result<()> {
        let pointer = |table: Option<&RotaryTable>| table.map_or(null(), |table| table.0.get());
        check(unsafe {
            sys::gnomon_layer_plan_set_rotary(
                self.handle.get_mut(),
                pointer(queries),
                pointer(keys),
            )
        })
    }

    /// Sets the bias -slopes\[h\] |distance|, one slope for each head (ALiBi). Copied.
    pub fn set_slopes(&mut self, slopes: &[f64]) -> Result<()> {
        let slopes = Tensor::from(slopes);
        check(unsafe {
            sys::gnomon_layer_plan_set_slopes(self.handle.get_mut(), &slopes.raw())
        })
    }

    /// Sets the bias strip\[h, position(key) - position(query) - min_distance\]. strip: `[H, N]`,
    /// copied.
    pub fn set_strip(&mut self, strip: &Tensor<'_, f64>, min_distance: i64) -> Result<()> {
        let plan = self.handle.get_mut();
        check(unsafe { sys::gnomon_layer_plan_set_strip(plan, &strip.raw(), min_distance) })
    }

    /// Sets a dense bias `[B, H, T, S]`, any strides. The plan borrows it:
    ///
    /// ```compile_fail,E0505
    /// # use gnomon::{LayerPlan, Mask, Tensor};
    /// let values = vec![0f32; 16];
    /// let mut plan = LayerPlan::new(Mask::bidirectional())?;
    /// plan.set_dense(&Tensor::new(&values, &[1, 1, 4, 4])?)?;
    /// drop(values);
    /// plan.set_slopes(&[1.0])?;
    /// # Ok::<(), gnomon::Error>(())
    /// ```
    pub fn set_dense(&mut self, bias: &Tensor<'a, f32>) -> Result<()> {
        check(unsafe { sys::gnomon_layer_plan_set_dense(self.handle.get_mut(), &bias.raw()) })
    }

    /// Sets positions, `[B or 1, T]` and `[B or 1, S]`, and sequences (for packing; -1: padding), of
    /// the same shapes; `None`: all tokens are in one sequence. Copied.
    pub fn set_positions(
        &mut self,
        query_ids: &Tensor<'_, i64>,
        query_sequences: Option<&Tensor<'_, i32>>,
        key_ids: &Tensor<'_, i64>,
        key_sequences: Option<&Tensor<'_, i32>>,
    ) -> Result<()> {
        let (of_queries, of_keys) = (raw_if(query_sequences), raw_if(key_sequences));
        check(unsafe {
            sys::gnomon_layer_plan_set_positions(
                self.handle.get_mut(),
                &query_ids.raw(),
                pointer_if(&of_queries),
                &key_ids.raw(),
                pointer_if(&of_keys),
            )
        })
    }

    /// Moves the rotation of q and k from [`attention`](crate::attention()) to
    /// [`prepare`](crate::prepare), so that rotated keys can be kept in a cache. A plan of PoPE
    /// is not changed.
    pub fn rotate_in_prepare(&mut self) -> Result<()> {
        check(unsafe { sys::gnomon_layer_plan_rotate_in_prepare(self.handle.get_mut()) })
    }

    /// Computes the dense bias of the plan, `[H, T, S]`, for queries at positions offset + t and
    /// keys at positions s.
    pub fn bias<T: Float>(&self, offset: usize, out: &mut TensorMut<'_, T>) -> Result<()> {
        let offset = size("offset", offset)?;
        check(unsafe { sys::gnomon_layer_plan_bias(self.handle.get(), offset, &out.raw()) })
    }
}

/// The ALiBi slopes of heads `first_head` to `first_head + count - 1` of `heads`. Fails if these
/// are not heads of the layer.
pub fn alibi_slopes(heads: usize, first_head: usize, count: usize) -> Result<Vec<f64>> {
    let (heads, first_head) = (size("heads", heads)?, size("first_head", first_head)?);
    let mut slopes = vec![0.0; count];
    let mut out = TensorMut::from(&mut slopes[..]);
    // SAFETY: the tensor describes the vector.
    check(unsafe { sys::gnomon_alibi_slopes(heads, first_head, &out.raw()) })?;
    Ok(slopes)
}

/// Adds the table of the plan to the embeddings x `[B, T, C]`, if the plan has one.
pub fn add_position<T: Float>(x: &mut TensorMut<'_, T>, plan: &LayerPlan<'_>) -> Result<()> {
    // SAFETY: the tensors of this function and of those below describe slices that are borrowed
    // mutably.
    check(unsafe { sys::gnomon_add_position(&x.raw(), plan.handle.get()) })
}

/// Changes, in place, the input x `[B, T, C]` of the projections to q and k, if the plan does so.
pub fn prepare_input<T: Float>(
    x: &mut TensorMut<'_, T>,
    plan: &LayerPlan<'_>,
    heads: usize,
) -> Result<()> {
    let heads = size("heads", heads)?;
    check(unsafe { sys::gnomon_prepare_input(&x.raw(), plan.handle.get(), heads) })
}

/// Applies the norms, rotations and scales of the plan to projected q `[B, T, H, D]`, k
/// `[B, T, Hk, D]` and v `[B, T, Hk, Dv]`, in place. Fails if a shape does not fit the plan.
pub fn prepare<T: Float>(
    q: &mut TensorMut<'_, T>,
    k: Option<&mut TensorMut<'_, T>>,
    v: Option<&mut TensorMut<'_, T>>,
    plan: &LayerPlan<'_>,
) -> Result<()> {
    let (k, v) = (raw_mut_if(k), raw_mut_if(v));
    check(unsafe {
        sys::gnomon_prepare(&q.raw(), pointer_if(&k), pointer_if(&v), plan.handle.get())
    })
}

/// Like [`prepare`], with the angles of the tokens, if the plan rotates by them here.
pub fn prepare_with<T: Float>(
    q: &mut TensorMut<'_, T>,
    k: Option<&mut TensorMut<'_, T>>,
    v: Option<&mut TensorMut<'_, T>>,
    plan: &LayerPlan<'_>,
    terms: &Terms,
) -> Result<()> {
    let (k, v) = (raw_mut_if(k), raw_mut_if(v));
    check(unsafe {
        sys::gnomon_prepare_with(
            &q.raw(),
            pointer_if(&k),
            pointer_if(&v),
            plan.handle.get(),
            terms.0.get(),
        )
    })
}

impl Terms {
    /// Terms without values.
    pub fn new() -> Result<Self> {
        // SAFETY: the output is a valid pointer.
        Handle::make(|out| unsafe { sys::gnomon_terms_create(out) }).map(Terms)
    }

    /// Sets the values of a term, for example "log_gates". Copied. Fails if the name is not that
    /// of a term.
    pub fn set(&mut self, name: &str, values: &Tensor<'_, f32>) -> Result<()> {
        let name = text("name", name)?;
        // SAFETY: the handle is borrowed mutably; the name ends with 0.
        check(unsafe { sys::gnomon_terms_set(self.0.get_mut(), name.as_ptr(), &values.raw()) })
    }
}

/// A string of C.
pub(crate) fn text(name: &str, value: &str) -> Result<CString> {
    match CString::new(value) {
        Ok(value) => Ok(value),
        Err(_) => {
            crate::Error::refuse(format_args!("{} must not contain the byte 0", name), "one")
        }
    }
}
