//! Types of the elements of tensors.
use crate::sys;

/// The type of the elements of a tensor. The crate implements it; no other type can.
///
/// # Safety
///
/// The code and the size are those of DLPack for the type, and any bits are a value of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    #[doc(hidden)]
    const CODE: u8;
}

/// A type in which queries, keys and values can be: `f32`, `f64`, [`F16`], [`Bf16`].
pub trait Float: Element {
    /// The type of log-sum-exps: `f64` for `f64`, `f32` for others.
    type Sum: Element;
}

/// IEEE 754 binary16, as its bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(pub u16);

/// bfloat16, as its bits: the upper half of an `f32`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bf16(pub u16);

/// float8_e4m3fn, as its bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct E4m3(pub u8);

macro_rules! elements {
    ($($of:ty, $code:expr;)*) => {
        $(unsafe impl Element for $of { const CODE: u8 = $code; })*
    };
}
elements! {
    i8, 0; i32, 0; i64, 0;
    f32, 2; f64, 2; F16, 2;
    Bf16, 4; E4m3, 10;
}

macro_rules! floats {
    ($($of:ty, $sum:ty;)*) => { $(impl Float for $of { type Sum = $sum; })* };
}
floats! { f32, f32; F16, f32; Bf16, f32; f64, f64; }

pub(crate) fn data_type<T: Element>() -> sys::gnomon_data_type {
    let bits = 8 * std::mem::size_of::<T>() as u8;
    sys::gnomon_data_type { code: T::CODE, bits, lanes: 1 }
}

impl From<Bf16> for f32 {
    fn from(x: Bf16) -> f32 {
        f32::from_bits(u32::from(x.0) << 16)
    }
}

impl From<f32> for Bf16 {
    /// Rounds to the nearest, to even if halfway. NaN remains NaN.
    fn from(x: f32) -> Bf16 {
        let bits = x.to_bits();
        if x.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16((bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
}

impl From<F16> for f32 {
    fn from(x: F16) -> f32 {
        let sign = u32::from(x.0 & 0x8000) << 16;
        let magnitude = u32::from(x.0 & 0x7fff);
        let value = match magnitude >> 10 {
            0 => magnitude as f32 * 2f32.powi(-24), // zero and subnormal numbers
            0x1f => f32::from_bits(0x7f80_0000 | magnitude << 13),
            _ => f32::from_bits((magnitude << 13) + (112 << 23)),
        };
        f32::from_bits(value.to_bits() | sign)
    }
}

impl From<f32> for F16 {
    /// Rounds to the nearest, to even if halfway. NaN remains NaN; numbers that are too large
    /// become infinite.
    fn from(x: f32) -> F16 {
        let sign = (x.to_bits() >> 16 & 0x8000) as u16;
        let a = x.abs();
        let magnitude = if x.is_nan() {
            0x7e00
        } else if a >= 65520.0 {
            0x7c00
        } else if a < 2f32.powi(-14) {
            // The sum is rounded to multiples of 2^-24, the smallest subnormal number.
            ((a + 0.5).to_bits() - 0.5f32.to_bits()) as u16
        } else {
            let bits = a.to_bits();
            ((bits + 0xfff + (bits >> 13 & 1) - (112 << 23)) >> 13) as u16
        };
        F16(sign | magnitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_returns_from_f32() {
        for bits in 0..=u16::MAX {
            let x = f32::from(F16(bits));
            if x.is_nan() {
                assert!(f32::from(F16::from(x)).is_nan());
            } else {
                assert_eq!(F16::from(x), F16(bits), "{}", x);
            }
        }
    }

    /// The value of finite bits, from the definition of binary16, in f64.
    fn value(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        if exponent == 0 {
            fraction * 2f64.powi(-24)
        } else {
            (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15)
        }
    }

    #[test]
    fn f32_is_rounded_to_the_nearest_f16() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (value(bits), value(bits + 1));
            assert_eq!(f64::from(f32::from(F16(bits))), low);
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(F16::from(middle as f32), F16(even), "{}", middle);
            assert_eq!(F16::from((middle * (1.0 - 1e-6)) as f32), F16(bits), "{}", middle);
            assert_eq!(F16::from((middle * (1.0 + 1e-6)) as f32), F16(bits + 1), "{}", middle);
        }
        assert_eq!(F16::from(-65520.0), F16(0xfc00));
        assert_eq!(F16::from(65519.0), F16(0x7bff));
    }

    #[test]
    fn f32_is_rounded_to_the_nearest_bf16() {
        for bits in 0..=u16::MAX {
            let x = f32::from(Bf16(bits));
            if x.is_nan() {
                assert!(f32::from(Bf16::from(x)).is_nan());
            } else {
                assert_eq!(Bf16::from(x), Bf16(bits));
            }
        }
        assert_eq!(Bf16::from(f32::from_bits(0x3f80_8000)), Bf16(0x3f80)); // halfway, to even
        assert_eq!(Bf16::from(f32::from_bits(0x3f81_8000)), Bf16(0x3f82));
        assert_eq!(Bf16::from(f32::from_bits(0x3f80_8001)), Bf16(0x3f81));
        assert_eq!(Bf16::from(f32::MAX), Bf16(0x7f80));
    }
}
