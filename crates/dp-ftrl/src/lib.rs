//! Private follow-the-regularized-leader and SGD with correlated noise.
