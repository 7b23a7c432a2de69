//! Cyclic convolution in prime fields: exact integers at the speed of a Fourier transform.
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
pub(super) struct Factor {
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

    /// The factor of a residue below the modulus.
    #[inline]
    fn factor(self, value: u64) -> Factor {
        // ⌊2^125/modulus⌋ is one word; by it the quotient is found up to a few units, which the remainder shows.
        let reciprocal = ((1_u128 << 125) / u128::from(self.modulus)) as u64;
        self.factor_by(reciprocal, value)
    }

    /// [`Prime::factor`] with the reciprocal `⌊2^125/modulus⌋` at hand.
    #[inline]
    fn factor_by(self, reciprocal: u64, value: u64) -> Factor {
        let mut quotient = ((u128::from(value) * u128::from(reciprocal)) >> 61) as u64;
        // value · 2^64 - quotient · modulus, which is below four moduli and so one word.
        let mut remainder = quotient.wrapping_mul(self.modulus).wrapping_neg();
        while remainder >= self.modulus {
            remainder -= self.modulus;
            quotient += 1;
        }
        Factor { value, quotient }
    }

    /// The residue of an integer, below twice the modulus.
    #[inline]
    fn residue(self, value: i64) -> u64 {
        let mut magnitude = value.unsigned_abs();
        // Twice at most; inputs of a convolution are smaller than the modulus.
        while magnitude >= self.modulus {
            magnitude -= self.modulus;
        }
        if value < 0 { self.modulus - magnitude } else { magnitude }
    }

    /// Brings a value below twice the modulus below the modulus.
    #[inline]
    fn reduce(self, x: u64) -> u64 {
        if x >= self.modulus { x - self.modulus } else { x }
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
pub(super) struct Field {
    prime: Prime,
    /// Entry `h + j`, for `j < h` and h a power of two: the j-th power of a root of order `2h`.
    roots: Vec<Factor>,
}

impl Field {
    fn new(prime: Prime, longest: usize) -> Self {
        let reciprocal = ((1_u128 << 125) / u128::from(prime.modulus)) as u64;
        let mut roots = vec![prime.factor(1); longest.max(2)];
        let mut half = 1;
        while half < longest {
            let root = prime.power(prime.generator, (prime.modulus - 1) / (2 * half as u64));
            let step = prime.factor(root);
            let mut power = 1;
            for entry in &mut roots[half..2 * half] {
                *entry = prime.factor_by(reciprocal, power);
                power = prime.reduce(prime.scale(power, step));
            }
            half *= 2;
        }
        Self { prime, roots }
    }

    /// The spectrum of integers, continued by zeros.
    pub(super) fn transform(&self, inputs: &[i64], values: &mut [u64]) {
        for (value, input) in values.iter_mut().zip(inputs) {
            *value = self.prime.residue(*input);
        }
        values[inputs.len()..].fill(0);
        self.forward(values);
    }

    /// Adds the product of a spectrum with that of a kernel.
    pub(super) fn add_product(&self, values: &[u64], kernel: &[Factor], sums: &mut [u64]) {
        for ((sum, value), factor) in sums.iter_mut().zip(values).zip(kernel) {
            *sum = self.prime.halve(*sum + self.prime.scale(*value, *factor));
        }
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
    pub(super) fn backward(&self, values: &mut [u64]) {
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
    pub(super) fn spectrum(&self, kernel: &[i64], length: usize) -> Vec<Factor> {
        let prime = self.prime;
        let mut values = vec![0; length];
        self.transform(kernel, &mut values);
        let share = prime.factor(prime.inverse(length as u64));
        let reciprocal = ((1_u128 << 125) / u128::from(prime.modulus)) as u64;
        values
            .into_iter()
            .map(|value| prime.factor_by(reciprocal, prime.reduce(prime.scale(value, share))))
            .collect()
    }
}

/// The fields whose residues determine integers of magnitude below `reach`, for transforms up to a length; `reach` must be
/// below [`REACH`].
pub(super) fn fields(longest: usize, reach: u128) -> Vec<Field> {
    let primes = if reach < ONE_PRIME_REACH { &PRIMES[..1] } else { &PRIMES[..] };
    primes.iter().map(|prime| Field::new(*prime, longest)).collect()
}

/// Hands the integers to `each` whose residues stand in `residues`, one list for each field, from `from` on.
pub(super) fn recover(fields: &[Field], residues: &[u64], from: usize, mut each: impl FnMut(i128)) {
    let length = residues.len() / fields.len();
    match fields {
        [field] => {
            let prime = field.prime;
            for value in &residues[from..length] {
                let residue = prime.reduce(*value).cast_signed();
                let modulus = prime.modulus.cast_signed();
                each(i128::from(if residue > modulus / 2 { residue - modulus } else { residue }));
            }
        }
        fields => {
            let [first, second] = [fields[0].prime, fields[1].prime];
            let inverse = second.factor(second.inverse(first.modulus % second.modulus));
            let (low, high) = residues.split_at(length);
            for (low, high) in low[from..].iter().zip(&high[from..length]) {
                let (low, high) = (first.reduce(*low), second.reduce(*high));
                // low + first · t, with t chosen to have the residue `high` modulo the second prime.
                let t = second.reduce(second.scale(high + second.modulus - second.reduce(low), inverse));
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

/// Kernels prepared for cyclic products of one length, a power of two.
#[derive(Debug, Clone)]
pub(super) struct Convolver {
    fields: Vec<Field>,
    /// By prime.
    spectra: Vec<Vec<Factor>>,
    length: usize,
}

impl Convolver {
    /// Prepares a kernel, cut to the length of the product.
    ///
    /// `reach` bounds every entry of a product that will be read; it must be below [`REACH`].
    pub(super) fn new(kernel: &[i64], length: usize, reach: u128) -> Self {
        let fields = fields(length, reach);
        let part = &kernel[..kernel.len().min(length)];
        let spectra = fields.iter().map(|field| field.spectrum(part, length)).collect();
        Self { fields, spectra, length }
    }

    /// The cyclic product of the inputs, continued by zeros, with the kernel; its entries are handed to `each` in order.
    pub(super) fn multiply(&self, inputs: &[i64], each: impl FnMut(i128)) {
        let length = self.length;
        let mut residues = vec![0; self.fields.len() * length];
        let mut values = vec![0; length];
        for ((field, spectrum), sums) in
            self.fields.iter().zip(&self.spectra).zip(residues.chunks_exact_mut(length))
        {
            field.transform(inputs, &mut values);
            field.add_product(&values, spectrum, sums);
            field.backward(sums);
        }
        recover(&self.fields, &residues, 0, each);
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
        #[test]
        fn residues_and_factors_are_those_of_wide_division(value in any::<i64>(), small in any::<u64>()) {
            for prime in PRIMES {
                let modulus = i128::from(prime.modulus);
                let residue = prime.residue(value);
                prop_assert!(residue < 2 * prime.modulus);
                prop_assert_eq!(i128::from(residue) % modulus, i128::from(value).rem_euclid(modulus));
                let small = small % prime.modulus;
                let quotient = (u128::from(small) << 64) / u128::from(prime.modulus);
                prop_assert_eq!(u128::from(prime.factor(small).quotient), quotient);
            }
        }
    }

    #[test]
    fn the_ends_of_a_word_have_residues() {
        for prime in PRIMES {
            for value in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX, prime.modulus.cast_signed()] {
                let modulus = i128::from(prime.modulus);
                let expected = i128::from(value).rem_euclid(modulus);
                assert_eq!(i128::from(prime.residue(value)) % modulus, expected, "{value}");
            }
            for value in [0, 1, prime.modulus - 1] {
                let quotient = (u128::from(value) << 64) / u128::from(prime.modulus);
                assert_eq!(u128::from(prime.factor(value).quotient), quotient);
            }
        }
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
            let mut product = Vec::new();
            Convolver::new(kernel, length, reach).multiply(inputs, |value| product.push(BigInt::from(value)));
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
            let convolver = Convolver::new(&kernel, length, reach);
            assert_eq!(convolver.fields.len(), if reach < ONE_PRIME_REACH { 1 } else { 2 });
            let mut product = Vec::new();
            convolver.multiply(&inputs, |value| product.push(BigInt::from(value)));
            assert_eq!(product, expected);
        }
    }
}
