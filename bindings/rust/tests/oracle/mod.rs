//! Rotation and attention in plain loops and `f64`, and numbers to compute with.
#![allow(dead_code)] // each test uses a part

/// Uniform numbers in -1 to 1, the same on every machine (Lehmer's generator).
pub fn drawn(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state = state * 48271 % 0x7fff_ffff;
        state as f64 / f64::from(0x3fff_ffff) - 1.0
    };
    next();
    (0..count).map(|_| next()).collect()
}

pub fn floats(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

pub fn doubles(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

pub fn difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, x| if x.is_nan() { f64::INFINITY } else { x.max(most) })
}

/// Rotates x [T, H, D]. pair(i): the two elements of pair i, without the head offset.
pub fn rotated(
    x: &[f64],
    heads: usize,
    head_dim: usize,
    positions: &[i64],
    inv_freq: &[f64],
    pair: impl Fn(usize) -> (usize, usize),
) -> Vec<f64> {
    let mut out = x.to_vec();
    for (t, &position) in positions.iter().enumerate() {
        for h in 0..heads {
            let row = (t * heads + h) * head_dim;
            for (i, frequency) in inv_freq.iter().enumerate() {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                let (a, b) = pair(i);
                out[row + a] = x[row + a] * cos - x[row + b] * sin;
                out[row + b] = x[row + a] * sin + x[row + b] * cos;
            }
        }
    }
    out
}

/// The sizes of a call of attention.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
}

/// Attention of q [B, T, H, D], k [B, S, Hk, D] and v [B, S, Hk, Dv] with the scale 1 / sqrt(D).
/// bias(h, t, s): added to the score, or `None` for a key that the query does not see. Returns
/// the output [B, T, H, Dv] and the log-sum-exp [B, H, T].
pub fn attention(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    of: Sizes,
    bias: impl Fn(usize, usize, usize) -> Option<f64>,
) -> (Vec<f64>, Vec<f64>) {
    let mut out = vec![0.0; of.batch * of.queries * of.heads * of.value_dim];
    let mut lse = vec![f64::NEG_INFINITY; of.batch * of.heads * of.queries];
    for b in 0..of.batch {
        for h in 0..of.heads {
            let key_head = h / (of.heads / of.key_heads);
            for t in 0..of.queries {
                let query = &q[((b * of.queries + t) * of.heads + h) * of.head_dim..];
                let row = |s: usize| (b * of.keys + s) * of.key_heads + key_head;
                let scores: Vec<Option<f64>> = (0..of.keys)
                    .map(|s| {
                        let key = &k[row(s) * of.head_dim..];
                        let dot: f64 = (0..of.head_dim).map(|d| query[d] * key[d]).sum();
                        Some(dot / (of.head_dim as f64).sqrt() + bias(h, t, s)?)
                    })
                    .collect();
                let sum: f64 = scores.iter().flatten().map(|score| score.exp()).sum();
                lse[(b * of.heads + h) * of.queries + t] = sum.ln();
                let to = ((b * of.queries + t) * of.heads + h) * of.value_dim;
                for (s, score) in scores.iter().enumerate() {
                    for d in 0..of.value_dim {
                        let weight = score.map_or(0.0, |score| score.exp() / sum);
                        out[to + d] += weight * v[row(s) * of.value_dim + d];
                    }
                }
            }
        }
    }
    (out, lse)
}
