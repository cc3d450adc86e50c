//! Rotates queries and keys as a config.json says, and computes attention.
//!
//! `cargo run --release --example rotate [config.json]`
use gnomon::json::Value;
use gnomon::{attention, normal, prepare, rotate, AttentionInput, Direction, Frequencies};
use gnomon::{
    LayerPlan, Mask, Model, Pairing, RotarySpec, RotaryTable, Tensor, TensorMut, Tokens,
};

const TOKENS: usize = 16;

/// Llama 3.1 8B.
const LLAMA: &str = r#"{
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
}"#;

/// The frequencies that a description contains, as an engine of its own would use them.
fn frequencies_of(group: &Value) -> gnomon::Result<Frequencies> {
    let size = |key: &str| group[key].as_usize().unwrap_or(0);
    let pairing = match group["pairing"].as_str() {
        Some("adjacent") => Pairing::Adjacent,
        _ => Pairing::Halves,
    };
    let spec = RotarySpec {
        head_offset: size("head_offset"),
        ..RotarySpec::new(size("rotary_dim"), pairing)
    };
    let inv_freq: Vec<f64> =
        group["inv_freq"].elements().iter().filter_map(Value::as_f64).collect();
    let scale = group["table_scale"].as_f64().unwrap_or(1.0);
    Frequencies::from_values(&spec, &inv_freq, None, scale)
}

fn normals(seed: u64, count: usize) -> gnomon::Result<Vec<f32>> {
    let mut values = vec![0.0; count];
    normal(seed, &mut values)?;
    Ok(values)
}

fn line(name: &str, values: &[f32]) {
    let text: Vec<String> = values.iter().take(6).map(|x| format!("{:.4}", x)).collect();
    println!("{}: {}", name, text.join(" "));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = match std::env::args().nth(1) {
        Some(path) => Model::open(path)?,
        None => Model::from_config(LLAMA)?,
    };
    let description = Value::parse(&model.to_json()?)?;
    let group = &description["groups"][0];
    let size = |key: &str| group[key].as_usize().unwrap_or(0);
    let (heads, key_heads, head_dim) = (size("heads"), size("key_heads"), size("head_dim"));
    let queries = [1, TOKENS, heads, head_dim];
    let keys = [1, TOKENS, key_heads, head_dim];
    println!("{} heads, {} key heads, head dimension {}", heads, key_heads, head_dim);

    let mut q = normals(1, TOKENS * heads * head_dim)?;
    let mut k = normals(2, TOKENS * key_heads * head_dim)?;
    let v = normals(3, TOKENS * key_heads * head_dim)?;
    let (mut q_prepared, mut k_prepared) = (q.clone(), k.clone());
    let mut out = vec![0.0; q.len()];
    let ids: Vec<i64> = (0..TOKENS as i64).collect();
    let positions = Tensor::from(&ids[..]);

    // With the frequencies of the config.
    let table = RotaryTable::new(&frequencies_of(group)?, &positions)?;
    {
        let mut q = TensorMut::new(&mut q, &queries)?;
        let mut k = TensorMut::new(&mut k, &keys)?;
        rotate(&mut q, Some(&mut k), &table, Direction::Forward)?;
        let plan = LayerPlan::new(Mask::causal())?;
        let input = AttentionInput::new(q.as_tensor(), k.as_tensor(), Tensor::new(&v, &keys)?);
        attention(&input, &plan, &mut TensorMut::new(&mut out, &queries)?, None)?;
    }
    let last = q.len() - head_dim;
    line("rotated query", &q[last..]);
    line("rotated key", &k[k.len() - head_dim..]);
    line("attention", &out[last..]);

    // With the plan of the first layer, which has no norms.
    let plan = model.lower_layer("", 0, &Tokens::new(positions, 0), &[])?;
    let mut k_view = TensorMut::new(&mut k_prepared, &keys)?;
    prepare(&mut TensorMut::new(&mut q_prepared, &queries)?, Some(&mut k_view), None, &plan)?;
    let same = q == q_prepared && k == k_prepared;
    println!("the plan of layer 0 rotates {}", if same { "equally" } else { "otherwise" });
    if !same {
        return Err("the two rotations differ".into());
    }
    Ok(())
}
