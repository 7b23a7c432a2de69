//! Toeplitz operators with a rational generating function.
