//! Laws that hold for every strategy in `Method::ALL`, every workload and every horizon.

mod applicability;
mod applications;
mod dashboards;
mod errata;
mod factorization;
mod golden;
mod noise;
mod python;
mod sensitivity;
mod shards;
