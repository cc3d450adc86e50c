//! Errors: status and message.
use gnomon::{
    attention, rotate, AttentionInput, Direction, Error, Frequencies, LayerPlan, Mask,
};
use gnomon::{Pairing, RotarySpec, RotaryTable, Status, Tensor, TensorMut, MAX_AXES};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, message: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.status(), error.message()), (Status::InvalidArgument, message));
    assert_eq!(error.to_string(), message);
}

#[test]
fn shapes_must_fit_their_slices() {
    refused(
        Tensor::new(&[0f32; 5], &[2, 3]),
        "[rust] a slice of shape [2, 3] must have 6 elements, got 5",
    );
    refused(
        Tensor::new(&[0f32; 7], &[2, 3]),
        "[rust] a slice of shape [2, 3] must have 6 elements, got 7",
    );
    refused(
        Tensor::with_strides(&[0f32; 5], &[2, 3], &[3, 1]),
        "[rust] a slice of shape [2, 3] and strides [3, 1] must have at least 6 elements, got 5",
    );
    refused(
        Tensor::with_strides(&[0f32; 5], &[2, 3], &[3]),
        "[rust] strides must have 2 elements, got 1",
    );
    refused(
        Tensor::new(&[0f32; 1], &[1; MAX_AXES + 1]),
        "[rust] a tensor has at most 6 axes, got 7",
    );
    let rule = format!("must have {} elements, got 1", usize::MAX);
    for shape in [[usize::MAX, 2], [1 << 63, 2], [1 << 32, 1 << 32]] {
        let error = Tensor::new(&[0f32; 1], &shape).unwrap_err();
        assert!(error.message().ends_with(&rule), "{}", error);
    }
    assert!(Tensor::new(&[0f32; 0], &[usize::MAX, 0]).is_err());
    assert!(Tensor::new(&[0f32; 0], &[3, 0]).is_ok());
    assert!(Tensor::with_strides(&[0f32; 1], &[2, 2], &[usize::MAX, 1]).is_err());
}

#[test]
fn outputs_have_one_index_for_each_element() {
    assert!(Tensor::with_strides(&[0f32; 3], &[2, 3], &[0, 1]).is_ok());
    refused(
        TensorMut::with_strides(&mut [0f32; 3], &[2, 3], &[0, 1]),
        "[rust] the stride of axis 0 must be at least 1, got 0",
    );
    refused(
        TensorMut::with_strides(&mut [0f32; 8], &[3, 3], &[2, 1]),
        "[rust] the stride of axis 0 must be at least 3, got 2",
    );
    assert!(TensorMut::with_strides(&mut [0f32; 9], &[3, 3], &[1, 3]).is_ok());
    assert!(TensorMut::with_strides(&mut [0f32; 9], &[1, 3], &[0, 1]).is_ok());
}

#[test]
fn ranges_must_be_inside_their_axis() {
    let data = [0f32; 6];
    let x = Tensor::new(&data, &[2, 3]).unwrap();
    assert_eq!(x.narrow(1, 1..3).unwrap().shape(), [2, 2]);
    refused(x.narrow(1, 1..4), "[rust] a range of axis 1 must be in 0..3, got 1..4");
    refused(x.narrow(2, 0..1), "[rust] axis must be less than 2, got 2");
    let mut data = [0f32; 6];
    let y = TensorMut::new(&mut data, &[2, 3]).unwrap();
    refused(y.split_at(1, 4), "[rust] a range of axis 1 must be in 0..3, got 0..4");
}

#[test]
fn errors_have_the_message_of_the_library() {
    refused(
        Frequencies::new(&RotarySpec::new(7, Pairing::Halves)),
        "[rotary] rotary_dim must be even, got 7",
    );
    let of = Frequencies::new(&RotarySpec::new(8, Pairing::Halves)).unwrap();
    let table = RotaryTable::new(&of, &Tensor::from(&[0i64, 1][..])).unwrap();
    let mut x = [0f32; 24];
    let mut q = TensorMut::new(&mut x, &[3, 1, 8]).unwrap();
    let error = rotate(&mut q, None, &table, Direction::Forward).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.message().starts_with("[rotary] "), "{}", error);
    assert!(gnomon::set_threads(0).is_err());

    let step = LayerPlan::new(Mask::causal()).unwrap();
    let k = [0f32; 16];
    let k = Tensor::new(&k, &[1, 2, 1, 8]).unwrap();
    let input = AttentionInput::new(k.narrow(1, 0..1).unwrap(), k, k);
    let mut out = [0f32; 8];
    let mut out = TensorMut::new(&mut out, &[1, 1, 1, 8]).unwrap();
    let error = attention(&input, &step, &mut out, None).unwrap_err();
    assert!(error.message().contains("offset"), "{}", error);

    let plan = LayerPlan::new(Mask::causal()).unwrap();
    let (q, k) = ([0f32; 8], [0f32; 12]);
    let input = AttentionInput::new(
        Tensor::new(&q, &[1, 1, 1, 8]).unwrap(),
        Tensor::new(&k, &[1, 1, 1, 12]).unwrap(),
        Tensor::new(&k, &[1, 1, 1, 12]).unwrap(),
    );
    let mut out = [0f32; 12];
    let mut out = TensorMut::new(&mut out, &[1, 1, 1, 12]).unwrap();
    let error = attention(&input, &plan, &mut out, None).unwrap_err();
    assert!(error.message().starts_with("[attention] "), "{}", error);
}

/// Fails to compile if a type may not be used by several threads.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Frequencies>();
    check::<RotaryTable>();
    check::<LayerPlan<'_>>();
    check::<gnomon::PlanGradient>();
    check::<gnomon::Terms>();
    check::<gnomon::Context>();
    check::<gnomon::PagedKvCache<f32>>();
    check::<Tensor<'_, f32>>();
    check::<TensorMut<'_, f32>>();
    check::<Error>();
    assert_eq!(gnomon::version(), env!("CARGO_PKG_VERSION"));
    assert!(!gnomon::isa().is_empty() && gnomon::threads() >= 1);
}
