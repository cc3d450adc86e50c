//! Attention, its gradient and caches, beside loops in f64.
mod oracle;

use gnomon::sys;
use gnomon::{add_position, prepare, prepare_input, prepare_with, Terms};
use gnomon::{append, attention, attention_backward, attention_ragged, attention_weights};
use gnomon::{
    rotate, AttentionGradient, AttentionInput, Bf16, Context, Direction, Frequencies, F16,
};
use gnomon::{LayerPlan, Mask, PagedKvCache, PagedKvCacheSpec, Pairing, PlanGradient};
use gnomon::{RaggedBatch, RotarySpec, RotaryTable, Softmax, Tensor, TensorMut};
use oracle::{difference, doubles, drawn, floats, rotated, Sizes};

const OF: Sizes =
    Sizes { batch: 2, queries: 5, keys: 9, heads: 4, key_heads: 2, head_dim: 8, value_dim: 6 };
const OFFSET: usize = 4;

fn shapes(of: Sizes) -> [[usize; 4]; 4] {
    [
        [of.batch, of.queries, of.heads, of.head_dim],
        [of.batch, of.keys, of.key_heads, of.head_dim],
        [of.batch, of.keys, of.key_heads, of.value_dim],
        [of.batch, of.queries, of.heads, of.value_dim],
    ]
}

fn inputs(of: Sizes) -> [Vec<f64>; 3] {
    let [q, k, v, _] = shapes(of).map(|shape| shape.iter().product::<usize>());
    [drawn(1, q), drawn(2, k), drawn(3, v)]
}

/// The output and the log-sum-exp of the library, in f64.
fn attended(plan: &LayerPlan<'_>) -> (Vec<f64>, Vec<f64>) {
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(OF), shapes(OF));
    let mut out = vec![0.0; out_shape.iter().product()];
    let mut lse = vec![0.0; OF.batch * OF.heads * OF.queries];
    let input = AttentionInput::new(
        Tensor::new(&q, &q_shape).unwrap(),
        Tensor::new(&k, &k_shape).unwrap(),
        Tensor::new(&v, &v_shape).unwrap(),
    );
    let mut lse_view = TensorMut::new(&mut lse, &[OF.batch, OF.heads, OF.queries]).unwrap();
    let mut out_view = TensorMut::new(&mut out, &out_shape).unwrap();
    attention(&input, plan, &mut out_view, Some(&mut lse_view)).unwrap();
    (out, lse)
}

fn wanted(bias: impl Fn(usize, usize, usize) -> Option<f64>) -> (Vec<f64>, Vec<f64>) {
    let [q, k, v] = inputs(OF);
    oracle::attention(&q, &k, &v, OF, bias)
}

fn check(plan: &LayerPlan<'_>, bias: impl Fn(usize, usize, usize) -> Option<f64>) {
    let (got, wanted) = (attended(plan), wanted(bias));
    assert!(difference(&got.0, &wanted.0) < 1e-12);
    assert!(difference(&got.1, &wanted.1) < 1e-12);
}

#[test]
fn masks_and_biases_have_the_values_of_the_formula() {
    let distance = |t: usize, s: usize| (t + OFFSET) as f64 - s as f64;
    let causal = |t: usize, s: usize| (s <= t + OFFSET).then_some(0.0);
    let mut plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    check(&plan, |_, t, s| causal(t, s));

    plan.set_mask(Mask { left: Some(2), ..Mask::causal_after(OFFSET) }).unwrap();
    check(&plan, |_, t, s| causal(t, s).filter(|_| distance(t, s) <= 2.0));

    plan.set_mask(Mask::bidirectional()).unwrap();
    check(&plan, |_, _, _| Some(0.0));

    plan.set_mask(Mask::causal_after(OFFSET)).unwrap();
    let slopes = [0.5, 0.25, 0.125, 0.0625];
    plan.set_slopes(&slopes).unwrap();
    check(&plan, |h, t, s| Some(causal(t, s)? - slopes[h] * distance(t, s).abs()));

    let mut bias = vec![0f64; OF.heads * OF.queries * OF.keys];
    let shape = [OF.heads, OF.queries, OF.keys];
    plan.bias(OFFSET, &mut TensorMut::new(&mut bias, &shape).unwrap()).unwrap();
    assert_eq!(bias[OF.queries * OF.keys], -slopes[1] * 4.0);

    let strip = drawn(5, OF.heads * 9);
    plan.set_strip(&Tensor::new(&strip, &[OF.heads, 9]).unwrap(), -8).unwrap();
    check(&plan, |h, t, s| Some(causal(t, s)? + strip[h * 9 + (s + 8 - t - OFFSET).min(8)]));

    let dense = floats(&drawn(6, OF.batch * OF.heads * OF.queries * OF.keys));
    let one = &dense[..OF.heads * OF.queries * OF.keys];
    let strides = [0, OF.queries * OF.keys, OF.keys, 1];
    let shape = [OF.batch, OF.heads, OF.queries, OF.keys];
    plan.set_dense(&Tensor::with_strides(one, &shape, &strides).unwrap()).unwrap();
    check(&plan, |h, t, s| {
        Some(causal(t, s)? + f64::from(one[(h * OF.queries + t) * OF.keys + s]))
    });
}

/// The output of attention with a sink for each head.
fn with_sinks((mut out, lse): (Vec<f64>, Vec<f64>), sinks: &[f64]) -> Vec<f64> {
    for (i, x) in out.iter_mut().enumerate() {
        let (row, h) = (i / OF.value_dim, i / OF.value_dim % OF.heads);
        let (b, t) = (row / OF.heads / OF.queries, row / OF.heads % OF.queries);
        let sum = lse[(b * OF.heads + h) * OF.queries + t].exp();
        *x *= sum / (sum + f64::exp(sinks[h]));
    }
    out
}

#[test]
fn softmax_has_a_scale_a_cap_and_sinks() {
    let [mut q, k, v] = inputs(OF);
    let mut plan = LayerPlan::new(Mask::bidirectional()).unwrap();
    plan.set_softmax(Softmax { scale: Some(2.0), ..Softmax::default() }).unwrap();
    q.iter_mut().for_each(|x| *x *= 2.0 * 8f64.sqrt()); // the oracle divides by sqrt(D)
    let scaled = oracle::attention(&q, &k, &v, OF, |_, _, _| Some(0.0));
    assert!(difference(&attended(&plan).0, &scaled.0) < 1e-12);

    let sinks = [0.5, -1.0, 2.0, 0.0];
    plan.set_softmax(Softmax { sinks: Some(&sinks), ..Softmax::default() }).unwrap();
    let out = with_sinks(wanted(|_, _, _| Some(0.0)), &sinks);
    assert!(difference(&attended(&plan).0, &out) < 1e-12);

    plan.set_softmax(Softmax { cap: Some(1e9), ..Softmax::default() }).unwrap();
    check_close(&attended(&plan).0, &wanted(|_, _, _| Some(0.0)).0, 1e-7);
    plan.round_weights(false).unwrap();
}

fn check_close(got: &[f64], wanted: &[f64], bound: f64) {
    assert!(difference(got, wanted) < bound, "{}", difference(got, wanted));
}

#[test]
fn other_types_are_within_their_precision() {
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(OF), shapes(OF));
    let plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    let wanted = wanted(|_, t, s| (s <= t + OFFSET).then_some(0.0)).0;
    let count = out_shape.iter().product();

    let (q, k, v) = (floats(&q), floats(&k), floats(&v));
    let q = Tensor::new(&q, &q_shape).unwrap();
    let mut out = vec![0f32; count];
    let input = AttentionInput::new(
        q,
        Tensor::new(&k, &k_shape).unwrap(),
        Tensor::new(&v, &v_shape).unwrap(),
    );
    attention(&input, &plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None).unwrap();
    check_close(&doubles(&out), &wanted, 1e-6);

    // Keys and values of 16 bits.
    let k16: Vec<F16> = k.iter().map(|&x| x.into()).collect();
    let v16: Vec<F16> = v.iter().map(|&x| x.into()).collect();
    let input = AttentionInput::new(
        q,
        Tensor::new(&k16, &k_shape).unwrap(),
        Tensor::new(&v16, &v_shape).unwrap(),
    );
    attention(&input, &plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None).unwrap();
    check_close(&doubles(&out), &wanted, 3e-3);

    // int8 keys and values with a scale for each head vector.
    let quantized = |x: &[f32], size: usize| {
        let scales: Vec<f32> = x
            .chunks(size)
            .map(|row| row.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0)
            .collect();
        let bytes = x.iter().enumerate().map(|(i, x)| (x / scales[i / size]).round() as i8);
        (bytes.collect::<Vec<i8>>(), scales)
    };
    let (k8, k_scales) = quantized(&k, OF.head_dim);
    let (v8, v_scales) = quantized(&v, OF.value_dim);
    let input = AttentionInput {
        k_scales: Some(Tensor::new(&k_scales, &k_shape[..3]).unwrap()),
        v_scales: Some(Tensor::new(&v_scales, &v_shape[..3]).unwrap()),
        ..AttentionInput::new(
            q,
            Tensor::new(&k8, &k_shape).unwrap(),
            Tensor::new(&v8, &v_shape).unwrap(),
        )
    };
    attention(&input, &plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None).unwrap();
    check_close(&doubles(&out), &wanted, 2e-2);

    let brain = |x: &[f32]| x.iter().map(|&x| Bf16::from(x)).collect::<Vec<Bf16>>();
    let (q16, k16, v16) = (brain(&floats(&inputs(OF)[0])), brain(&k), brain(&v));
    let mut out = vec![Bf16(0); count];
    let input = AttentionInput::new(
        Tensor::new(&q16, &q_shape).unwrap(),
        Tensor::new(&k16, &k_shape).unwrap(),
        Tensor::new(&v16, &v_shape).unwrap(),
    );
    attention(&input, &plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None).unwrap();
    let got: Vec<f64> = out.iter().map(|&x| f64::from(f32::from(x))).collect();
    check_close(&got, &wanted, 3e-2);
}

#[test]
fn weights_multiply_the_values() {
    let ([q, k, v], [q_shape, k_shape, v_shape, _]) = (inputs(OF), shapes(OF));
    let plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    let input = AttentionInput::new(
        Tensor::new(&q, &q_shape).unwrap(),
        Tensor::new(&k, &k_shape).unwrap(),
        Tensor::new(&v, &v_shape).unwrap(),
    );
    let shape = [OF.batch, OF.heads, OF.queries, OF.keys];
    let mut weights = vec![0f64; shape.iter().product()];
    let mut weights_view = TensorMut::new(&mut weights, &shape).unwrap();
    attention_weights(&input, &plan, Some(&mut weights_view), None).unwrap();
    let wanted = wanted(|_, t, s| (s <= t + OFFSET).then_some(0.0)).0;
    for (i, &x) in wanted.iter().enumerate() {
        let (row, d) = (i / OF.value_dim, i % OF.value_dim);
        let (h, t, b) =
            (row % OF.heads, row / OF.heads % OF.queries, row / OF.heads / OF.queries);
        let sum: f64 = (0..OF.keys)
            .map(|s| {
                let value = ((b * OF.keys + s) * OF.key_heads + h / 2) * OF.value_dim + d;
                weights[((b * OF.heads + h) * OF.queries + t) * OF.keys + s] * v[value]
            })
            .sum();
        assert!((x - sum).abs() < 1e-12);
    }
}

/// The context that this thread uses.
fn used_context() -> *mut sys::gnomon_context {
    // SAFETY: the context of the thread is put back at once.
    unsafe {
        let used = sys::gnomon_context_use(std::ptr::null_mut());
        sys::gnomon_context_use(used);
        used
    }
}

#[test]
fn contexts_keep_their_memory_and_are_restored() {
    let plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    let wanted = attended(&plan);
    let (outer, inner) = (Context::new(0).unwrap(), Context::new(2).unwrap());
    assert_eq!(outer.kept_bytes(), 0);
    outer.enter(|| {
        let used = used_context();
        inner.enter(|| {
            assert_ne!(used_context(), used);
            assert_eq!(attended(&plan), wanted);
        });
        let panic =
            std::panic::catch_unwind(|| inner.enter(|| std::panic::resume_unwind(Box::new(1))));
        assert!(panic.is_err());
        assert_eq!(used_context(), used);
        assert_eq!(attended(&plan), wanted);
    });
    assert!(used_context().is_null());
    assert!(outer.kept_bytes() > 0 && inner.kept_bytes() > 0);
    outer.release();
    assert_eq!(outer.kept_bytes(), 0);
    assert!(Context::new(-1).is_err());
}

/// The derivative of sum(out_grad * out), by differences of the oracle.
#[test]
fn gradients_are_those_of_the_oracle() {
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(OF), shapes(OF));
    let slopes = [0.5, 0.25, 0.125, 0.0625];
    let mut plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    plan.set_slopes(&slopes).unwrap();
    let (out, lse) = attended(&plan);
    let out_grad = drawn(7, out.len());
    let loss = |q: &[f64], k: &[f64], v: &[f64], slopes: &[f64]| -> f64 {
        let distance = |t: usize, s: usize| ((t + OFFSET) as f64 - s as f64).abs();
        let bias = |h: usize, t, s| (s <= t + OFFSET).then(|| -slopes[h] * distance(t, s));
        let out = oracle::attention(q, k, v, OF, bias).0;
        out.iter().zip(&out_grad).map(|(a, b)| a * b).sum()
    };

    let mut grads = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]];
    let mut of_plan = PlanGradient::new().unwrap();
    {
        let input = AttentionInput::new(
            Tensor::new(&q, &q_shape).unwrap(),
            Tensor::new(&k, &k_shape).unwrap(),
            Tensor::new(&v, &v_shape).unwrap(),
        );
        let [q, k, v] = &mut grads;
        let mut gradient = AttentionGradient {
            plan: Some(&mut of_plan),
            ..AttentionGradient::new(
                TensorMut::new(q, &q_shape).unwrap(),
                TensorMut::new(k, &k_shape).unwrap(),
                TensorMut::new(v, &v_shape).unwrap(),
            )
        };
        attention_backward(
            &input,
            &plan,
            &Tensor::new(&out, &out_shape).unwrap(),
            &Tensor::new(&lse, &[OF.batch, OF.heads, OF.queries]).unwrap(),
            &Tensor::new(&out_grad, &out_shape).unwrap(),
            &mut gradient,
        )
        .unwrap();
    }
    let mut slopes_grad = [0.0; 4];
    of_plan.bias(&mut TensorMut::from(&mut slopes_grad[..])).unwrap();

    let step = 1e-5;
    let derivative = |x: &[f64], i: usize, loss: &dyn Fn(&[f64]) -> f64| {
        let at = |delta: f64| {
            let mut x = x.to_vec();
            x[i] += delta;
            loss(&x)
        };
        (at(step) - at(-step)) / (2.0 * step)
    };
    for i in (0..k.len()).step_by(7) {
        let of_q = derivative(&q, i, &|q| loss(q, &k, &v, &slopes));
        let of_k = derivative(&k, i, &|k| loss(&q, k, &v, &slopes));
        assert!((grads[0][i] - of_q).abs() < 1e-8 && (grads[1][i] - of_k).abs() < 1e-8);
    }
    for i in (0..v.len()).step_by(7) {
        let of_v = derivative(&v, i, &|v| loss(&q, &k, v, &slopes));
        assert!((grads[2][i] - of_v).abs() < 1e-8);
    }
    for (h, got) in slopes_grad.iter().enumerate() {
        let of_slope = derivative(&slopes, h, &|slopes| loss(&q, &k, &v, slopes));
        assert!((got - of_slope).abs() < 1e-8);
    }
}

#[test]
fn sinks_and_a_dense_bias_have_gradients() {
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(OF), shapes(OF));
    let (sinks, shape) = ([0.5, -1.0, 2.0, 0.0], [OF.batch, OF.heads, OF.queries, OF.keys]);
    let dense = floats(&drawn(6, shape.iter().product()));
    let mut plan = LayerPlan::new(Mask::bidirectional()).unwrap();
    plan.set_softmax(Softmax { sinks: Some(&sinks), ..Softmax::default() }).unwrap();
    plan.set_dense(&Tensor::new(&dense, &shape).unwrap()).unwrap();
    let (out, lse) = attended(&plan);
    let out_grad = drawn(7, out.len());

    let mut grads = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]];
    let (mut sinks_grad, mut dense_grad) = ([0.0; 4], vec![0f32; dense.len()]);
    {
        let input = AttentionInput::new(
            Tensor::new(&q, &q_shape).unwrap(),
            Tensor::new(&k, &k_shape).unwrap(),
            Tensor::new(&v, &v_shape).unwrap(),
        );
        let [q, k, v] = &mut grads;
        let mut gradient = AttentionGradient {
            sinks: Some(TensorMut::from(&mut sinks_grad[..])),
            dense: Some(TensorMut::new(&mut dense_grad, &shape).unwrap()),
            ..AttentionGradient::new(
                TensorMut::new(q, &q_shape).unwrap(),
                TensorMut::new(k, &k_shape).unwrap(),
                TensorMut::new(v, &v_shape).unwrap(),
            )
        };
        attention_backward(
            &input,
            &plan,
            &Tensor::new(&out, &out_shape).unwrap(),
            &Tensor::new(&lse, &[OF.batch, OF.heads, OF.queries]).unwrap(),
            &Tensor::new(&out_grad, &out_shape).unwrap(),
            &mut gradient,
        )
        .unwrap();
    }
    // The bias of the oracle is the same for all batch rows, and so is its change.
    let one = OF.heads * OF.queries * OF.keys;
    let loss = |of_sinks: &[f64], of_dense: (usize, f64)| -> f64 {
        let mut sum = 0.0;
        for b in 0..OF.batch {
            let bias = |h: usize, t: usize, s: usize| {
                let at = b * one + (h * OF.queries + t) * OF.keys + s;
                let change = if at == of_dense.0 { of_dense.1 } else { 0.0 };
                Some(f64::from(dense[at]) + change)
            };
            let out = with_sinks(oracle::attention(&q, &k, &v, OF, bias), of_sinks);
            let rows = out.len() / OF.batch * b..out.len() / OF.batch * (b + 1);
            let products = out[rows.clone()].iter().zip(&out_grad[rows]).map(|(a, b)| a * b);
            sum += products.sum::<f64>();
        }
        sum
    };
    let step = 1e-5;
    for h in 0..OF.heads {
        let at = |delta: f64| {
            let mut sinks = sinks;
            sinks[h] += delta;
            loss(&sinks, (0, 0.0))
        };
        assert!((sinks_grad[h] - (at(step) - at(-step)) / (2.0 * step)).abs() < 1e-8);
    }
    for i in (0..dense.len()).step_by(37) {
        let wanted = (loss(&sinks, (i, step)) - loss(&sinks, (i, -step))) / (2.0 * step);
        assert!((f64::from(dense_grad[i]) - wanted).abs() < 1e-6);
    }
}

#[test]
fn plans_rotate_before_and_in_attention() {
    let of = Sizes { batch: 1, queries: 6, keys: 6, ..OF };
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(of), shapes(of));
    let frequencies = Frequencies::new(&RotarySpec::new(8, Pairing::Halves)).unwrap();
    let ids: Vec<i64> = (0..6).collect();
    let table = RotaryTable::new(&frequencies, &Tensor::from(&ids[..])).unwrap();
    let inv_freq = frequencies.values().unwrap();
    let pair = |i| (i, i + 4);
    let q_wanted = rotated(&q, of.heads, 8, &ids, &inv_freq, pair);
    let k_wanted = rotated(&k, of.key_heads, 8, &ids, &inv_freq, pair);
    let causal = |_, t, s| (s <= t).then_some(0.0);
    let wanted = oracle::attention(&q_wanted, &k_wanted, &v, of, causal).0;

    let mut plan = LayerPlan::new(Mask::causal()).unwrap();
    plan.set_rotary(Some(&table), Some(&table)).unwrap();
    drop(table); // the plan shares it
    let attend = |plan: &LayerPlan<'_>, q: &[f64], k: &[f64]| {
        let mut out = vec![0.0; wanted.len()];
        let input = AttentionInput::new(
            Tensor::new(q, &q_shape).unwrap(),
            Tensor::new(k, &k_shape).unwrap(),
            Tensor::new(&v, &v_shape).unwrap(),
        );
        attention(&input, plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None)
            .unwrap();
        out
    };
    check_close(&attend(&plan, &q, &k), &wanted, 1e-6);

    plan.rotate_in_prepare().unwrap();
    let (mut q, mut k) = (q, k);
    let mut k_view = TensorMut::new(&mut k, &k_shape).unwrap();
    prepare(&mut TensorMut::new(&mut q, &q_shape).unwrap(), Some(&mut k_view), None, &plan)
        .unwrap();
    check_close(&q, &q_wanted, 4e-7);
    check_close(&attend(&plan, &q, &k), &wanted, 1e-6);

    // A plan without a table and without terms changes nothing.
    let before = q.clone();
    let terms = Terms::new().unwrap();
    let empty = LayerPlan::new(Mask::causal()).unwrap();
    prepare_with(&mut TensorMut::new(&mut q, &q_shape).unwrap(), None, None, &empty, &terms)
        .unwrap();
    let mut rows = TensorMut::new(&mut q, &[1, 6, 32]).unwrap();
    add_position(&mut rows, &empty).unwrap();
    prepare_input(&mut rows, &empty, 4).unwrap();
    assert_eq!(q, before);
}

#[test]
fn packed_sequences_do_not_see_each_other() {
    let of = Sizes { batch: 1, queries: 6, keys: 6, ..OF };
    let ([q, k, v], [q_shape, k_shape, v_shape, out_shape]) = (inputs(of), shapes(of));
    let ids = [0i64, 1, 2, 0, 1, 2];
    let sequences = [0i32, 0, 0, 1, 1, 1];
    let (ids, sequences) =
        (Tensor::new(&ids, &[1, 6]).unwrap(), Tensor::new(&sequences, &[1, 6]).unwrap());
    let mut plan = LayerPlan::new(Mask::causal()).unwrap();
    plan.set_positions(&ids, Some(&sequences), &ids, Some(&sequences)).unwrap();
    let mut out = vec![0.0; out_shape.iter().product()];
    let input = AttentionInput::new(
        Tensor::new(&q, &q_shape).unwrap(),
        Tensor::new(&k, &k_shape).unwrap(),
        Tensor::new(&v, &v_shape).unwrap(),
    );
    attention(&input, &plan, &mut TensorMut::new(&mut out, &out_shape).unwrap(), None).unwrap();
    let bias = |_, t: usize, s: usize| (s <= t && t / 3 == s / 3).then_some(0.0);
    check_close(&out, &oracle::attention(&q, &k, &v, of, bias).0, 1e-12);

    // The same as a ragged batch.
    let starts = [0i64, 3, 6];
    let batch = RaggedBatch {
        query_starts: Some(Tensor::from(&starts[..])),
        key_starts: Some(Tensor::from(&starts[..])),
        ..RaggedBatch::default()
    };
    let mut ragged = vec![0.0; out.len()];
    let mut view = TensorMut::new(&mut ragged, &out_shape).unwrap();
    attention_ragged(&input, &batch, &LayerPlan::new(Mask::causal()).unwrap(), &mut view, None)
        .unwrap();
    check_close(&ragged, &out, 1e-12);
}

#[test]
fn steps_over_caches_equal_one_pass() {
    let of = Sizes { batch: 1, queries: 10, keys: 10, value_dim: 8, ..OF };
    let ([q, k, v], [q_shape, k_shape, v_shape, _]) = (inputs(of), shapes(of));
    let frequencies = Frequencies::new(&RotarySpec::new(8, Pairing::Halves)).unwrap();
    let inv_freq = frequencies.values().unwrap();
    let ids: Vec<i64> = (0..10).collect();
    let (q_rotated, k_rotated) = (
        rotated(&q, of.heads, 8, &ids, &inv_freq, |i| (i, i + 4)),
        rotated(&k, of.key_heads, 8, &ids, &inv_freq, |i| (i, i + 4)),
    );
    let causal = |_, t, s| (s <= t).then_some(0.0);
    let wanted = oracle::attention(&q_rotated, &k_rotated, &v, of, causal).0;

    let mut q = floats(&q);
    let (k, v) = (floats(&k), floats(&v));
    let table = RotaryTable::new(&frequencies, &Tensor::from(&ids[..])).unwrap();
    let mut queries = TensorMut::new(&mut q, &q_shape).unwrap();
    rotate(&mut queries, None, &table, Direction::Forward).unwrap();
    let keys = Tensor::new(&k, &k_shape).unwrap();
    let values = Tensor::new(&v, &v_shape).unwrap();

    let mut caches = [vec![0f32; 16 * 16], vec![0f32; 16 * 16]];
    let [key_cache, value_cache] = &mut caches;
    let cache_shape = [1, 16, 2, 8];
    let mut key_cache = TensorMut::new(key_cache, &cache_shape).unwrap();
    let mut value_cache = TensorMut::new(value_cache, &cache_shape).unwrap();
    let spec =
        PagedKvCacheSpec { blocks: 4, block_size: 4, heads: 2, head_dim: 8, value_dim: 8 };
    let mut paged = PagedKvCache::<f32>::new(&spec, Some(&frequencies)).unwrap();
    let first = paged.start().unwrap();
    let mut past = 0;
    for count in [6, 1, 1, 2] {
        let now = past..past + count;
        let step: Vec<i64> = now.clone().map(|t| t as i64).collect();
        let table = RotaryTable::new(&frequencies, &Tensor::from(&step[..])).unwrap();
        let k = keys.narrow(1, now.clone()).unwrap();
        let v = values.narrow(1, now.clone()).unwrap();
        append(&k, Some(&table), &mut key_cache.narrow(1, now.clone()).unwrap(), None).unwrap();
        append(&v, None, &mut value_cache.narrow(1, now.clone()).unwrap(), None).unwrap();
        let mut out = vec![0f32; count * 32];
        let input = AttentionInput::new(
            queries.as_tensor().narrow(1, now.clone()).unwrap(),
            key_cache.as_tensor().narrow(1, 0..now.end).unwrap(),
            value_cache.as_tensor().narrow(1, 0..now.end).unwrap(),
        );
        let mut view = TensorMut::new(&mut out, &[1, count, 4, 8]).unwrap();
        attention(&input, &LayerPlan::new(Mask::causal_after(past)).unwrap(), &mut view, None)
            .unwrap();
        check_close(&doubles(&out), &wanted[past * 32..now.end * 32], 1e-6);

        // The same with blocks.
        let rows = &k_rows(&k, count);
        let new_keys = Tensor::new(rows, &[count, 2, 8]).unwrap();
        let rows = &v_rows(&v, count);
        let new_values = Tensor::new(rows, &[count, 2, 8]).unwrap();
        let starts = [0, count as i64];
        paged.append(&new_keys, Some(&new_values), &[first], Some(&starts), None).unwrap();
        let plan = LayerPlan::new(Mask::causal()).unwrap();
        let mut out = vec![0f32; count * 32];
        let mut view = TensorMut::new(&mut out, &[1, count, 4, 8]).unwrap();
        paged.attention(&input.q, &[first], &plan, &mut view).unwrap();
        check_close(&doubles(&out), &wanted[past * 32..now.end * 32], 1e-6);
        past = now.end;
    }
    assert_eq!((paged.tokens(first).unwrap(), paged.free_blocks()), (10, 1));
    let fork = paged.fork(first, Some(8)).unwrap();
    assert_eq!((paged.tokens(fork).unwrap(), paged.free_blocks()), (8, 1));
    paged.truncate(first, 4).unwrap();
    paged.change_frequencies(&frequencies).unwrap();
    paged.end(first).unwrap();
    paged.end(fork).unwrap();
    assert_eq!(paged.free_blocks(), 4);
}

#[test]
fn a_paged_cache_of_keys_has_them_as_values() {
    let of = Sizes { batch: 1, queries: 3, keys: 3, value_dim: 8, ..OF };
    let ([q, k, _], [q_shape, ..]) = (inputs(of), shapes(of));
    let causal = |_, t, s| (s <= t).then_some(0.0);
    let wanted = oracle::attention(&q, &k, &k, of, causal).0;
    let spec =
        PagedKvCacheSpec { blocks: 2, block_size: 2, heads: 2, head_dim: 8, value_dim: 0 };
    let mut paged = PagedKvCache::<f32>::new(&spec, None).unwrap();
    let sequence = paged.start().unwrap();
    let (q, k) = (floats(&q), floats(&k));
    let keys = Tensor::new(&k, &[3, 2, 8]).unwrap();
    paged.append(&keys, None, &[sequence], Some(&[0, 3]), None).unwrap();
    let mut out = vec![0f32; q.len()];
    let mut view = TensorMut::new(&mut out, &q_shape).unwrap();
    let plan = LayerPlan::new(Mask::causal()).unwrap();
    let queries = Tensor::new(&q, &q_shape).unwrap();
    paged.attention(&queries, &[sequence], &plan, &mut view).unwrap();
    assert!(paged.attention(&queries, &[sequence + 1], &plan, &mut view).is_err());
    check_close(&doubles(&out), &wanted, 1e-6);
}

/// The elements of a narrowed tensor of the test above, whose rows are contiguous.
fn k_rows(k: &Tensor<'_, f32>, count: usize) -> Vec<f32> {
    let mut rows = vec![0f32; count * 16];
    append(k, None, &mut TensorMut::new(&mut rows, &[1, count, 2, 8]).unwrap(), None).unwrap();
    rows
}
use k_rows as v_rows;

#[test]
fn threads_share_a_plan() {
    let plan = LayerPlan::new(Mask::causal_after(OFFSET)).unwrap();
    let wanted = attended(&plan);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| attended(&plan))).collect();
        for run in runs {
            assert_eq!(run.join().unwrap(), wanted);
        }
    });
}
