//! A decode loop like Llama's, whose position comes from a config.json alone: the base, scaling
//! and pairing of the rotary embedding, sliding windows, and the scale of the softmax. Weights
//! are random, so the model can be narrower than the config says; heads and layers are those of
//! the config.
//!
//! `cargo run --release --example llama [config.json]`
use gnomon::json::Value;
use gnomon::{append, attention, normal, prepare, AttentionInput, LayerPlan, Model, Result};
use gnomon::{Tensor, TensorMut, Tokens};

const WIDTH: usize = 32;
const VOCABULARY: usize = 50;
const LONGEST: usize = 64;

/// Llama 3.1 8B.
const LLAMA: &str = r#"{
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
}"#;

/// A projection [outputs, inputs] with random weights of variance 1 / inputs.
struct Linear {
    inputs: usize,
    weights: Vec<f32>,
}

impl Linear {
    fn new(inputs: usize, outputs: usize, seed: u64) -> Result<Self> {
        let mut weights = vec![0.0; inputs * outputs];
        normal(seed, &mut weights)?;
        let scale = 1.0 / (inputs as f32).sqrt();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        Ok(Linear { inputs, weights })
    }

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = x.chunks_exact(self.inputs);
        rows.flat_map(|row| {
            self.weights.chunks_exact(self.inputs).map(move |weights| {
                row.iter().zip(weights).map(|(a, b)| f64::from(a * b)).sum::<f64>() as f32
            })
        })
        .collect()
    }
}

/// RMSNorm without weights.
fn norm(x: &[f32]) -> Vec<f32> {
    let rows = x.chunks_exact(WIDTH);
    rows.flat_map(|row| {
        let sum: f64 = row.iter().map(|a| f64::from(a * a)).sum();
        let scale = (1.0 / (sum / WIDTH as f64 + 1e-6).sqrt()) as f32;
        row.iter().map(move |a| a * scale)
    })
    .collect()
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(a, b)| *a += b);
}

/// A layer, and the keys and values of past tokens, [LONGEST, Hk, D].
struct Layer {
    group: usize,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// The sizes of layers that share the description of their attention.
struct Group {
    first_layer: usize,
    heads: usize,
    key_heads: usize,
    head_dim: usize,
}

struct Llama {
    model: Model,
    groups: Vec<Group>,
    layers: Vec<Layer>,
    embedding: Vec<f32>,
    head: Linear,
    past: usize,
}

impl Llama {
    fn new(model: Model) -> Result<Self> {
        let description = Value::parse(&model.to_json()?)?;
        let (mut groups, mut layers) = (Vec::new(), Vec::new());
        for group in description["groups"].elements() {
            let size = |key: &str| group[key].as_usize().unwrap_or(0);
            let of_layers = group["layers"].elements().iter().filter_map(Value::as_usize);
            let of_layers: Vec<usize> = of_layers.collect();
            let sizes = Group {
                first_layer: of_layers.first().copied().unwrap_or(0),
                heads: size("heads"),
                key_heads: size("key_heads"),
                head_dim: size("head_dim"),
            };
            let (queries, keys) =
                (sizes.heads * sizes.head_dim, sizes.key_heads * sizes.head_dim);
            for l in of_layers {
                let seed = 10 * l as u64 + 10;
                let layer = Layer {
                    group: groups.len(),
                    query: Linear::new(WIDTH, queries, seed)?,
                    key: Linear::new(WIDTH, keys, seed + 1)?,
                    value: Linear::new(WIDTH, keys, seed + 2)?,
                    output: Linear::new(queries, WIDTH, seed + 3)?,
                    keys: vec![0.0; LONGEST * keys],
                    values: vec![0.0; LONGEST * keys],
                };
                layers.push((l, layer));
            }
            groups.push(sizes);
        }
        layers.sort_by_key(|(l, _)| *l);
        Ok(Llama {
            model,
            groups,
            layers: layers.into_iter().map(|(_, layer)| layer).collect(),
            embedding: Linear::new(1, VOCABULARY * WIDTH, 1)?.weights,
            head: Linear::new(WIDTH, VOCABULARY, 2)?,
            past: 0,
        })
    }

    /// Processes the next tokens. Returns their logits, [T, VOCABULARY].
    fn forward(&mut self, ids: &[usize]) -> Result<Vec<f32>> {
        let (past, all) = (self.past, self.past + ids.len());
        let positions: Vec<i64> = (past as i64..all as i64).collect();
        let tokens = Tokens::new(Tensor::from(&positions[..]), past);
        let plans: Vec<LayerPlan> = self
            .groups
            .iter()
            .map(|group| {
                let count = self.model.layer_parameters("", group.first_layer)?.len();
                let values = vec![None; count]; // norm weights of 1
                self.model.lower_layer("", group.first_layer, &tokens, &values)
            })
            .collect::<Result<_>>()?;
        let mut x: Vec<f32> = ids
            .iter()
            .flat_map(|id| self.embedding[id * WIDTH..(id + 1) * WIDTH].iter().copied())
            .collect();
        for layer in &mut self.layers {
            let (group, plan) = (&self.groups[layer.group], &plans[layer.group]);
            let queries = [1, ids.len(), group.heads, group.head_dim];
            let keys = [1, ids.len(), group.key_heads, group.head_dim];
            let cache = [1, LONGEST, group.key_heads, group.head_dim];

            let normed = norm(&x);
            let (mut q, mut k) = (layer.query.apply(&normed), layer.key.apply(&normed));
            let mut v = layer.value.apply(&normed);
            let mut q = TensorMut::new(&mut q, &queries)?;
            let mut k = TensorMut::new(&mut k, &keys)?;
            let mut v = TensorMut::new(&mut v, &keys)?;
            prepare(&mut q, Some(&mut k), Some(&mut v), plan)?;

            let mut kept_keys = TensorMut::new(&mut layer.keys, &cache)?;
            let mut kept_values = TensorMut::new(&mut layer.values, &cache)?;
            append(&k.as_tensor(), None, &mut kept_keys.narrow(1, past..all)?, None)?;
            append(&v.as_tensor(), None, &mut kept_values.narrow(1, past..all)?, None)?;

            let mut out = vec![0.0; ids.len() * group.heads * group.head_dim];
            let input = AttentionInput::new(
                q.as_tensor(),
                kept_keys.as_tensor().narrow(1, 0..all)?,
                kept_values.as_tensor().narrow(1, 0..all)?,
            );
            attention(&input, plan, &mut TensorMut::new(&mut out, &queries)?, None)?;
            add(&mut x, &layer.output.apply(&out));
        }
        self.past = all;
        Ok(self.head.apply(&norm(&x)))
    }
}

fn largest(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let model = match std::env::args().nth(1) {
        Some(path) => Model::open(path)?,
        None => Model::from_config(LLAMA)?,
    };
    let mut llama = Llama::new(model)?;
    println!("{} layers in {} groups", llama.layers.len(), llama.groups.len());

    let mut tokens = vec![3, 14, 15, 9, 26];
    let mut logits = llama.forward(&tokens)?;
    for _ in 0..8 {
        tokens.push(largest(&logits[logits.len() - VOCABULARY..]));
        logits.extend(llama.forward(&tokens[tokens.len() - 1..])?);
    }
    let text: Vec<String> = tokens[5..].iter().map(|token| token.to_string()).collect();
    println!("tokens: {}", text.join(" "));
    let last = &logits[logits.len() - VOCABULARY..];
    let text: Vec<String> = last.iter().take(6).map(|x| format!("{:.3}", x)).collect();
    println!("last logits: {}", text.join(" "));

    llama.past = 0;
    let one_pass = llama.forward(&tokens)?;
    let difference =
        logits.iter().zip(&one_pass).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    if logits.len() != one_pass.len() || difference.is_nan() || difference > 1e-3 {
        return Err(format!("decoding differs from one pass by {:.1e}", difference).into());
    }
    println!("decoding with the cache equals one pass");
    Ok(())
}
