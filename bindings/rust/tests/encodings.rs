//! All encodings by name, and models from configs.
mod oracle;

use gnomon::json::Value;
use gnomon::{add_position, attention, encoding_check, encodings, normal, prepare_input};
use gnomon::{
    prepare_with, AttentionGradient, AttentionInput, Encoding, Frequencies, LayerPlan,
};
use gnomon::{
    Mask, Model, Pairing, PlanGradient, RotarySpec, Status, Tensor, TensorMut, Terms,
};
use gnomon::{Tokens, Visibility};
use oracle::{difference, doubles, drawn, floats, Sizes};

const TOKENS: usize = 16;
const HEADS: usize = 4;
const WIDTH: usize = 128;
const OF: Sizes = Sizes {
    batch: 1,
    queries: TOKENS,
    keys: TOKENS,
    heads: HEADS,
    key_heads: HEADS,
    head_dim: WIDTH / HEADS,
    value_dim: WIDTH / HEADS,
};
const SHAPE: [usize; 4] = [1, TOKENS, HEADS, WIDTH / HEADS];

fn usual(name: &str) -> Encoding {
    Encoding::from_name(name, WIDTH, HEADS, 64, Visibility::Causal).unwrap()
}

/// The values of the parameters, as `gnomon check` uses them.
fn values_of(encoding: &Encoding) -> Vec<(Vec<f32>, [usize; 2])> {
    let parameters = encoding.parameters().unwrap();
    let of = |(index, one): (usize, &gnomon::Parameter)| {
        let shape = [one.rows, one.columns];
        let mut values = vec![0.0; one.rows * one.columns];
        let mut view = TensorMut::new(&mut values, &shape).unwrap();
        encoding.random_parameter(index, &mut view).unwrap();
        (values, shape)
    };
    parameters.iter().enumerate().map(of).collect()
}

fn inputs() -> [Vec<f32>; 3] {
    [1, 2, 3].map(|seed| {
        let mut x = vec![0.0; TOKENS * WIDTH];
        normal(seed, &mut x).unwrap();
        x
    })
}

#[test]
fn every_encoding_is_lowered_and_attends() {
    let list = encodings().unwrap();
    assert!(list.elements().len() >= 67);
    let mut with_terms = 0;
    for info in list.elements() {
        let name = info["name"].as_str().unwrap();
        let encoding = usual(name);
        let json = encoding.to_json().unwrap();
        assert_eq!(Encoding::from_json(&json).unwrap().to_json().unwrap(), json, "{}", name);

        let values = values_of(&encoding);
        let values: Vec<_> =
            values.iter().map(|(x, shape)| Tensor::new(x, shape).unwrap()).collect();
        let mut plan = encoding.lower(&values, TOKENS, TOKENS, Mask::causal()).unwrap();
        plan.rotate_in_prepare().unwrap();
        let [mut q, mut k, v] = inputs();
        let mut x = v.clone();
        let row_shape = [1, TOKENS, WIDTH];
        let mut rows = TensorMut::new(&mut x, &row_shape).unwrap();
        add_position(&mut rows, &plan).unwrap();
        prepare_input(&mut rows, &plan, HEADS).unwrap();
        let terms = match info["terms"].as_bool().unwrap() {
            true => encoding.terms(&values, &rows.as_tensor()).unwrap(),
            false => Terms::new().unwrap(),
        };
        with_terms += usize::from(info["terms"] == Value::Bool(true));
        let mut q = TensorMut::new(&mut q, &SHAPE).unwrap();
        let mut k = TensorMut::new(&mut k, &SHAPE).unwrap();
        prepare_with(&mut q, Some(&mut k), None, &plan, &terms).unwrap();
        let input = AttentionInput {
            terms: Some(&terms),
            ..AttentionInput::new(
                q.as_tensor(),
                k.as_tensor(),
                Tensor::new(&v, &SHAPE).unwrap(),
            )
        };
        let mut out = vec![f32::NAN; v.len()];
        attention(&input, &plan, &mut TensorMut::new(&mut out, &SHAPE).unwrap(), None).unwrap();
        assert!(out.iter().all(|x| x.is_finite()), "{}", name);
    }
    assert!(with_terms > 3);
}

/// T5's bias from its buckets, and the gradient of these.
#[test]
fn a_trained_bias_has_a_gradient() {
    let encoding = usual("t5");
    let parameters = encoding.parameters().unwrap();
    assert_eq!((parameters[0].rows, parameters[0].columns), (32, HEADS));
    let buckets = drawn(9, 32 * HEADS);
    let kept = floats(&buckets);
    let values = [Tensor::new(&kept, &[32, HEADS]).unwrap()];
    let plan = encoding.lower(&values, TOKENS, TOKENS, Mask::causal()).unwrap();
    let mut bias = vec![0f64; HEADS * TOKENS * TOKENS];
    plan.bias(0, &mut TensorMut::new(&mut bias, &[HEADS, TOKENS, TOKENS]).unwrap()).unwrap();
    // The first 16 buckets of a causal T5 are the distances 0 to 15.
    for h in 0..HEADS {
        for (t, s) in (0..TOKENS).flat_map(|t| (0..=t).map(move |s| (t, s))) {
            let wanted = f64::from(kept[(t - s) * HEADS + h]);
            assert!((bias[(h * TOKENS + t) * TOKENS + s] - wanted).abs() < 1e-12);
        }
    }

    let [q, k, v] = inputs().map(|x| doubles(&x));
    let view = |x| Tensor::new(x, &SHAPE).unwrap();
    let input = AttentionInput::new(view(&q), view(&k), view(&v));
    let (mut out, mut lse) = (vec![0f64; q.len()], vec![0f64; HEADS * TOKENS]);
    let lse_shape = [1, HEADS, TOKENS];
    let mut lse_view = TensorMut::new(&mut lse, &lse_shape).unwrap();
    let mut out_view = TensorMut::new(&mut out, &SHAPE).unwrap();
    attention(&input, &plan, &mut out_view, Some(&mut lse_view)).unwrap();
    let loss = |delta: f64| -> f64 {
        let bias = |h: usize, t: usize, s: usize| {
            let change = if (h, t.wrapping_sub(s)) == (1, 3) { delta } else { 0.0 };
            (s <= t).then(|| f64::from(kept[(t - s) * HEADS + h]) + change)
        };
        oracle::attention(&q, &k, &v, OF, bias).0.iter().zip(&v).map(|(a, b)| a * b).sum()
    };
    let mut grads = [vec![0f64; q.len()], vec![0f64; q.len()], vec![0f64; q.len()]];
    let [dq, dk, dv] = &mut grads;
    let mut of_plan = PlanGradient::new().unwrap();
    let mut gradient = AttentionGradient {
        plan: Some(&mut of_plan),
        ..AttentionGradient::new(
            TensorMut::new(dq, &SHAPE).unwrap(),
            TensorMut::new(dk, &SHAPE).unwrap(),
            TensorMut::new(dv, &SHAPE).unwrap(),
        )
    };
    let lse = Tensor::new(&lse, &lse_shape).unwrap();
    gnomon::attention_backward(&input, &plan, &view(&out), &lse, &view(&v), &mut gradient)
        .unwrap();
    let mut grad = vec![0f32; 32 * HEADS];
    let mut grad_views = [TensorMut::new(&mut grad, &[32, HEADS]).unwrap()];
    encoding
        .lower_backward(&values, TOKENS, TOKENS, Some(&of_plan), None, &mut grad_views)
        .unwrap();
    let wanted = (loss(1e-5) - loss(-1e-5)) / 2e-5;
    assert!((f64::from(grad[3 * HEADS + 1]) - wanted).abs() < 1e-6);
}

#[test]
fn frequencies_of_an_encoding_and_of_a_spec_agree() {
    let json = r#"{"kind": "rotary", "rotary_dim": 32, "pairing": "halves", "base": 500000.0}"#;
    let of = Encoding::from_json(json).unwrap().frequencies(0).unwrap();
    let spec = RotarySpec { base: 500000.0, ..RotarySpec::new(32, Pairing::Halves) };
    let wanted = Frequencies::new(&spec).unwrap().values().unwrap();
    assert_eq!(of.values().unwrap(), wanted);
}

const CONFIG: &str = r#"{"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 3,
    "max_position_embeddings": 128, "rope_theta": 1000000}"#;

#[test]
fn models_are_read_and_their_layers_lowered() {
    let model = Model::from_config(CONFIG).unwrap();
    let description = Value::parse(&model.to_json().unwrap()).unwrap();
    let group = &description["groups"][0];
    let names = (description["model_type"].as_str(), group["kind"].as_str());
    assert_eq!(names, (Some("qwen3"), Some("rotary")));
    assert_eq!(group["key_heads"].as_usize(), Some(2));
    assert!(model.to_json_at(64).unwrap().contains("qwen3"));

    // The norms of queries and keys: weights of 1 with and without a tensor.
    let parameters = model.layer_parameters("", 0).unwrap();
    let names: Vec<&str> = parameters.iter().map(|one| &one.name[..]).collect();
    let wanted = ["query_norm.weight", "query_norm.bias", "key_norm.weight", "key_norm.bias"];
    assert_eq!(names, wanted);
    assert!(parameters.iter().all(|one| (one.rows, one.columns) == (1, 16)));
    let ids = [0i64, 1, 2, 3];
    let tokens = Tokens::new(Tensor::from(&ids[..]), 2);
    let ones = [1f32; 16];
    let one = Some(Tensor::new(&ones, &[1, 16]).unwrap());
    let prepared = |plan: LayerPlan<'_>| {
        let mut q = floats(&drawn(4, 4 * 4 * 16));
        let mut view = TensorMut::new(&mut q, &[1, 4, 4, 16]).unwrap();
        gnomon::prepare(&mut view, None, None, &plan).unwrap();
        q
    };
    let without = prepared(model.lower_layer("", 0, &tokens, &[None; 4]).unwrap());
    assert_eq!(
        prepared(model.lower_layer("", 0, &tokens, &[one, None, one, None]).unwrap()),
        without
    );
    let norm: f64 = doubles(&without[..16]).iter().map(|x| x * x).sum();
    assert!((norm - 16.0).abs() < 1e-3); // RMS 1

    let folder = std::env::temp_dir().join(format!("gnomon-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), CONFIG).unwrap();
    let opened = Value::parse(&Model::open(&folder).unwrap().to_json().unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(opened["groups"], description["groups"]);
}

#[test]
fn texts_of_other_formats_are_refused() {
    let status = |error: gnomon::Error| error.status();
    assert_eq!(status(Model::from_config("{").unwrap_err()), Status::FormatError);
    assert_eq!(status(Encoding::from_json("{").unwrap_err()), Status::InvalidArgument);
    let error = Encoding::from_name("none such", 8, 1, 8, Visibility::Causal).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.message().contains("none such"));
    let error = Encoding::from_json("{\0}").unwrap_err();
    assert_eq!(error.message(), "[rust] json must not contain the byte 0, got one");
    let unknown = CONFIG.replace("qwen3", "unknown");
    assert!(Model::from_config(&unknown).unwrap_err().message().contains("unknown"));
    assert!(Model::from_config_assuming(&unknown, Pairing::Halves).is_ok());
    let t5 = usual("t5");
    assert!(t5
        .lower(&[], 4, 4, Mask::causal())
        .unwrap_err()
        .message()
        .contains("1 parameters"));
    assert!(t5.frequencies(0).is_err());
    assert!(t5.terms(&[], &Tensor::new(&[0.0; 8], &[1, 1, 8]).unwrap()).is_err());
}

#[test]
fn verdicts_are_those_of_the_library() {
    let found = Value::parse(&encoding_check("alibi", 64, 2, 16, 32).unwrap()).unwrap();
    assert_eq!(found["verdicts"]["nearer"]["word"].as_str(), Some("yes"));
    let mut x = [0f32; 100];
    normal(7, &mut x).unwrap();
    let mean: f64 = doubles(&x).iter().sum::<f64>() / 100.0;
    assert!(mean.abs() < 0.5 && difference(&doubles(&x), &[0.0; 100]) > 1.0);
}
