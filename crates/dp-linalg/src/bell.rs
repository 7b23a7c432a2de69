//! Partial Bell polynomials in scaled form.
