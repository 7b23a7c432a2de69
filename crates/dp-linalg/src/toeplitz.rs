//! Lower-triangular Toeplitz operators.
