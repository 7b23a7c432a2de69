//! Dense linear algebra behind one backend.
