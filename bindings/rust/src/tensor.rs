//! Borrowed tensors.
use crate::element::{data_type, Element};
use crate::error::{Error, Result};
use crate::sys;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::null;

/// The largest number of axes of a tensor.
pub const MAX_AXES: usize = 6;

#[derive(Clone, Copy)]
struct Layout {
    axes: usize,
    shape: [i64; MAX_AXES],
    strides: [i64; MAX_AXES], // in elements
}

fn shape_text(shape: &[usize]) -> String {
    format!("{:?}", shape)
}

impl Layout {
    fn new(shape: &[usize], strides: Option<&[usize]>, len: usize) -> Result<Layout> {
        if shape.len() > MAX_AXES {
            return Error::refuse(
                format_args!("a tensor has at most {} axes", MAX_AXES),
                shape.len(),
            );
        }
        if strides.map_or(false, |strides| strides.len() != shape.len()) {
            let rule = format!("strides must have {} elements", shape.len());
            return Error::refuse(rule, strides.unwrap_or(&[]).len());
        }
        let mut layout =
            Layout { axes: shape.len(), shape: [0; MAX_AXES], strides: [0; MAX_AXES] };
        let mut count: Option<usize> = Some(1);
        let mut last: Option<usize> = Some(0); // the index of the last element
        for axis in (0..shape.len()).rev() {
            let stride = strides.map_or(count, |strides| Some(strides[axis]));
            let reach = stride.and_then(|s| s.checked_mul(shape[axis].saturating_sub(1)));
            last = last.and_then(|last| last.checked_add(reach?));
            layout.shape[axis] = shape[axis] as i64;
            layout.strides[axis] = stride.unwrap_or(0) as i64;
            count = count.and_then(|count| count.checked_mul(shape[axis]));
        }
        let is_empty = shape.contains(&0);
        let needed = match (is_empty, last) {
            (true, _) => 0,
            (false, Some(last)) => last.saturating_add(1),
            (false, None) => usize::MAX,
        };
        let fits = if strides.is_some() { needed <= len } else { needed == len };
        // Slices have at most isize::MAX bytes, so the casts above are exact if this passes.
        if !fits || (is_empty && shape.iter().any(|&extent| extent > isize::MAX as usize)) {
            let rule = match strides {
                None => format!(
                    "a slice of shape {} must have {} elements",
                    shape_text(shape),
                    needed
                ),
                Some(strides) => format!(
                    "a slice of shape {} and strides {} must have at least {} elements",
                    shape_text(shape),
                    shape_text(strides),
                    needed
                ),
            };
            return Error::refuse(rule, len);
        }
        Ok(layout)
    }

    /// Refuses strides with which two indices can mean one element.
    fn check_disjoint(&self) -> Result<()> {
        let mut axes: Vec<usize> =
            (0..self.axes).filter(|&axis| self.shape[axis] > 1).collect();
        axes.sort_by_key(|&axis| self.strides[axis]);
        let mut reach = 1;
        for axis in axes {
            if self.strides[axis] < reach {
                let rule = format!("the stride of axis {} must be at least {}", axis, reach);
                return Error::refuse(rule, self.strides[axis]);
            }
            reach += (self.shape[axis] - 1) * self.strides[axis];
        }
        Ok(())
    }

    /// The layout of a range of an axis, and the index of its first element.
    fn narrow(&self, axis: usize, range: &Range<usize>) -> Result<(Layout, usize)> {
        if axis >= self.axes {
            return Error::refuse(format_args!("axis must be less than {}", self.axes), axis);
        }
        if range.start > range.end || range.end as u64 > self.shape[axis] as u64 {
            let rule = format!("a range of axis {} must be in 0..{}", axis, self.shape[axis]);
            return Error::refuse(rule, format_args!("{:?}", range));
        }
        let mut layout = *self;
        layout.shape[axis] = (range.end - range.start) as i64;
        Ok((layout, range.start * self.strides[axis] as usize))
    }

    fn shape(&self) -> Vec<usize> {
        self.shape[..self.axes].iter().map(|&extent| extent as usize).collect()
    }

    /// The tensor of the C API. It borrows this layout.
    fn raw<T: Element>(&self, data: *const T) -> sys::gnomon_tensor {
        sys::gnomon_tensor {
            data: data as *mut _,
            device: sys::gnomon_device { device_type: 1, device_id: 0 },
            ndim: self.axes as i32,
            dtype: data_type::<T>(),
            shape: self.shape.as_ptr() as *mut i64, // the library does not write to it
            strides: self.strides.as_ptr() as *mut i64,
            byte_offset: 0,
        }
    }
}

/// A tensor that the library reads: a borrowed slice with a shape and strides.
///
/// ```
/// let positions = [0i64, 1, 2];
/// let ids = gnomon::Tensor::from(&positions[..]);            // [3]
/// let rows = gnomon::Tensor::new(&[0f32; 6], &[2, 3])?;      // [2, 3], row-major
/// let columns = gnomon::Tensor::with_strides(&[0f32; 6], &[3, 2], &[1, 3])?;
/// # Ok::<(), gnomon::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Tensor<'a, T> {
    data: *const T,
    layout: Layout,
    borrowed: PhantomData<&'a [T]>,
}

/// A tensor that the library writes: a slice that is borrowed mutably, so that no other tensor
/// of safe code refers to its elements.
///
/// A buffer that holds queries, keys and values of one projection is split without copying:
///
/// ```
/// let mut buffer = vec![0f32; 16 * (8 + 2 + 2) * 64];                 // [T, H + 2 Hk, D]
/// let all = gnomon::TensorMut::new(&mut buffer, &[16, 12, 64])?;
/// let (mut q, rest) = all.split_at(1, 8)?;
/// let (mut k, v) = rest.split_at(1, 2)?;
/// assert_eq!(q.shape(), [16, 8, 64]);
/// assert_eq!(k.shape(), [16, 2, 64]);
/// # let spec = gnomon::RotarySpec::new(64, gnomon::Pairing::Halves);
/// # let frequencies = gnomon::Frequencies::new(&spec)?;
/// # let ids: Vec<i64> = (0..16).collect();
/// # let table = gnomon::RotaryTable::new(&frequencies, &gnomon::Tensor::from(&ids[..]))?;
/// gnomon::rotate(&mut q, Some(&mut k), &table, gnomon::Direction::Forward)?;
/// # Ok::<(), gnomon::Error>(())
/// ```
///
/// A slice cannot be given twice. This does not compile:
///
/// ```compile_fail,E0499
/// let mut buffer = vec![0f32; 64];
/// let mut q = gnomon::TensorMut::new(&mut buffer, &[1, 1, 64]).unwrap();
/// let mut k = gnomon::TensorMut::new(&mut buffer, &[1, 1, 64]).unwrap();
/// gnomon::shift_keys(&mut q, todo!(), 1);
/// gnomon::shift_keys(&mut k, todo!(), 1);
/// ```
pub struct TensorMut<'a, T> {
    data: *mut T,
    layout: Layout,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: these are slices with a shape.
unsafe impl<T: Sync> Send for Tensor<'_, T> {}
unsafe impl<T: Sync> Sync for Tensor<'_, T> {}
unsafe impl<T: Send> Send for TensorMut<'_, T> {}
unsafe impl<T: Sync> Sync for TensorMut<'_, T> {}

impl<'a, T: Element> Tensor<'a, T> {
    /// A row-major tensor. Fails unless the slice has as many elements as the shape, and if the
    /// shape has more than [`MAX_AXES`] axes.
    pub fn new(data: &'a [T], shape: &[usize]) -> Result<Self> {
        let layout = Layout::new(shape, None, data.len())?;
        Ok(Tensor { data: data.as_ptr(), layout, borrowed: PhantomData })
    }

    /// A tensor with strides, in elements. Fails if an element is outside the slice.
    pub fn with_strides(data: &'a [T], shape: &[usize], strides: &[usize]) -> Result<Self> {
        let layout = Layout::new(shape, Some(strides), data.len())?;
        Ok(Tensor { data: data.as_ptr(), layout, borrowed: PhantomData })
    }

    /// The tensor of a range of an axis. Fails if the range is outside the axis.
    pub fn narrow(&self, axis: usize, range: Range<usize>) -> Result<Tensor<'a, T>> {
        let (layout, first) = self.layout.narrow(axis, &range)?;
        Ok(Tensor { data: self.data.wrapping_add(first), layout, borrowed: PhantomData })
    }

    /// The shape, outermost axis first.
    pub fn shape(&self) -> Vec<usize> {
        self.layout.shape()
    }

    pub(crate) fn raw(&self) -> sys::gnomon_tensor {
        self.layout.raw(self.data)
    }
}

impl<'a, T: Element> TensorMut<'a, T> {
    /// A row-major tensor. Fails unless the slice has as many elements as the shape, and if the
    /// shape has more than [`MAX_AXES`] axes.
    pub fn new(data: &'a mut [T], shape: &[usize]) -> Result<Self> {
        let layout = Layout::new(shape, None, data.len())?;
        Ok(TensorMut { data: data.as_mut_ptr(), layout, borrowed: PhantomData })
    }

    /// A tensor with strides, in elements. Fails if an element is outside the slice, and if the
    /// elements of an axis are between those of another: no element may have two indices.
    pub fn with_strides(data: &'a mut [T], shape: &[usize], strides: &[usize]) -> Result<Self> {
        let layout = Layout::new(shape, Some(strides), data.len())?;
        layout.check_disjoint()?;
        Ok(TensorMut { data: data.as_mut_ptr(), layout, borrowed: PhantomData })
    }

    /// The tensor of a range of an axis. Fails if the range is outside the axis.
    pub fn narrow(&mut self, axis: usize, range: Range<usize>) -> Result<TensorMut<'_, T>> {
        let (layout, first) = self.layout.narrow(axis, &range)?;
        Ok(TensorMut { data: self.data.wrapping_add(first), layout, borrowed: PhantomData })
    }

    /// The tensors of the indices of an axis before `index` and from it on. Fails if `index` is
    /// greater than the extent of the axis.
    pub fn split_at(self, axis: usize, index: usize) -> Result<(Self, Self)> {
        let extent = *self.shape().get(axis).unwrap_or(&0);
        let (before, first) = self.layout.narrow(axis, &(0..index))?;
        let (after, second) = self.layout.narrow(axis, &(index..extent))?;
        let part = |layout, first| TensorMut {
            data: self.data.wrapping_add(first),
            layout,
            borrowed: PhantomData,
        };
        Ok((part(before, first), part(after, second)))
    }

    /// The same tensor, to read.
    pub fn as_tensor(&self) -> Tensor<'_, T> {
        Tensor { data: self.data, layout: self.layout, borrowed: PhantomData }
    }

    /// The shape, outermost axis first.
    pub fn shape(&self) -> Vec<usize> {
        self.layout.shape()
    }

    pub(crate) fn raw(&mut self) -> sys::gnomon_tensor {
        self.layout.raw(self.data)
    }
}

impl<'a, T: Element> From<&'a [T]> for Tensor<'a, T> {
    /// A tensor of one axis.
    fn from(data: &'a [T]) -> Self {
        Tensor::new(data, &[data.len()]).expect("a slice has its own length")
    }
}

impl<'a, T: Element> From<&'a mut [T]> for TensorMut<'a, T> {
    /// A tensor of one axis.
    fn from(data: &'a mut [T]) -> Self {
        let shape = [data.len()];
        TensorMut::new(data, &shape).expect("a slice has its own length")
    }
}

impl<T: Element> fmt::Debug for Tensor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{}>{:?}", std::any::type_name::<T>(), self.shape())
    }
}

impl<T: Element> fmt::Debug for TensorMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorMut<{}>{:?}", std::any::type_name::<T>(), self.shape())
    }
}

pub(crate) fn raw_if<T: Element>(x: Option<&Tensor<'_, T>>) -> Option<sys::gnomon_tensor> {
    x.map(Tensor::raw)
}

pub(crate) fn raw_mut_if<T: Element>(
    x: Option<&mut TensorMut<'_, T>>,
) -> Option<sys::gnomon_tensor> {
    x.map(TensorMut::raw)
}

/// The pointer to a tensor, or NULL.
pub(crate) fn pointer_if(x: &Option<sys::gnomon_tensor>) -> *const sys::gnomon_tensor {
    x.as_ref().map_or(null(), |x| x)
}
