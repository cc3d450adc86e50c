//! Times of the crate beside plain loops and beside calls of the C functions.
//!
//! `cargo bench`: milliseconds or nanoseconds, the least of some runs, on one thread.
use gnomon::{attention, normal, rotate, set_threads, sys, AttentionInput, Direction};
use gnomon::{Frequencies, LayerPlan, Mask, Pairing, Result, RotarySpec, RotaryTable};
use gnomon::{Tensor, TensorMut};
use std::time::Instant;

/// The least time of a call, in seconds, after one that is not timed.
fn least(runs: usize, mut call: impl FnMut()) -> f64 {
    call();
    let once = |call: &mut dyn FnMut()| {
        let begin = Instant::now();
        call();
        begin.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| once(&mut call)).fold(f64::INFINITY, f64::min)
}

fn normals(seed: u64, count: usize) -> Vec<f32> {
    let mut x = vec![0.0; count];
    normal(seed, &mut x).expect("any seed and length are right");
    x
}

/// The rotation of halves that a Rust program writes: tables of cos and sin, and a loop.
fn rotate_plainly(x: &mut [f32], cos: &[f32], sin: &[f32], heads: usize, head_dim: usize) {
    let half = head_dim / 2;
    for (t, token) in x.chunks_exact_mut(heads * head_dim).enumerate() {
        let (cos, sin) = (&cos[t * half..(t + 1) * half], &sin[t * half..(t + 1) * half]);
        for head in token.chunks_exact_mut(head_dim) {
            let (low, high) = head.split_at_mut(half);
            for i in 0..half {
                let (a, b) = (low[i], high[i]);
                low[i] = a * cos[i] - b * sin[i];
                high[i] = a * sin[i] + b * cos[i];
            }
        }
    }
}

/// Causal attention in loops over rows: scores, softmax, sum of values.
fn attend_plainly(q: &[f32], k: &[f32], v: &[f32], out: &mut [f32], heads: usize, dim: usize) {
    let tokens = q.len() / heads / dim;
    let scale = 1.0 / (dim as f32).sqrt();
    let mut weights = vec![0f32; tokens];
    for h in 0..heads {
        for t in 0..tokens {
            let row = |x: usize| (x * heads + h) * dim..(x * heads + h + 1) * dim;
            let query = &q[row(t)];
            let mut most = f32::NEG_INFINITY;
            for s in 0..=t {
                let dot: f32 = query.iter().zip(&k[row(s)]).map(|(a, b)| a * b).sum();
                weights[s] = dot * scale;
                most = most.max(weights[s]);
            }
            let mut sum = 0f32;
            for weight in &mut weights[..=t] {
                *weight = (*weight - most).exp();
                sum += *weight;
            }
            let to = &mut out[row(t)];
            to.fill(0.0);
            for s in 0..=t {
                let weight = weights[s] / sum;
                to.iter_mut().zip(&v[row(s)]).for_each(|(x, y)| *x += weight * y);
            }
        }
    }
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The table of cos and sin that a Rust program computes, of positions 0 to tokens - 1.
fn table_plainly(frequencies: &[f64], tokens: usize) -> [Vec<f32>; 2] {
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for t in 0..tokens {
        for frequency in frequencies {
            let (s, c) = (t as f64 * frequency).sin_cos();
            cos.push(c as f32);
            sin.push(s as f32);
        }
    }
    [cos, sin]
}

fn table(tokens: usize, head_dim: usize) -> Result<()> {
    let spec = RotarySpec { base: 500000.0, ..RotarySpec::new(head_dim, Pairing::Halves) };
    let of = Frequencies::new(&spec)?;
    let ids: Vec<i64> = (0..tokens as i64).collect();
    let library = least(20, || {
        RotaryTable::new(&of, &Tensor::from(&ids[..])).expect("these positions are right");
    });
    let values = of.values()?;
    let loops = least(5, || drop(table_plainly(&values, tokens)));
    println!(
        "table [{tokens}, {}], ms: gnomon {:.3}, loop {:.3}",
        head_dim / 2,
        library * 1e3,
        loops * 1e3
    );
    Ok(())
}

fn rotation(tokens: usize, heads: usize, head_dim: usize) -> Result<()> {
    let spec = RotarySpec { base: 500000.0, ..RotarySpec::new(head_dim, Pairing::Halves) };
    let ids: Vec<i64> = (0..tokens as i64).collect();
    let table = RotaryTable::new(&Frequencies::new(&spec)?, &Tensor::from(&ids[..]))?;
    let mut parts = [vec![0f32; tokens * head_dim / 2], vec![0f32; tokens * head_dim / 2]];
    let [cos, sin] = &mut parts;
    let shape = [1, tokens, head_dim / 2];
    table.get(&mut TensorMut::new(cos, &shape)?, &mut TensorMut::new(sin, &shape)?)?;
    let x = normals(1, tokens * heads * head_dim);
    let (mut ours, mut plain) = (x.clone(), x);
    let mut q = TensorMut::new(&mut ours, &[tokens, heads, head_dim])?;
    rotate(&mut q, None, &table, Direction::Forward)?;
    rotate_plainly(&mut plain, &parts[0], &parts[1], heads, head_dim);
    let off = difference(&ours, &plain);
    let mut q = TensorMut::new(&mut ours, &[tokens, heads, head_dim])?;
    let library = least(20, || {
        rotate(&mut q, None, &table, Direction::Forward).expect("the first call was right")
    });
    let loops = least(20, || rotate_plainly(&mut plain, &parts[0], &parts[1], heads, head_dim));
    println!(
        "rotation [{tokens}, {heads}, {head_dim}], f32, ms: gnomon {:.3}, loop {:.3}, \
              difference {off:.1e}",
        library * 1e3,
        loops * 1e3
    );
    Ok(())
}

fn attention_of(tokens: usize, heads: usize, dim: usize) -> Result<()> {
    let shape = [1, tokens, heads, dim];
    let [q, k, v] = [1, 2, 3].map(|seed| normals(seed, tokens * heads * dim));
    let (mut ours, mut plain) = (vec![0f32; q.len()], vec![0f32; q.len()]);
    let plan = LayerPlan::new(Mask::causal())?;
    let view = |x| Tensor::new(x, &shape);
    let input = AttentionInput::new(view(&q)?, view(&k)?, view(&v)?);
    let mut out = TensorMut::new(&mut ours, &shape)?;
    let library =
        least(10, || attention(&input, &plan, &mut out, None).expect("these shapes are right"));
    let loops = least(2, || attend_plainly(&q, &k, &v, &mut plain, heads, dim));
    println!(
        "causal attention {shape:?}, f32, ms: gnomon {:.2}, loop {:.1}, difference {:.1e}",
        library * 1e3,
        loops * 1e3,
        difference(&ours, &plain)
    );
    Ok(())
}

/// Nanoseconds of a call, the least mean of some runs.
fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let count = 20000;
    least(20, || (0..count).for_each(|_| call())) / f64::from(count) * 1e9
}

/// A rotation of one token of one head, through the crate and through the C function alone.
fn overhead() -> Result<()> {
    let spec = RotarySpec::new(8, Pairing::Halves);
    let table = RotaryTable::new(&Frequencies::new(&spec)?, &Tensor::from(&[3i64][..]))?;
    let mut x = [0.5f32; 8];
    let crate_time = nanoseconds(|| {
        let mut q = TensorMut::new(&mut x, &[1, 1, 8]).expect("8 elements");
        rotate(&mut q, None, &table, Direction::Forward).expect("the shape is right");
    });

    let ids = [3i64];
    let (mut shape, mut count) = ([1i64, 1, 8], 1i64);
    let raw = |data: *mut std::os::raw::c_void, ndim, code, bits, shape| sys::gnomon_tensor {
        data,
        device: sys::gnomon_device { device_type: 1, device_id: 0 },
        ndim,
        dtype: sys::gnomon_data_type { code, bits, lanes: 1 },
        shape,
        ..Default::default()
    };
    let positions = raw(ids.as_ptr() as *mut _, 1, 0, 64, &mut count);
    let q = raw(x.as_mut_ptr() as *mut _, 3, 2, 32, shape.as_mut_ptr());
    let spec = sys::gnomon_rotary_spec { rotary_dim: 8, pairing: 1, ..Default::default() };
    let (mut of, mut raw_table) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the tensors describe arrays of this function.
    let c_time = unsafe {
        sys::gnomon_frequencies_create(&spec, &mut of);
        sys::gnomon_rotary_table_create(of, &positions, &mut raw_table);
        let time = nanoseconds(|| {
            assert!(sys::gnomon_rotate(&q, std::ptr::null(), raw_table, 1) == 0);
        });
        sys::gnomon_rotary_table_destroy(raw_table);
        sys::gnomon_frequencies_destroy(of);
        time
    };
    println!("rotation of one head of 8, ns: crate {crate_time:.0}, C function {c_time:.0}");
    Ok(())
}

fn main() -> Result<()> {
    set_threads(1)?;
    println!("gnomon {}, {}", gnomon::version(), gnomon::isa());
    table(4096, 128)?;
    rotation(4096, 32, 128)?;
    rotation(128, 32, 128)?;
    attention_of(1024, 8, 64)?;
    overhead()
}
