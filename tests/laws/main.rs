//! Laws that hold for every strategy in `strategy::NAMES`, every workload and every horizon.

/// Which strategies serve which workloads: the other laws cannot pass by having nothing to check.
mod applicability;
/// Published statements that are false, and the ones that hold instead.
mod errata;
/// `B C = A`, and the row norms and errors that follow from B.
mod factorization;
/// Golden values that were computed independently.
mod golden;
/// The streamed noise is `B z`, ends at the horizon and never repeats.
mod noise;
/// Sensitivities dominate every admissible change, and exact ones are attained.
mod sensitivity;
