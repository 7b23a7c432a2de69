//! Cyclic convolution with a fixed kernel in prime fields: exact integers at the speed of a Fourier transform.
//!
//! A number-theoretic transform is a Fourier transform whose roots of unity live in the integers modulo a prime, so
//! nothing is ever rounded. A product whose entries are known to lie in `(-P/2, P/2)`, with P the product of the
//! primes in use, is recovered from its residues exactly.

/// A prime with roots of unity of every order up to `2^32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prime {
    modulus: u64,
    /// A generator of the multiplicative group.
    generator: u64,
}

/// The two largest primes below `2^62` that are 1 modulo `2^32`. Below `2^62`, sums of four residues fit a word.
const PRIMES: [Prime; 2] = [
    Prime { modulus: 4_611_685_941_117_976_577, generator: 3 },
    Prime { modulus: 4_611_685_692_009_873_409, generator: 19 },
];

/// Products below this magnitude are recovered from one prime.
const ONE_PRIME_REACH: u128 = PRIMES[0].modulus as u128 / 2;

/// Products below this magnitude are recovered from two; nothing larger can be asked for.
pub(super) const REACH: u128 = PRIMES[0].modulus as u128 * PRIMES[1].modulus as u128 / 2;

/// Transforms up to this length stay in the cache and are done level by level.
const CACHED: usize = 1 << 12;

/// The longest kernel: half the order of the largest root of unity.
pub(super) const LONGEST: usize = 1 << 31;

/// A factor with `⌊factor · 2^64 / modulus⌋`, which makes a modular product two multiplications and no division.
#[derive(Debug, Clone, Copy)]
struct Factor {
    value: u64,
    quotient: u64,
}

impl Prime {
    fn multiply(self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(self.modulus)) as u64
    }

    fn power(self, base: u64, mut exponent: u64) -> u64 {
        let (mut base, mut result) = (base, 1);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.multiply(result, base);
            }
            base = self.multiply(base, base);
            exponent >>= 1;
        }
        result
    }

    fn inverse(self, value: u64) -> u64 {
        self.power(value, self.modulus - 2)
    }

    fn factor(self, value: u64) -> Factor {
        Factor { value, quotient: ((u128::from(value) << 64) / u128::from(self.modulus)) as u64 }
    }

    /// The residue of an integer.
    fn residue(self, value: i64) -> u64 {
        i128::from(value).rem_euclid(i128::from(self.modulus)) as u64
    }

    /// `x · factor` up to one multiple of the modulus: below twice the modulus, for any word `x`.
    #[inline]
    fn scale(self, x: u64, factor: Factor) -> u64 {
        let quotient = ((u128::from(x) * u128::from(factor.quotient)) >> 64) as u64;
        x.wrapping_mul(factor.value).wrapping_sub(quotient.wrapping_mul(self.modulus))
    }

    /// Brings a value below four times the modulus below twice the modulus.
    #[inline]
    fn halve(self, x: u64) -> u64 {
        let twice = 2 * self.modulus;
        if x >= twice { x - twice } else { x }
    }
}

/// A prime with the roots of unity up to some order.
#[derive(Debug, Clone)]
struct Field {
    prime: Prime,
    /// Entry `h + j`, for `j < h` and h a power of two: the j-th power of a root of order `2h`.
    roots: Vec<Factor>,
}

impl Field {
    fn new(prime: Prime, longest: usize) -> Self {
        let mut roots = vec![prime.factor(1); longest.max(2)];
        let mut half = 1;
        while half < longest {
            let root = prime.power(prime.generator, (prime.modulus - 1) / (2 * half as u64));
            let step = prime.factor(root);
            let mut power = 1;
            for entry in &mut roots[half..2 * half] {
                *entry = prime.factor(power);
                power = prime.scale(power, step);
                if power >= prime.modulus {
                    power -= prime.modulus;
                }
            }
            half *= 2;
        }
        Self { prime, roots }
    }

    /// One level of the forward transform: sums in the first half, twisted differences in the second.
    fn split(&self, values: &mut [u64]) {
        let half = values.len() / 2;
        let twice = 2 * self.prime.modulus;
        let (left, right) = values.split_at_mut(half);
        for ((left, right), root) in left.iter_mut().zip(right).zip(&self.roots[half..]) {
            let (u, v) = (*left, *right);
            *left = self.prime.halve(u + v);
            *right = self.prime.scale(u + twice - v, *root);
        }
    }

    /// Undoes [`Field::split`], times two. The inverse of the j-th power of a root of order 2h is minus its
    /// `(h-j)`-th power, so one table serves both directions.
    fn merge(&self, values: &mut [u64]) {
        let half = values.len() / 2;
        let twice = 2 * self.prime.modulus;
        let (left, right) = values.split_at_mut(half);
        let (first, second) = (left[0], right[0]);
        left[0] = self.prime.halve(first + second);
        right[0] = self.prime.halve(first + twice - second);
        let roots = self.roots[half + 1..2 * half].iter().rev();
        for ((left, right), root) in left[1..].iter_mut().zip(&mut right[1..]).zip(roots) {
            let (u, s) = (*left, self.prime.scale(*right, *root));
            *left = self.prime.halve(u + twice - s);
            *right = self.prime.halve(u + s);
        }
    }

    /// From values in order to a spectrum in bit-reversed order. Everything stays below twice the modulus.
    fn forward(&self, values: &mut [u64]) {
        if values.len() > CACHED {
            self.split(values);
            let (left, right) = values.split_at_mut(values.len() / 2);
            self.forward(left);
            self.forward(right);
            return;
        }
        let mut length = values.len();
        while length > 1 {
            values.chunks_exact_mut(length).for_each(|part| self.split(part));
            length /= 2;
        }
    }

    /// From a spectrum in bit-reversed order to values in order, times the length.
    fn backward(&self, values: &mut [u64]) {
        if values.len() > CACHED {
            let (left, right) = values.split_at_mut(values.len() / 2);
            self.backward(left);
            self.backward(right);
            self.merge(values);
            return;
        }
        let mut length = 2;
        while length <= values.len() {
            values.chunks_exact_mut(length).for_each(|part| self.merge(part));
            length *= 2;
        }
    }

    /// The spectrum of a kernel, divided by the length so that [`Field::backward`] needs no correction.
    fn spectrum(&self, kernel: &[i64], length: usize) -> Vec<Factor> {
        let mut values = vec![0; length];
        for (value, coefficient) in values.iter_mut().zip(kernel) {
            *value = self.prime.residue(*coefficient);
        }
        self.forward(&mut values);
        let share = self.prime.inverse(length as u64);
        values.into_iter().map(|value| self.prime.factor(self.prime.multiply(value, share))).collect()
    }
}

/// Kernels prepared for cyclic products of several lengths, all powers of two.
#[derive(Debug, Clone)]
pub(super) struct Convolver {
    fields: Vec<Field>,
    /// By length, then by prime.
    spectra: Vec<Vec<Vec<Factor>>>,
    first_length: usize,
}

impl Convolver {
    /// Prepares the kernel, cut to the length of each product, for the lengths `first · 2^i` up to `longest`.
    ///
    /// `reach` bounds every entry of a product that will be read; it must be below [`REACH`].
    pub(super) fn new(kernel: &[i64], first: usize, longest: usize, reach: u128) -> Self {
        let primes = if reach < ONE_PRIME_REACH { &PRIMES[..1] } else { &PRIMES[..] };
        let fields: Vec<Field> = primes.iter().map(|prime| Field::new(*prime, longest)).collect();
        let spectra = std::iter::successors(Some(first), |length| length.checked_mul(2))
            .take_while(|length| *length <= longest)
            .map(|length| {
                let part = &kernel[..kernel.len().min(length)];
                fields.iter().map(|field| field.spectrum(part, length)).collect()
            })
            .collect();
        Self { fields, spectra, first_length: first }
    }

    /// The number of words that [`Convolver::multiply`] works in, for products of the given length.
    pub(super) fn scratch_size(&self, length: usize) -> usize {
        self.fields.len() * length
    }

    /// The cyclic product of the inputs, continued by zeros, with the kernel; the entries from `from` on are handed
    /// to `each` in order.
    pub(super) fn multiply(
        &self,
        inputs: &[i64],
        length: usize,
        from: usize,
        scratch: &mut [u64],
        mut each: impl FnMut(i128),
    ) {
        let level = (length / self.first_length).trailing_zeros() as usize;
        for ((field, spectrum), values) in
            self.fields.iter().zip(&self.spectra[level]).zip(scratch.chunks_exact_mut(length))
        {
            for (value, input) in values.iter_mut().zip(inputs) {
                *value = field.prime.residue(*input);
            }
            values[inputs.len()..].fill(0);
            field.forward(values);
            for (value, factor) in values.iter_mut().zip(spectrum) {
                *value = field.prime.scale(*value, *factor);
            }
            field.backward(values);
        }
        match self.fields.as_slice() {
            [field] => {
                let modulus = field.prime.modulus;
                for value in &scratch[from..length] {
                    let residue = i128::from(value % modulus);
                    each(if residue > i128::from(modulus / 2) {
                        residue - i128::from(modulus)
                    } else {
                        residue
                    });
                }
            }
            fields => {
                let [first, second] = [fields[0].prime, fields[1].prime];
                let inverse = second.factor(second.inverse(first.modulus % second.modulus));
                let (low, high) = scratch.split_at(length);
                for (low, high) in low[from..].iter().zip(&high[from..length]) {
                    let (low, high) = (low % first.modulus, high % second.modulus);
                    // low + first · t, with t chosen to have the residue `high` modulo the second prime.
                    let t =
                        second.scale(high + second.modulus - low % second.modulus, inverse) % second.modulus;
                    let value = u128::from(low) + u128::from(first.modulus) * u128::from(t);
                    let total = 2 * REACH + 1;
                    each(if value > REACH {
                        value.cast_signed() - total.cast_signed()
                    } else {
                        value.cast_signed()
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::{BigInt, BigUint};
    use proptest::prelude::*;

    use super::*;

    fn schoolbook(kernel: &[i64], inputs: &[i64], length: usize) -> Vec<BigInt> {
        let mut product = vec![BigInt::ZERO; length];
        for (i, a) in kernel.iter().enumerate() {
            for (j, b) in inputs.iter().enumerate() {
                product[(i + j) % length] += BigInt::from(*a) * BigInt::from(*b);
            }
        }
        product
    }

    #[test]
    fn the_moduli_are_primes_with_the_generators_they_name() {
        for prime in PRIMES {
            // Lucas: an element of order p - 1 exists only modulo a prime. The factors of p - 1 are found by division.
            let mut rest = prime.modulus - 1;
            let mut factors = Vec::new();
            let mut candidate = 2;
            while candidate * candidate <= rest {
                if rest % candidate == 0 {
                    factors.push(candidate);
                    while rest % candidate == 0 {
                        rest /= candidate;
                    }
                }
                candidate += 1;
            }
            if rest > 1 {
                factors.push(rest);
            }
            let modulus = BigUint::from(prime.modulus);
            let power = |exponent: u64| BigUint::from(prime.generator).modpow(&exponent.into(), &modulus);
            assert_eq!(power(prime.modulus - 1), BigUint::from(1_u32));
            for factor in factors {
                assert_ne!(power((prime.modulus - 1) / factor), BigUint::from(1_u32));
            }
            assert_eq!(prime.modulus % (1 << 32), 1);
            assert!(prime.modulus < 1 << 62);
        }
        assert_eq!(2 * REACH + 1, u128::from(PRIMES[0].modulus) * u128::from(PRIMES[1].modulus));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn products_are_those_of_big_integers(
            log in 1_u32..8,
            kernel in prop::collection::vec(-(1_i64 << 40)..=1 << 40, 1..128),
            inputs in prop::collection::vec(-(1_i64 << 53)..=1 << 53, 1..128),
        ) {
            let length = 1_usize << log;
            let (kernel, inputs) = (&kernel[..kernel.len().min(length)], &inputs[..inputs.len().min(length)]);
            let reach: u128 = (1 << 100) - 1;
            let convolver = Convolver::new(kernel, length, length, reach);
            let mut scratch = vec![0; convolver.scratch_size(length)];
            let mut product = Vec::new();
            convolver.multiply(inputs, length, 0, &mut scratch, |value| product.push(BigInt::from(value)));
            prop_assert_eq!(product, schoolbook(kernel, inputs, length));
        }
    }

    #[test]
    fn long_transforms_and_small_reaches_agree_with_big_integers() {
        let length = 4 * CACHED;
        let kernel: Vec<i64> = (0..40).map(|i| (i * i * 7919) % 1001 - 500).collect();
        let inputs: Vec<i64> = (0..length.cast_signed() as i64).map(|i| (i * 31) % 17 - 8).collect();
        let expected = schoolbook(&kernel, &inputs, length);
        for reach in [40 * 500 * 8, REACH - 1] {
            let convolver = Convolver::new(&kernel, length, length, reach);
            assert_eq!(convolver.fields.len(), if reach < ONE_PRIME_REACH { 1 } else { 2 });
            let mut scratch = vec![0; convolver.scratch_size(length)];
            let mut product = Vec::new();
            convolver.multiply(&inputs, length, 0, &mut scratch, |value| product.push(BigInt::from(value)));
            assert_eq!(product, expected);
        }
    }
}
