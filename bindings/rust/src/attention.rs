//! Attention, its gradient, and its weights.
use crate::element::{Element, Float};
use crate::error::{check, Result};
use crate::handle::{destroyed_by, opaque, Handle};
use crate::plan::{LayerPlan, Terms};
use crate::sys;
use crate::tensor::{pointer_if, raw_if, raw_mut_if, Tensor, TensorMut};
use std::ptr::{null, null_mut};

/// The inputs of attention. `K` is the type of keys and values: that of queries; [`F16`] or
/// [`Bf16`] for `f32` queries; `i8` or [`E4m3`] with scales.
///
/// [`F16`]: crate::F16
/// [`Bf16`]: crate::Bf16
/// [`E4m3`]: crate::E4m3
#[derive(Clone, Copy, Debug)]
pub struct AttentionInput<'a, T: Float, K: Element = T> {
    /// Queries, `[B, T, H, D]`.
    pub q: Tensor<'a, T>,
    /// Keys, `[B, S, Hk, D]`.
    pub k: Tensor<'a, K>,
    /// Values, `[B, S, Hk, Dv]`.
    pub v: Tensor<'a, K>,
    /// Scales `[B, S, Hk]` of `i8` keys, `[1]` or `[Hk]` of `E4m3` keys.
    pub k_scales: Option<Tensor<'a, f32>>,
    /// Scales of values.
    pub v_scales: Option<Tensor<'a, f32>>,
    /// A factor on the bias, `[B or 1, H, T]`.
    pub gates: Option<Tensor<'a, f32>>,
    /// Terms of the tokens, if the plan depends on what tokens hold.
    pub terms: Option<&'a Terms>,
}

impl<'a, T: Float, K: Element> AttentionInput<'a, T, K> {
    /// Queries, keys and values without scales, gates and terms.
    pub fn new(q: Tensor<'a, T>, k: Tensor<'a, K>, v: Tensor<'a, K>) -> Self {
        AttentionInput { q, k, v, k_scales: None, v_scales: None, gates: None, terms: None }
    }

    /// Calls `body` with the input of the C API.
    pub(crate) fn with_raw<R>(
        &self,
        body: impl FnOnce(&sys::gnomon_attention_input) -> R,
    ) -> R {
        let (q, k, v) = (self.q.raw(), self.k.raw(), self.v.raw());
        let k_scales = raw_if(self.k_scales.as_ref());
        let v_scales = raw_if(self.v_scales.as_ref());
        let gates = raw_if(self.gates.as_ref());
        body(&sys::gnomon_attention_input {
            q: &q,
            k: &k,
            v: &v,
            k_scales: pointer_if(&k_scales),
            v_scales: pointer_if(&v_scales),
            gates: pointer_if(&gates),
            terms: self.terms.map_or(null(), |terms| terms.0.get()),
            ..Default::default()
        })
    }
}

/// Computes softmax attention. out: `[B, T, H, Dv]`. lse: the log-sum-exp of the scores,
/// `[B, H, T]`, which [`attention_backward`] requires. Fails if shapes do not fit each other or
/// the plan. A row that sees no key is 0.
pub fn attention<T: Float, K: Element>(
    input: &AttentionInput<'_, T, K>,
    plan: &LayerPlan<'_>,
    out: &mut TensorMut<'_, T>,
    lse: Option<&mut TensorMut<'_, T::Sum>>,
) -> Result<()> {
    let lse = raw_mut_if(lse);
    // SAFETY: the tensors of this function and of those below describe borrowed slices, and
    // outputs overlap no other tensor.
    check(input.with_raw(|input| unsafe {
        sys::gnomon_attention(input, plan.handle.get(), &out.raw(), pointer_if(&lse))
    }))
}

/// Computes the weights and the scores of [`attention`] as matrices `[B, H, T, S]`. Each is
/// computed in `f64` and rounded once. A score includes scale and bias, and is -infinity for a
/// key that the query does not see.
pub fn attention_weights<T: Float, K: Element, M: Float>(
    input: &AttentionInput<'_, T, K>,
    plan: &LayerPlan<'_>,
    weights: Option<&mut TensorMut<'_, M>>,
    scores: Option<&mut TensorMut<'_, M>>,
) -> Result<()> {
    let (weights, scores) = (raw_mut_if(weights), raw_mut_if(scores));
    check(input.with_raw(|input| unsafe {
        sys::gnomon_attention_weights(
            input,
            plan.handle.get(),
            pointer_if(&weights),
            pointer_if(&scores),
        )
    }))
}

destroyed_by! { gnomon_plan_gradient, gnomon_plan_gradient_destroy; }

/// Gradients of the parameters that a plan holds: the bias and the relative vectors.
pub struct PlanGradient(pub(crate) Handle<sys::gnomon_plan_gradient>);

opaque!(PlanGradient);

impl PlanGradient {
    /// A gradient of 0.
    pub fn new() -> Result<Self> {
        // SAFETY: the output is a valid pointer.
        Handle::make(|out| unsafe { sys::gnomon_plan_gradient_create(out) }).map(PlanGradient)
    }

    /// Copies the gradient of the bias: `[H]` for slopes, `[H, N]` for a strip.
    pub fn bias(&self, out: &mut TensorMut<'_, f64>) -> Result<()> {
        // SAFETY: the tensor describes a slice that is borrowed mutably.
        check(unsafe { sys::gnomon_plan_gradient_bias(self.0.get(), &out.raw()) })
    }
}

/// The outputs of [`attention_backward`].
#[derive(Debug)]
pub struct AttentionGradient<'a, T: Float> {
    /// The gradient of the queries, `[B, T, H, D]`; overwritten.
    pub q: TensorMut<'a, T>,
    /// The gradient of the keys, `[B, S, Hk, D]`; overwritten.
    pub k: TensorMut<'a, T>,
    /// The gradient of the values, `[B, S, Hk, Dv]`; overwritten.
    pub v: TensorMut<'a, T>,
    /// The gradient of the parameters of the plan.
    pub plan: Option<&'a mut PlanGradient>,
    /// The gradient of a dense bias, `[B, H, T, S]`.
    pub dense: Option<TensorMut<'a, f32>>,
    /// The gradient of the gates, `[B, H, T]`.
    pub gates: Option<TensorMut<'a, f32>>,
    /// The gradient of the sinks, `[H]`, contiguous.
    pub sinks: Option<TensorMut<'a, f64>>,
}

impl<'a, T: Float> AttentionGradient<'a, T> {
    /// The gradients of queries, keys and values.
    pub fn new(q: TensorMut<'a, T>, k: TensorMut<'a, T>, v: TensorMut<'a, T>) -> Self {
        AttentionGradient { q, k, v, plan: None, dense: None, gates: None, sinks: None }
    }
}

/// Computes the gradient of [`attention`]. `out` and `lse` are its outputs, `out_grad` is the
/// gradient of `out`. Fails for a plan that rotates the output, and if shapes do not fit.
pub fn attention_backward<T: Float>(
    input: &AttentionInput<'_, T>,
    plan: &LayerPlan<'_>,
    out: &Tensor<'_, T>,
    lse: &Tensor<'_, T::Sum>,
    out_grad: &Tensor<'_, T>,
    gradient: &mut AttentionGradient<'_, T>,
) -> Result<()> {
    let (q, k, v) = (gradient.q.raw(), gradient.k.raw(), gradient.v.raw());
    let dense = raw_mut_if(gradient.dense.as_mut());
    let gates = raw_mut_if(gradient.gates.as_mut());
    let sinks = raw_mut_if(gradient.sinks.as_mut());
    let gradient = sys::gnomon_attention_gradient {
        q: &q,
        k: &k,
        v: &v,
        plan: gradient.plan.as_mut().map_or(null_mut(), |plan| plan.0.get_mut()),
        dense: pointer_if(&dense),
        gates: pointer_if(&gates),
        sinks: pointer_if(&sinks),
        ..Default::default()
    };
    check(input.with_raw(|input| unsafe {
        sys::gnomon_attention_backward(
            input,
            plan.handle.get(),
            &out.raw(),
            &lse.raw(),
            &out_grad.raw(),
            &gradient,
        )
    }))
}
