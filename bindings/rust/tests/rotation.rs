//! Rotations, tables and appended keys, beside loops in f64.
mod oracle;

use gnomon::{add_rows, add_rows_backward, add_table, alibi_slopes, SinusoidalLayout};
use gnomon::{append, cos_sin, rotate, rotate_at, rotate_to, shift_keys, sinusoidal};
use gnomon::{Bf16, Direction, Frequencies, Pairing, RotarySpec, RotaryTable, F16};
use gnomon::{Tensor, TensorMut};
use oracle::{difference, doubles, drawn, floats, rotated};

const TOKENS: usize = 7;
const HEADS: usize = 3;
const HEAD_DIM: usize = 12;
const IDS: [i64; TOKENS] = [0, 1, 5, 1000, 131072, 7, 7];

fn spec(pairing: Pairing) -> RotarySpec {
    RotarySpec { base: 500000.0, head_offset: 2, ..RotarySpec::new(8, pairing) }
}

fn pair(pairing: Pairing) -> impl Fn(usize) -> (usize, usize) {
    move |i| match pairing {
        Pairing::Halves => (2 + i, 2 + i + 4),
        Pairing::Adjacent => (2 + 2 * i, 2 + 2 * i + 1),
    }
}

fn frequencies() -> Vec<f64> {
    (0..4).map(|i| 500000f64.powf(-2.0 * f64::from(i) / 8.0)).collect()
}

#[test]
fn rotations_have_the_values_of_the_formula() {
    for pairing in [Pairing::Halves, Pairing::Adjacent] {
        let of = Frequencies::new(&spec(pairing)).unwrap();
        assert_eq!(of.count(), 4);
        assert!(difference(&of.values().unwrap(), &frequencies()) < 1e-15);
        let table = RotaryTable::new(&of, &Tensor::from(&IDS[..])).unwrap();
        let shape = [TOKENS, HEADS, HEAD_DIM];
        let x = drawn(1, TOKENS * HEADS * HEAD_DIM);
        let wanted = rotated(&x, HEADS, HEAD_DIM, &IDS, &frequencies(), pair(pairing));

        let mut wide = x.clone();
        let mut q = TensorMut::new(&mut wide, &shape).unwrap();
        rotate(&mut q, None, &table, Direction::Forward).unwrap();
        assert!(difference(&wide, &wanted) < 2e-7); // the table has entries of f32

        let original = floats(&x);
        let (mut q, mut k) = (original.clone(), original.clone());
        let (mut at, mut to) = (original.clone(), original.clone());
        rotate(
            &mut TensorMut::new(&mut q, &shape).unwrap(),
            Some(&mut TensorMut::new(&mut k, &shape).unwrap()),
            &table,
            Direction::Forward,
        )
        .unwrap();
        assert!(difference(&doubles(&q), &wanted) < 4e-7);
        assert_eq!(q, k);
        let ids = Tensor::from(&IDS[..]);
        rotate_at(&mut TensorMut::new(&mut at, &shape).unwrap(), None, &ids, &of).unwrap();
        assert!(difference(&doubles(&at), &wanted) < 4e-7);
        rotate_to(
            &Tensor::new(&original, &shape).unwrap(),
            &table,
            Direction::Forward,
            &mut TensorMut::new(&mut to, &shape).unwrap(),
        )
        .unwrap();
        assert_eq!(to, q);
        let mut back = TensorMut::new(&mut q, &shape).unwrap();
        rotate(&mut back, None, &table, Direction::Inverse).unwrap();
        assert!(difference(&doubles(&q), &doubles(&original)) < 4e-7);
    }
}

#[test]
fn elements_of_16_bits_are_rounded_once() {
    let of = Frequencies::new(&spec(Pairing::Halves)).unwrap();
    let table = RotaryTable::new(&of, &Tensor::from(&IDS[..])).unwrap();
    let shape = [TOKENS, HEADS, HEAD_DIM];
    let x = drawn(2, TOKENS * HEADS * HEAD_DIM);

    let mut half: Vec<F16> = floats(&x).into_iter().map(F16::from).collect();
    let kept: Vec<f64> = half.iter().map(|&x| f64::from(f32::from(x))).collect();
    let wanted = rotated(&kept, HEADS, HEAD_DIM, &IDS, &frequencies(), pair(Pairing::Halves));
    let mut q = TensorMut::new(&mut half, &shape).unwrap();
    rotate(&mut q, None, &table, Direction::Forward).unwrap();
    let got: Vec<f64> = half.iter().map(|&x| f64::from(f32::from(x))).collect();
    assert!(difference(&got, &wanted) < 2f64.powi(-11) + 1e-6); // half a unit of numbers below 2

    let mut brain: Vec<Bf16> = floats(&x).into_iter().map(Bf16::from).collect();
    let kept: Vec<f64> = brain.iter().map(|&x| f64::from(f32::from(x))).collect();
    let wanted = rotated(&kept, HEADS, HEAD_DIM, &IDS, &frequencies(), pair(Pairing::Halves));
    let mut q = TensorMut::new(&mut brain, &shape).unwrap();
    rotate(&mut q, None, &table, Direction::Forward).unwrap();
    let got: Vec<f64> = brain.iter().map(|&x| f64::from(f32::from(x))).collect();
    assert!(difference(&got, &wanted) < 2f64.powi(-8) + 1e-6);
}

#[test]
fn parts_of_one_buffer_are_rotated() {
    // [T, heads of q, k and v, D], as one projection gives it; v is not changed.
    let of = Frequencies::new(&spec(Pairing::Adjacent)).unwrap();
    let table = RotaryTable::new(&of, &Tensor::from(&IDS[..])).unwrap();
    let all = floats(&drawn(3, TOKENS * 6 * HEAD_DIM));
    let mut buffer = all.clone();
    {
        let parts = TensorMut::new(&mut buffer, &[TOKENS, 6, HEAD_DIM]).unwrap();
        let (mut q, rest) = parts.split_at(1, 3).unwrap();
        let (mut k, v) = rest.split_at(1, 2).unwrap();
        assert_eq!(v.shape(), [TOKENS, 1, HEAD_DIM]);
        rotate(&mut q, Some(&mut k), &table, Direction::Forward).unwrap();
    }
    let wanted =
        rotated(&doubles(&all), 6, HEAD_DIM, &IDS, &frequencies(), pair(Pairing::Adjacent));
    for t in 0..TOKENS {
        let at = t * 6 * HEAD_DIM;
        let (rotated, value) = (at..at + 5 * HEAD_DIM, at + 5 * HEAD_DIM..at + 6 * HEAD_DIM);
        assert!(difference(&doubles(&buffer[rotated.clone()]), &wanted[rotated]) < 4e-7);
        assert_eq!(buffer[value.clone()], all[value]);
    }
}

#[test]
fn tables_have_the_values_of_the_formula() {
    let of = Frequencies::new(&spec(Pairing::Halves)).unwrap();
    let ids = Tensor::from(&IDS[..]);
    let mut table = [[0f32; TOKENS * 4]; 2];
    let mut wide = [[0f64; TOKENS * 4]; 2];
    {
        let [cos, sin] = &mut table;
        let mut cos = TensorMut::new(cos, &[1, TOKENS, 4]).unwrap();
        let mut sin = TensorMut::new(sin, &[1, TOKENS, 4]).unwrap();
        RotaryTable::new(&of, &ids).unwrap().get(&mut cos, &mut sin).unwrap();
        let [cos, sin] = &mut wide;
        let mut cos = TensorMut::new(cos, &[TOKENS, 4]).unwrap();
        let mut sin = TensorMut::new(sin, &[TOKENS, 4]).unwrap();
        cos_sin(&ids, &of, &mut cos, &mut sin).unwrap();
    }
    for (t, &id) in IDS.iter().enumerate() {
        for (i, frequency) in frequencies().iter().enumerate() {
            let angle = id as f64 * frequency;
            assert!((f64::from(table[0][4 * t + i]) - angle.cos()).abs() < 1e-7);
            assert!((f64::from(table[1][4 * t + i]) - angle.sin()).abs() < 1e-7);
            assert!((wide[0][4 * t + i] - angle.cos()).abs() < 1e-10);
            assert!((wide[1][4 * t + i] - angle.sin()).abs() < 1e-10);
        }
    }
}

#[test]
fn three_axes_rotate_by_their_own_positions() {
    let spec = RotarySpec::new(6, Pairing::Halves);
    let of = Frequencies::from_values(&spec, &[1.0; 3], Some(&[0, 1, 2]), 2.0).unwrap();
    let ids = [0i64, 1, 0, 2, 0, 3];
    let table = RotaryTable::new(&of, &Tensor::new(&ids, &[3, 1, 2]).unwrap()).unwrap();
    let mut x = [0f64, 0., 0., 0., 0., 0., 1., 1., 1., 0., 0., 0.];
    let mut view = TensorMut::new(&mut x, &[2, 1, 6]).unwrap();
    rotate(&mut view, None, &table, Direction::Forward).unwrap();
    let wanted: Vec<f64> = (1..4).map(|position| 2.0 * f64::from(position).cos()).collect();
    assert!(difference(&x[6..9], &wanted) < 4e-7);
}

#[test]
fn keys_are_appended_and_moved() {
    let of = Frequencies::new(&spec(Pairing::Halves)).unwrap();
    let table = RotaryTable::new(&of, &Tensor::from(&IDS[..])).unwrap();
    let shape = [1, TOKENS, HEADS, HEAD_DIM];
    let x = drawn(4, TOKENS * HEADS * HEAD_DIM);
    let keys = floats(&x);
    let k = Tensor::new(&keys, &shape).unwrap();
    let wanted = rotated(&x, HEADS, HEAD_DIM, &IDS, &frequencies(), pair(Pairing::Halves));

    // A cache of two more tokens, of 32 and of 8 bits.
    let mut cache = vec![9f32; (TOKENS + 2) * HEADS * HEAD_DIM];
    let mut whole = TensorMut::new(&mut cache, &[1, TOKENS + 2, HEADS, HEAD_DIM]).unwrap();
    append(&k, Some(&table), &mut whole.narrow(1, 1..TOKENS + 1).unwrap(), None).unwrap();
    let row = HEADS * HEAD_DIM;
    assert!(difference(&doubles(&cache[row..(TOKENS + 1) * row]), &wanted) < 4e-7);
    assert!(cache[..row].iter().chain(&cache[(TOKENS + 1) * row..]).all(|&x| x == 9.0));

    let mut bytes = vec![0i8; TOKENS * row];
    let mut scales = vec![0f32; TOKENS * HEADS];
    let mut slot = TensorMut::new(&mut bytes, &shape).unwrap();
    let mut scales_view = TensorMut::new(&mut scales, &[1, TOKENS, HEADS]).unwrap();
    append(&k, Some(&table), &mut slot, Some(&mut scales_view)).unwrap();
    for (i, &byte) in bytes.iter().enumerate() {
        let kept = f64::from(byte) * f64::from(scales[i / HEAD_DIM]);
        assert!((kept - wanted[i]).abs() < 0.01);
    }

    let moved: Vec<i64> = IDS.iter().map(|id| id - 5).collect();
    let wanted = rotated(&x, HEADS, HEAD_DIM, &moved, &frequencies(), pair(Pairing::Halves));
    let mut slot = cache[row..(TOKENS + 1) * row].to_vec();
    shift_keys(&mut TensorMut::new(&mut slot, &shape).unwrap(), &of, -5).unwrap();
    assert!(difference(&doubles(&slot), &wanted) < 1e-6);
}

#[test]
fn tables_are_added_to_embeddings() {
    let ids = [0i64, 1, 2];
    let mut table = vec![0f32; 12];
    sinusoidal(
        &Tensor::from(&ids[..]),
        SinusoidalLayout::Interleaved,
        10000.0,
        &mut TensorMut::new(&mut table, &[3, 4]).unwrap(),
    )
    .unwrap();
    let wanted: Vec<f64> = ids
        .iter()
        .flat_map(|&id| {
            let (a, b) = (id as f64, id as f64 / 100.0);
            [a.sin(), a.cos(), b.sin(), b.cos()]
        })
        .collect();
    assert!(difference(&doubles(&table), &wanted) < 1e-7);

    let view = Tensor::new(&table, &[3, 4]).unwrap();
    let mut x = vec![0f64; 24];
    add_table(&mut TensorMut::new(&mut x, &[2, 3, 4]).unwrap(), &view, 2.0).unwrap();
    let rows = [2i64, 0, 1, 1, 1, 0];
    let rows_view = Tensor::new(&rows, &[2, 3]).unwrap();
    add_rows(&mut TensorMut::new(&mut x, &[2, 3, 4]).unwrap(), &view, &rows_view).unwrap();
    for (i, &got) in x.iter().enumerate() {
        let sum = 2.0 * wanted[i % 12] + wanted[4 * rows[i / 4] as usize + i % 4];
        assert!((got - sum).abs() < 1e-6);
    }
    let mut grad = vec![0f32; 12];
    let mut grad_view = TensorMut::new(&mut grad, &[3, 4]).unwrap();
    add_rows_backward(&Tensor::new(&x, &[2, 3, 4]).unwrap(), &rows_view, &mut grad_view)
        .unwrap();
    for (i, &got) in grad.iter().enumerate() {
        let of_row = (0..24).filter(|at| rows[at / 4] as usize == i / 4 && at % 4 == i % 4);
        assert!((f64::from(got) - of_row.map(|at| x[at]).sum::<f64>()).abs() < 1e-6);
    }
    let slopes = alibi_slopes(8, 2, 3).unwrap();
    assert_eq!(slopes, [1.0 / 8.0, 1.0 / 16.0, 1.0 / 32.0]);
}
