//! The declarations of `gnomon.h`, `gnomon_context.h`, `gnomon_ragged.h` and
//! `gnomon_paged_cache.h`.
//!
//! `tools/rust/write_sys.py` writes this file. The headers describe the functions.
#![allow(missing_docs, non_camel_case_types)]

use std::os::raw::{c_char, c_uint, c_void};

pub type gnomon_status = c_uint;
pub const GNOMON_OK: gnomon_status = 0;
pub const GNOMON_INVALID_ARGUMENT: gnomon_status = 1;
pub const GNOMON_FORMAT_ERROR: gnomon_status = 2;
pub const GNOMON_OUT_OF_MEMORY: gnomon_status = 3;
pub const GNOMON_INTERNAL_ERROR: gnomon_status = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_device {
    pub device_type: i32,
    pub device_id: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_data_type {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_tensor {
    pub data: *mut c_void,
    pub device: gnomon_device,
    pub ndim: i32,
    pub dtype: gnomon_data_type,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}
impl Default for gnomon_tensor {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        unsafe { std::mem::zeroed() }
    }
}
pub type gnomon_task = Option<unsafe extern "C" fn(data: *mut c_void, i: i64)>;
pub type gnomon_run = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        count: i64,
        task: gnomon_task,
        data: *mut c_void,
    ),
>;
pub type gnomon_pairing = c_uint;
pub const GNOMON_HALVES: gnomon_pairing = 1;
pub const GNOMON_ADJACENT: gnomon_pairing = 2;
pub type gnomon_direction = c_uint;
pub const GNOMON_FORWARD: gnomon_direction = 1;
pub const GNOMON_INVERSE: gnomon_direction = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_rotary_spec {
    pub size: usize,
    pub rotary_dim: i64,
    pub pairing: i32,
    pub base: f64,
    pub head_offset: i64,
}
impl Default for gnomon_rotary_spec {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[repr(C)]
pub struct gnomon_frequencies {
    opaque: [u8; 0],
}
#[repr(C)]
pub struct gnomon_rotary_table {
    opaque: [u8; 0],
}
pub type gnomon_sinusoidal_layout = c_uint;
pub const GNOMON_INTERLEAVED: gnomon_sinusoidal_layout = 1;
pub const GNOMON_HALF_SPLIT: gnomon_sinusoidal_layout = 2;
pub const GNOMON_TENSOR2TENSOR: gnomon_sinusoidal_layout = 3;
pub type gnomon_visibility = c_uint;
pub const GNOMON_CAUSAL: gnomon_visibility = 1;
pub const GNOMON_BIDIRECTIONAL: gnomon_visibility = 2;
#[repr(C)]
pub struct gnomon_layer_plan {
    opaque: [u8; 0],
}
#[repr(C)]
pub struct gnomon_terms {
    opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_attention_input {
    pub size: usize,
    pub q: *const gnomon_tensor,
    pub k: *const gnomon_tensor,
    pub v: *const gnomon_tensor,
    pub k_scales: *const gnomon_tensor,
    pub v_scales: *const gnomon_tensor,
    pub gates: *const gnomon_tensor,
    pub terms: *const gnomon_terms,
}
impl Default for gnomon_attention_input {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[repr(C)]
pub struct gnomon_plan_gradient {
    opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_attention_gradient {
    pub size: usize,
    pub q: *const gnomon_tensor,
    pub k: *const gnomon_tensor,
    pub v: *const gnomon_tensor,
    pub plan: *mut gnomon_plan_gradient,
    pub dense: *const gnomon_tensor,
    pub gates: *const gnomon_tensor,
    pub sinks: *const gnomon_tensor,
}
impl Default for gnomon_attention_gradient {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[cfg(feature = "model")]
#[repr(C)]
pub struct gnomon_encoding {
    opaque: [u8; 0],
}
#[cfg(feature = "model")]
#[repr(C)]
pub struct gnomon_model {
    opaque: [u8; 0],
}
#[cfg(feature = "model")]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_tokens {
    pub size: usize,
    pub query_ids: *const gnomon_tensor,
    pub query_sequences: *const gnomon_tensor,
    pub key_ids: *const gnomon_tensor,
    pub key_sequences: *const gnomon_tensor,
    pub cached: i64,
    pub length: i64,
}
#[cfg(feature = "model")]
impl Default for gnomon_tokens {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[repr(C)]
pub struct gnomon_context {
    opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_ragged_batch {
    pub size: usize,
    pub query_starts: *const gnomon_tensor,
    pub query_lengths: *const gnomon_tensor,
    pub key_starts: *const gnomon_tensor,
    pub key_lengths: *const gnomon_tensor,
    pub offsets: *const gnomon_tensor,
    pub block_table: *const gnomon_tensor,
}
impl Default for gnomon_ragged_batch {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_paged_cache {
    pub size: usize,
    pub keys: *const gnomon_tensor,
    pub values: *const gnomon_tensor,
    pub slots: *const gnomon_tensor,
    pub block_table: *const gnomon_tensor,
    pub entries: *const gnomon_tensor,
    pub sequences: *const gnomon_tensor,
    pub key_scales: *const gnomon_tensor,
    pub value_scales: *const gnomon_tensor,
}
impl Default for gnomon_paged_cache {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
pub type gnomon_cache_type = c_uint;
pub const GNOMON_CACHE_F32: gnomon_cache_type = 1;
pub const GNOMON_CACHE_F16: gnomon_cache_type = 2;
pub const GNOMON_CACHE_BF16: gnomon_cache_type = 3;
pub const GNOMON_CACHE_INT8: gnomon_cache_type = 4;
pub const GNOMON_CACHE_E4M3: gnomon_cache_type = 5;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gnomon_paged_kv_cache_spec {
    pub size: usize,
    pub blocks: i64,
    pub block_size: i64,
    pub heads: i64,
    pub head_dim: i64,
    pub value_dim: i64,
    pub axes: i64,
    pub r#type: i32,
    pub key_scales: *const gnomon_tensor,
    pub value_scales: *const gnomon_tensor,
}
impl Default for gnomon_paged_kv_cache_spec {
    fn default() -> Self {
        // SAFETY: numbers may be 0, and pointers NULL.
        let mut zero: Self = unsafe { std::mem::zeroed() };
        zero.size = std::mem::size_of::<Self>();
        zero
    }
}
#[repr(C)]
pub struct gnomon_paged_kv_cache {
    opaque: [u8; 0],
}
extern "C" {
    pub fn gnomon_error_message() -> *const c_char;
    pub fn gnomon_version_number() -> i32;
    pub fn gnomon_version() -> *const c_char;
    pub fn gnomon_isa() -> *const c_char;
    pub fn gnomon_free(text: *mut c_char);
    pub fn gnomon_set_threads(count: i32) -> gnomon_status;
    pub fn gnomon_threads() -> i32;
    pub fn gnomon_set_executor(
        run: gnomon_run,
        context: *mut c_void,
        threads: i32,
    ) -> gnomon_status;
    pub fn gnomon_frequencies_create(
        spec: *const gnomon_rotary_spec,
        out: *mut *mut gnomon_frequencies,
    ) -> gnomon_status;
    pub fn gnomon_frequencies_from(
        spec: *const gnomon_rotary_spec,
        inv_freq: *const gnomon_tensor,
        axes: *const gnomon_tensor,
        table_scale: f64,
        out: *mut *mut gnomon_frequencies,
    ) -> gnomon_status;
    pub fn gnomon_frequencies_get(
        frequencies: *const gnomon_frequencies,
        inv_freq: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_frequencies_count(frequencies: *const gnomon_frequencies) -> i64;
    pub fn gnomon_frequencies_destroy(frequencies: *mut gnomon_frequencies);
    pub fn gnomon_rotary_table_create(
        frequencies: *const gnomon_frequencies,
        positions: *const gnomon_tensor,
        out: *mut *mut gnomon_rotary_table,
    ) -> gnomon_status;
    pub fn gnomon_rotary_table_get(
        table: *const gnomon_rotary_table,
        cos: *const gnomon_tensor,
        sin: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_rotary_table_destroy(table: *mut gnomon_rotary_table);
    pub fn gnomon_cos_sin(
        positions: *const gnomon_tensor,
        frequencies: *const gnomon_frequencies,
        cos: *const gnomon_tensor,
        sin: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_rotate(
        q: *const gnomon_tensor,
        k: *const gnomon_tensor,
        table: *const gnomon_rotary_table,
        direction: i32,
    ) -> gnomon_status;
    pub fn gnomon_rotate_to(
        x: *const gnomon_tensor,
        table: *const gnomon_rotary_table,
        direction: i32,
        out: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_rotate_at(
        q: *const gnomon_tensor,
        k: *const gnomon_tensor,
        positions: *const gnomon_tensor,
        frequencies: *const gnomon_frequencies,
    ) -> gnomon_status;
    pub fn gnomon_append(
        k: *const gnomon_tensor,
        table: *const gnomon_rotary_table,
        slot: *const gnomon_tensor,
        scales: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_shift_keys(
        cached: *const gnomon_tensor,
        frequencies: *const gnomon_frequencies,
        delta: i64,
    ) -> gnomon_status;
    pub fn gnomon_sinusoidal(
        positions: *const gnomon_tensor,
        layout: i32,
        base: f64,
        out: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_add_table(
        x: *const gnomon_tensor,
        table: *const gnomon_tensor,
        scale: f32,
    ) -> gnomon_status;
    pub fn gnomon_add_rows(
        x: *const gnomon_tensor,
        table: *const gnomon_tensor,
        rows: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_add_rows_backward(
        grad: *const gnomon_tensor,
        rows: *const gnomon_tensor,
        table_grad: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_create(out: *mut *mut gnomon_layer_plan) -> gnomon_status;
    pub fn gnomon_layer_plan_destroy(plan: *mut gnomon_layer_plan);
    pub fn gnomon_layer_plan_set_mask(
        plan: *mut gnomon_layer_plan,
        visibility: i32,
        offset: i64,
        left: i64,
        right: i64,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_set_softmax(
        plan: *mut gnomon_layer_plan,
        scale: f64,
        cap: f64,
        sinks: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_round_weights(
        plan: *mut gnomon_layer_plan,
        allowed: i32,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_set_rotary(
        plan: *mut gnomon_layer_plan,
        queries: *const gnomon_rotary_table,
        keys: *const gnomon_rotary_table,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_set_slopes(
        plan: *mut gnomon_layer_plan,
        slopes: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_set_strip(
        plan: *mut gnomon_layer_plan,
        strip: *const gnomon_tensor,
        min_distance: i64,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_rotate_in_prepare(plan: *mut gnomon_layer_plan) -> gnomon_status;
    pub fn gnomon_layer_plan_set_dense(
        plan: *mut gnomon_layer_plan,
        bias: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_set_positions(
        plan: *mut gnomon_layer_plan,
        query_ids: *const gnomon_tensor,
        query_sequences: *const gnomon_tensor,
        key_ids: *const gnomon_tensor,
        key_sequences: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_alibi_slopes(
        heads: i64,
        first_head: i64,
        out: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_layer_plan_bias(
        plan: *const gnomon_layer_plan,
        offset: i64,
        out: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_add_position(
        x: *const gnomon_tensor,
        plan: *const gnomon_layer_plan,
    ) -> gnomon_status;
    pub fn gnomon_prepare_input(
        x: *const gnomon_tensor,
        plan: *const gnomon_layer_plan,
        heads: i64,
    ) -> gnomon_status;
    pub fn gnomon_prepare(
        q: *const gnomon_tensor,
        k: *const gnomon_tensor,
        v: *const gnomon_tensor,
        plan: *const gnomon_layer_plan,
    ) -> gnomon_status;
    pub fn gnomon_terms_create(out: *mut *mut gnomon_terms) -> gnomon_status;
    pub fn gnomon_terms_set(
        terms: *mut gnomon_terms,
        name: *const c_char,
        values: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_terms_destroy(terms: *mut gnomon_terms);
    pub fn gnomon_prepare_with(
        q: *const gnomon_tensor,
        k: *const gnomon_tensor,
        v: *const gnomon_tensor,
        plan: *const gnomon_layer_plan,
        terms: *const gnomon_terms,
    ) -> gnomon_status;
    pub fn gnomon_attention(
        input: *const gnomon_attention_input,
        plan: *const gnomon_layer_plan,
        out: *const gnomon_tensor,
        lse: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_attention_weights(
        input: *const gnomon_attention_input,
        plan: *const gnomon_layer_plan,
        weights: *const gnomon_tensor,
        scores: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_plan_gradient_create(out: *mut *mut gnomon_plan_gradient) -> gnomon_status;
    pub fn gnomon_plan_gradient_bias(
        gradient: *const gnomon_plan_gradient,
        out: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_plan_gradient_destroy(gradient: *mut gnomon_plan_gradient);
    pub fn gnomon_attention_backward(
        input: *const gnomon_attention_input,
        plan: *const gnomon_layer_plan,
        out: *const gnomon_tensor,
        lse: *const gnomon_tensor,
        out_grad: *const gnomon_tensor,
        gradient: *const gnomon_attention_gradient,
    ) -> gnomon_status;
    pub fn gnomon_context_create(threads: i32, out: *mut *mut gnomon_context) -> gnomon_status;
    pub fn gnomon_context_create_on(
        run: gnomon_run,
        context: *mut c_void,
        threads: i32,
        out: *mut *mut gnomon_context,
    ) -> gnomon_status;
    pub fn gnomon_context_destroy(context: *mut gnomon_context);
    pub fn gnomon_context_use(context: *mut gnomon_context) -> *mut gnomon_context;
    pub fn gnomon_context_kept_bytes(context: *const gnomon_context) -> usize;
    pub fn gnomon_context_release(context: *mut gnomon_context);
    pub fn gnomon_attention_ragged(
        input: *const gnomon_attention_input,
        batch: *const gnomon_ragged_batch,
        plan: *const gnomon_layer_plan,
        out: *const gnomon_tensor,
        lse: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_ragged_positions(
        starts: *const gnomon_tensor,
        lengths: *const gnomon_tensor,
        offsets: *const gnomon_tensor,
        ids: *const gnomon_tensor,
        sequences: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_paged_append(
        k: *const gnomon_tensor,
        v: *const gnomon_tensor,
        table: *const gnomon_rotary_table,
        cache: *const gnomon_paged_cache,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_create(
        spec: *const gnomon_paged_kv_cache_spec,
        frequencies: *const gnomon_frequencies,
        out: *mut *mut gnomon_paged_kv_cache,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_destroy(cache: *mut gnomon_paged_kv_cache);
    pub fn gnomon_paged_kv_cache_start(
        cache: *mut gnomon_paged_kv_cache,
        sequence: *mut i64,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_fork(
        cache: *mut gnomon_paged_kv_cache,
        sequence: i64,
        tokens: i64,
        fork: *mut i64,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_truncate(
        cache: *mut gnomon_paged_kv_cache,
        sequence: i64,
        tokens: i64,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_end(
        cache: *mut gnomon_paged_kv_cache,
        sequence: i64,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_tokens(
        cache: *const gnomon_paged_kv_cache,
        sequence: i64,
        tokens: *mut i64,
        room: *mut i64,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_free_blocks(cache: *const gnomon_paged_kv_cache) -> i64;
    pub fn gnomon_paged_kv_cache_append(
        cache: *mut gnomon_paged_kv_cache,
        k: *const gnomon_tensor,
        v: *const gnomon_tensor,
        sequences: *const gnomon_tensor,
        starts: *const gnomon_tensor,
        positions: *const gnomon_tensor,
        table: *const gnomon_rotary_table,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_tensors(
        cache: *const gnomon_paged_kv_cache,
        keys: *mut gnomon_tensor,
        values: *mut gnomon_tensor,
        key_scales: *mut gnomon_tensor,
        value_scales: *mut gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_block_table(
        cache: *mut gnomon_paged_kv_cache,
        sequences: *const gnomon_tensor,
        block_table: *mut gnomon_tensor,
        key_lengths: *mut gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_paged_kv_cache_change_frequencies(
        cache: *mut gnomon_paged_kv_cache,
        to: *const gnomon_frequencies,
    ) -> gnomon_status;
}
#[cfg(feature = "model")]
extern "C" {
    pub fn gnomon_encodings(json: *mut *mut c_char) -> gnomon_status;
    pub fn gnomon_encoding_from_json(
        json: *const c_char,
        out: *mut *mut gnomon_encoding,
    ) -> gnomon_status;
    pub fn gnomon_encoding_from_name(
        name: *const c_char,
        width: i64,
        heads: i64,
        length: i64,
        reads: i32,
        out: *mut *mut gnomon_encoding,
    ) -> gnomon_status;
    pub fn gnomon_encoding_to_json(
        encoding: *const gnomon_encoding,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_encoding_parameters(
        encoding: *const gnomon_encoding,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_encoding_random_parameter(
        encoding: *const gnomon_encoding,
        index: i64,
        values: *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_normal(seed: u64, out: *const gnomon_tensor) -> gnomon_status;
    pub fn gnomon_encoding_destroy(encoding: *mut gnomon_encoding);
    pub fn gnomon_encoding_frequencies(
        encoding: *const gnomon_encoding,
        length: i64,
        out: *mut *mut gnomon_frequencies,
    ) -> gnomon_status;
    pub fn gnomon_encoding_lower(
        encoding: *const gnomon_encoding,
        values: *const *const gnomon_tensor,
        count: i64,
        queries: i64,
        keys: i64,
        out: *mut *mut gnomon_layer_plan,
    ) -> gnomon_status;
    pub fn gnomon_encoding_terms(
        encoding: *const gnomon_encoding,
        values: *const *const gnomon_tensor,
        count: i64,
        x: *const gnomon_tensor,
        out: *mut *mut gnomon_terms,
    ) -> gnomon_status;
    pub fn gnomon_encoding_lower_backward(
        encoding: *const gnomon_encoding,
        values: *const *const gnomon_tensor,
        count: i64,
        queries: i64,
        keys: i64,
        gradient: *const gnomon_plan_gradient,
        table_grad: *const gnomon_tensor,
        grads: *const *const gnomon_tensor,
    ) -> gnomon_status;
    pub fn gnomon_encoding_check(
        name: *const c_char,
        width: i64,
        heads: i64,
        trained: i64,
        length: i64,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_model_open(path: *const c_char, out: *mut *mut gnomon_model)
        -> gnomon_status;
    pub fn gnomon_model_from_config(
        json: *const c_char,
        out: *mut *mut gnomon_model,
    ) -> gnomon_status;
    pub fn gnomon_model_from_config_assuming(
        json: *const c_char,
        pairing: i32,
        out: *mut *mut gnomon_model,
    ) -> gnomon_status;
    pub fn gnomon_model_to_json(
        model: *const gnomon_model,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_model_to_json_at(
        model: *const gnomon_model,
        length: i64,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_model_destroy(model: *mut gnomon_model);
    pub fn gnomon_model_layer_parameters(
        model: *const gnomon_model,
        part: *const c_char,
        layer: i64,
        json: *mut *mut c_char,
    ) -> gnomon_status;
    pub fn gnomon_model_lower_layer(
        model: *const gnomon_model,
        part: *const c_char,
        layer: i64,
        tokens: *const gnomon_tokens,
        values: *const *const gnomon_tensor,
        count: i64,
        out: *mut *mut gnomon_layer_plan,
    ) -> gnomon_status;
}
