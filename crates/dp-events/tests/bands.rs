//! The standard deviations that are printed are those of the noise that is added.

use dp_events::{Dashboard, Randomness, Spec};

/// Nobody comes, so that every published number is its noise; 400 keys have independent noise.
///
/// For each statistic at each of the steps 1 and 12, the mean square of 400 values in units of the printed deviation is 1 up to
/// 4.5 standard errors, `4.5 sqrt(2/400) = 0.32`: twelve looks of a correct dashboard fail with probability below 1e-4, while noise
/// of 2/3 or 3/2 of what is printed gives 0.44 or 2.25.
#[test]
fn printed_deviations_are_those_of_the_noise() {
    for steps in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<String> = (0..400).map(|key| format!("\"k{key}\"")).collect();
        let text = format!(
            "[privacy]\nepsilon = 1.0\ndelta = 1e-6\nprotects = \"person\"\nrelation = \"zero-out\"\n\
             [input]\nfiles = [\"rows.csv\"]\ntime = \"date\"\nperson = \"who\"\n\
             [limits]\nrows_per_step = 1\nsteps = {steps}\n\
             [steps]\nlength = \"1 day\"\nfirst = \"2026-01-01\"\nlast = \"2026-01-24\"\n\
             [[release]]\nname = \"rows\"\nstatistics = [\"total\", \"window:7\", \"step\"]\n\
             by = {{ column = \"key\", values = [{}] }}\n[output]\nfolder = \"public\"\n",
            keys.join(", ")
        );
        std::fs::write(folder.path().join("spec.toml"), text).unwrap();
        std::fs::write(folder.path().join("rows.csv"), "date,who,key\n").unwrap();
        let dashboard = Dashboard::new(Spec::load(&folder.path().join("spec.toml")).unwrap()).unwrap();
        let until = dashboard.spec().calendar.read_instant("2026-01-13").unwrap();
        dashboard.run(until, Randomness::Reproducible(11)).unwrap();
        let table = std::fs::read_to_string(folder.path().join("public").join("rows.csv")).unwrap();
        for step in ["1", "12"] {
            for statistic in ["total", "window:7", "step"] {
                let squares: Vec<f64> = table
                    .lines()
                    .map(|line| line.split(',').collect::<Vec<_>>())
                    .filter(|fields| fields[0] == step && fields[3] == statistic)
                    .map(|fields| {
                        (fields[4].parse::<f64>().unwrap() / fields[5].parse::<f64>().unwrap()).powi(2)
                    })
                    .collect();
                assert_eq!(squares.len(), 400);
                let mean = squares.iter().sum::<f64>() / 400.0;
                assert!(
                    (mean - 1.0).abs() < 0.32,
                    "{steps} steps of a person, {statistic} at step {step}: {mean}"
                );
            }
        }
    }
}
