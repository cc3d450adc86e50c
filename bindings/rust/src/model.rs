//! Encodings by name, and released models. The component `gnomon::model`.
use crate::error::{check, size, Result};
use crate::handle::{destroyed_by, opaque, Handle};
use crate::json::Value;
use crate::plan::{text, LayerPlan, Mask, Terms, Visibility};
use crate::rotary::{Frequencies, Pairing};
use crate::sys;
use crate::tensor::{pointer_if, raw_if, Tensor, TensorMut};
use crate::PlanGradient;
use std::ffi::CStr;
use std::os::raw::c_char;
use std::path::Path;
use std::ptr::null_mut;

destroyed_by! {
    gnomon_encoding, gnomon_encoding_destroy;
    gnomon_model, gnomon_model_destroy;
}

/// A positional encoding with its settings.
pub struct Encoding(Handle<sys::gnomon_encoding>);

/// A released model, read from its configuration.
pub struct Model(Handle<sys::gnomon_model>);

opaque!(Encoding, Model);

/// A trained matrix, `[rows, columns]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, for example "buckets".
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// All that the library says of it: `initial_deviation`, `initial_mean`, `initial`.
    pub json: Value,
}

/// Positions and sequences of the tokens of a forward pass.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `[B or 1, T]`, or `[A, B or 1, T]` for M-RoPE.
    pub query_ids: Tensor<'a, i64>,
    /// `[B or 1, T]`; -1: padding; `None`: one sequence.
    pub query_sequences: Option<Tensor<'a, i32>>,
    /// As `query_ids`, for all S keys; `None`: see `cached`.
    pub key_ids: Option<Tensor<'a, i64>>,
    /// `[B or 1, S]`; `None`: one sequence.
    pub key_sequences: Option<Tensor<'a, i32>>,
    /// Without `key_ids`, the keys are `cached` tokens at consecutive positions that precede the
    /// queries, then the queries.
    pub cached: usize,
    /// The declared context length (dynamic NTK, LongRoPE); 0: the training length.
    pub length: usize,
}

impl<'a> Tokens<'a> {
    /// Queries at positions `query_ids` after `cached` tokens, in one sequence.
    pub fn new(query_ids: Tensor<'a, i64>, cached: usize) -> Self {
        Tokens {
            query_ids,
            query_sequences: None,
            key_ids: None,
            key_sequences: None,
            cached,
            length: 0,
        }
    }
}

/// Takes a string that a function of the C API makes.
fn json_of(call: impl FnOnce(*mut *mut c_char) -> sys::gnomon_status) -> Result<String> {
    let mut out = null_mut();
    check(call(&mut out))?;
    // SAFETY: the library wrote a string that ends with 0 and belongs to the caller.
    unsafe {
        let text = CStr::from_ptr(out).to_string_lossy().into_owned();
        sys::gnomon_free(out);
        Ok(text)
    }
}

fn parameters_of(json: &str) -> Result<Vec<Parameter>> {
    let all = Value::parse(json)?;
    let parameter = |one: &Value| Parameter {
        name: one["name"].as_str().unwrap_or("").to_string(),
        rows: one["rows"].as_usize().unwrap_or(0),
        columns: one["columns"].as_usize().unwrap_or(0),
        json: one.clone(),
    };
    Ok(all.elements().iter().map(parameter).collect())
}

/// An array of pointers to tensors, as the C API takes parameters.
struct Values(Vec<sys::gnomon_tensor>, Vec<*const sys::gnomon_tensor>);

impl Values {
    fn new(tensors: impl Iterator<Item = sys::gnomon_tensor>) -> Values {
        let all: Vec<_> = tensors.collect();
        let pointers = all.iter().map(|one| one as *const _).collect();
        Values(all, pointers) // moving a vector does not move its elements
    }

    fn count(&self) -> i64 {
        self.0.len() as i64
    }

    fn pointer(&self) -> *const *const sys::gnomon_tensor {
        self.1.as_ptr()
    }
}

/// The list of encodings, as `gnomon list --json` prints it: `[0]["name"]`, "title", "places",
/// "summary", "formula", "source", "users", "page", "causal", "contents", "terms".
pub fn encodings() -> Result<Value> {
    // SAFETY: the output is a valid pointer.
    Value::parse(&json_of(|out| unsafe { sys::gnomon_encodings(out) })?)
}

/// Fills `out` with normal random numbers, the same on every machine for a seed.
pub fn normal(seed: u64, out: &mut [f32]) -> Result<()> {
    let mut out = TensorMut::from(out);
    // SAFETY: the tensor describes the slice.
    check(unsafe { sys::gnomon_normal(seed, &out.raw()) })
}

/// Measures the properties that are claimed for an encoding of the list, and gives a verdict on
/// each, as JSON with the keys of `gnomon check NAME --json`. `trained`: positions of a training
/// window; `length`: measured positions.
pub fn encoding_check(
    name: &str,
    width: usize,
    heads: usize,
    trained: usize,
    length: usize,
) -> Result<String> {
    let name = text("name", name)?;
    let (width, heads) = (size("width", width)?, size("heads", heads)?);
    let (trained, length) = (size("trained", trained)?, size("length", length)?);
    // SAFETY: the name ends with 0.
    json_of(|out| unsafe {
        sys::gnomon_encoding_check(name.as_ptr(), width, heads, trained, length, out)
    })
}

impl Encoding {
    /// Makes an encoding from JSON:
    /// `{"kind": "rotary", "rotary_dim": 64, "pairing": "halves", "base": 10000.0}`. Fails for
    /// a text that is not JSON or not an encoding.
    pub fn from_json(json: &str) -> Result<Self> {
        let json = text("json", json)?;
        // SAFETY: the text ends with 0.
        Handle::make(|out| unsafe { sys::gnomon_encoding_from_json(json.as_ptr(), out) })
            .map(Encoding)
    }

    /// Makes an encoding with the settings that most models of a shape use. `name`: one that
    /// [`encodings`] lists. `length`: the training length, in tokens. `reads`: the keys that a
    /// query sees.
    pub fn from_name(
        name: &str,
        width: usize,
        heads: usize,
        length: usize,
        reads: Visibility,
    ) -> Result<Self> {
        let name = text("name", name)?;
        let (width, heads) = (size("width", width)?, size("heads", heads)?);
        let length = size("length", length)?;
        // SAFETY: the name ends with 0.
        Handle::make(|out| unsafe {
            sys::gnomon_encoding_from_name(
                name.as_ptr(),
                width,
                heads,
                length,
                reads as i32,
                out,
            )
        })
        .map(Encoding)
    }

    /// The encoding as JSON, which [`Encoding::from_json`] reads.
    pub fn to_json(&self) -> Result<String> {
        // SAFETY: the handle is valid, here and below.
        json_of(|out| unsafe { sys::gnomon_encoding_to_json(self.0.get(), out) })
    }

    /// The trained matrices of the encoding.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        parameters_of(&json_of(|out| unsafe {
            sys::gnomon_encoding_parameters(self.0.get(), out)
        })?)
    }

    /// Fills parameter `index` with the values that `gnomon check` and `gnomon plot` use: random,
    /// or those with which training begins. values: `[rows, columns]`.
    pub fn random_parameter(
        &self,
        index: usize,
        values: &mut TensorMut<'_, f32>,
    ) -> Result<()> {
        let index = size("index", index)?;
        check(unsafe {
            sys::gnomon_encoding_random_parameter(self.0.get(), index, &values.raw())
        })
    }

    /// The frequencies of a rotary encoding for a declared context length; 0: the length in the
    /// encoding. Fails for other encodings.
    pub fn frequencies(&self, length: usize) -> Result<Frequencies> {
        let length = size("length", length)?;
        Handle::make(|out| unsafe {
            sys::gnomon_encoding_frequencies(self.0.get(), length, out)
        })
        .map(Frequencies)
    }

    /// Lowers the encoding to a plan. The `queries` tokens are the last of `keys` tokens at
    /// positions 0 to keys - 1. values: one tensor `[rows, columns]` for each parameter; copied.
    pub fn lower(
        &self,
        values: &[Tensor<'_, f32>],
        queries: usize,
        keys: usize,
        mask: Mask,
    ) -> Result<LayerPlan<'static>> {
        let (queries, keys) = (size("queries", queries)?, size("keys", keys)?);
        let values = Values::new(values.iter().map(Tensor::raw));
        let handle = Handle::make(|out| unsafe {
            let (pointer, count) = (values.pointer(), values.count());
            sys::gnomon_encoding_lower(self.0.get(), pointer, count, queries, keys, out)
        })?;
        let mut plan = LayerPlan::from_handle(handle);
        plan.set_mask(mask)?;
        Ok(plan)
    }

    /// Computes the terms of an encoding that depends on what the tokens hold, from the input of
    /// the layer, x `[B, T, C]`. Fails if the encoding has no terms.
    pub fn terms(&self, values: &[Tensor<'_, f32>], x: &Tensor<'_, f32>) -> Result<Terms> {
        let values = Values::new(values.iter().map(Tensor::raw));
        Handle::make(|out| unsafe {
            let (pointer, count) = (values.pointer(), values.count());
            sys::gnomon_encoding_terms(self.0.get(), pointer, count, &x.raw(), out)
        })
        .map(Terms)
    }

    /// Adds the gradient of the parameters to `grads`, which have the shapes of `values`.
    /// `gradient`: that of the plan. `table_grad`: `[queries, C]`, the gradient of a table that is
    /// added to the embeddings.
    pub fn lower_backward(
        &self,
        values: &[Tensor<'_, f32>],
        queries: usize,
        keys: usize,
        gradient: Option<&PlanGradient>,
        table_grad: Option<&Tensor<'_, f32>>,
        grads: &mut [TensorMut<'_, f32>],
    ) -> Result<()> {
        if grads.len() != values.len() {
            let rule = format_args!("grads must have {} tensors", values.len()).to_string();
            return crate::Error::refuse(rule, grads.len());
        }
        let (queries, keys) = (size("queries", queries)?, size("keys", keys)?);
        let values = Values::new(values.iter().map(Tensor::raw));
        let grads = Values::new(grads.iter_mut().map(TensorMut::raw));
        let table_grad = raw_if(table_grad);
        check(unsafe {
            sys::gnomon_encoding_lower_backward(
                self.0.get(),
                values.pointer(),
                values.count(),
                queries,
                keys,
                gradient.map_or(std::ptr::null(), |gradient| gradient.0.get()),
                pointer_if(&table_grad),
                grads.pointer(),
            )
        })
    }
}

impl Model {
    /// Reads a config.json, a folder that contains one, or a .gguf file. Fails with
    /// [`Status::FormatError`](crate::Status) for other files, and for a model type that is not
    /// known.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = text("path", &path.as_ref().to_string_lossy())?;
        // SAFETY: the path ends with 0.
        Handle::make(|out| unsafe { sys::gnomon_model_open(path.as_ptr(), out) }).map(Model)
    }

    /// Reads the text of a config.json.
    pub fn from_config(json: &str) -> Result<Self> {
        let json = text("json", json)?;
        // SAFETY: the text ends with 0.
        Handle::make(|out| unsafe { sys::gnomon_model_from_config(json.as_ptr(), out) })
            .map(Model)
    }

    /// The same for a model type that is not known: its config does not contain the pairing.
    pub fn from_config_assuming(json: &str, pairing: Pairing) -> Result<Self> {
        let json = text("json", json)?;
        let pairing = pairing as i32;
        // SAFETY: the text ends with 0.
        Handle::make(|out| unsafe {
            sys::gnomon_model_from_config_assuming(json.as_ptr(), pairing, out)
        })
        .map(Model)
    }

    /// The description of the model, as `gnomon inspect --json` prints it.
    pub fn to_json(&self) -> Result<String> {
        // SAFETY: the handle is valid, here and below.
        json_of(|out| unsafe { sys::gnomon_model_to_json(self.0.get(), out) })
    }

    /// The same at a declared length in tokens.
    pub fn to_json_at(&self, length: usize) -> Result<String> {
        let length = size("length", length)?;
        json_of(|out| unsafe { sys::gnomon_model_to_json_at(self.0.get(), length, out) })
    }

    /// The trained matrices of the positions and the attention of a layer. `part`: "" for a
    /// decoder-only model.
    pub fn layer_parameters(&self, part: &str, layer: usize) -> Result<Vec<Parameter>> {
        let (part, layer) = (text("part", part)?, size("layer", layer)?);
        parameters_of(&json_of(|out| unsafe {
            sys::gnomon_model_layer_parameters(self.0.get(), part.as_ptr(), layer, out)
        })?)
    }

    /// Makes the plan of a layer. values: one tensor for each parameter of the layer; copied.
    /// `None`: norm weights of 1 and biases of 0. [`prepare`](crate::prepare) applies the
    /// rotations.
    pub fn lower_layer(
        &self,
        part: &str,
        layer: usize,
        tokens: &Tokens<'_>,
        values: &[Option<Tensor<'_, f32>>],
    ) -> Result<LayerPlan<'static>> {
        let (part, layer) = (text("part", part)?, size("layer", layer)?);
        let query_ids = tokens.query_ids.raw();
        let query_sequences = raw_if(tokens.query_sequences.as_ref());
        let key_ids = raw_if(tokens.key_ids.as_ref());
        let key_sequences = raw_if(tokens.key_sequences.as_ref());
        let raw_tokens = sys::gnomon_tokens {
            query_ids: &query_ids,
            query_sequences: pointer_if(&query_sequences),
            key_ids: pointer_if(&key_ids),
            key_sequences: pointer_if(&key_sequences),
            cached: size("cached", tokens.cached)?,
            length: size("length", tokens.length)?,
            ..Default::default()
        };
        let empty = Tensor::<f32>::new(&[], &[0, 0])?;
        let values = Values::new(values.iter().map(|value| match value {
            Some(value) => value.raw(),
            None => sys::gnomon_tensor { data: null_mut(), ..empty.raw() },
        }));
        Handle::make(|out| unsafe {
            sys::gnomon_model_lower_layer(
                self.0.get(),
                part.as_ptr(),
                layer,
                &raw_tokens,
                values.pointer(),
                values.count(),
                out,
            )
        })
        .map(LayerPlan::from_handle)
    }
}
