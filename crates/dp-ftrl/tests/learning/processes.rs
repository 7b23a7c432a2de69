//! A model over two processes, which tell each other the norms of their parts over a socket on this machine.
//!
//! `DP_SHARD_DIMENSION` says how many parameters the model has; few by default.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dp_ftrl::shard::{MeasuredPart, PartNorms, Shortening};
use dp_ftrl::{Clipping, GradientShard, gradients};
use dp_mechanisms::shards::NoiseShard;
use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};

const STEPS: usize = 2;
const PEOPLE: usize = 2;

/// The variable that makes this test the second process: where the first one listens.
const SECOND: &str = "DP_SHARD_OF";

fn dimension() -> usize {
    std::env::var("DP_SHARD_DIMENSION").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

fn clipping() -> Clipping {
    Clipping::flat(1.5).unwrap()
}

/// Both shards, of which a process keeps one; each makes its own noise from the secret that they share.
fn shards() -> Vec<GradientShard> {
    let strategy = Method::Blt.build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let budget = Budget::approximate(1.0, 1e-6).unwrap();
    let plan =
        gradients::plan(strategy, &clipping(), Relation::ZeroOut, Participation::Single, budget).unwrap();
    NoiseShard::in_memory(&plan, dimension(), 2, Seed::reproducible(4))
        .unwrap()
        .into_iter()
        .map(|noise| GradientShard::new(noise, clipping()).unwrap())
        .collect()
}

/// A shard's part of the gradient of a person.
fn part(shard: &GradientShard, person: usize, step: usize) -> Vec<f32> {
    let scale = if person == 0 { 1e-6 } else { 3.0 };
    shard.range().map(|index| scale * (((index * 31 + person * 17 + step * 7) % 101) as f32 - 50.0)).collect()
}

fn send(stream: &mut TcpStream, norms: &PartNorms) {
    let text = serde_json::to_vec(norms).unwrap();
    stream.write_all(&(text.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(&text).unwrap();
}

fn receive(stream: &mut TcpStream) -> PartNorms {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// One process: all steps of its shard, with the norms of the other from the socket. What it releases, and how long the steps
/// took.
fn run(mut shard: GradientShard, stream: &mut TcpStream) -> (Vec<f32>, Duration) {
    let mut released = Vec::new();
    let mut out = vec![0.0; shard.range().len()];
    let mut spent = Duration::ZERO;
    for step in 1..=STEPS {
        for person in 0..PEOPLE {
            let part = part(&shard, person, step);
            let start = Instant::now();
            let own = shard.measure(&part).unwrap();
            send(stream, &own);
            let shortening =
                Shortening::of(&clipping(), dimension(), vec![own.clone(), receive(stream)]).unwrap();
            shard.add(MeasuredPart::new(&part, &own), &shortening).unwrap();
            spent += start.elapsed();
        }
        let start = Instant::now();
        shard.finish(&mut out).unwrap();
        spent += start.elapsed();
        released.extend_from_slice(&out);
    }
    (released, spent)
}

#[test]
fn two_processes_release_what_one_does_to_the_last_bit() {
    if let Ok(address) = std::env::var(SECOND) {
        let mut stream = TcpStream::connect(address).unwrap();
        let (released, _) = run(shards().remove(1), &mut stream);
        let bytes: Vec<u8> = released.iter().flat_map(|value| value.to_le_bytes()).collect();
        stream.write_all(&bytes).unwrap();
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::two_processes_release_what_one_does_to_the_last_bit"])
        .env(SECOND, listener.local_addr().unwrap().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let mut both = shards();
    let lengths: Vec<usize> = both.iter().map(|shard| shard.range().len()).collect();
    let (first, spent) = run(both.remove(0), &mut stream);
    let mut bytes = vec![0; 4 * STEPS * lengths[1]];
    stream.read_exact(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    let second: Vec<f32> =
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    println!("{} parameters over two processes: {:?} a step", dimension(), spent / STEPS as u32);

    // The same in one process.
    let mut both = shards();
    for step in 1..=STEPS {
        for person in 0..PEOPLE {
            let parts: Vec<Vec<f32>> = both.iter().map(|shard| part(shard, person, step)).collect();
            let norms: Vec<PartNorms> =
                both.iter().zip(&parts).map(|(shard, part)| shard.measure(part).unwrap()).collect();
            let shortening = Shortening::of(&clipping(), dimension(), norms.clone()).unwrap();
            for ((shard, part), norms) in both.iter_mut().zip(&parts).zip(&norms) {
                shard.add(MeasuredPart::new(part, norms), &shortening).unwrap();
            }
        }
        for (shard, released) in both.iter_mut().zip([&first, &second]) {
            let length = shard.range().len();
            let mut out = vec![0.0; length];
            shard.finish(&mut out).unwrap();
            assert!(out == released[(step - 1) * length..step * length], "step {step}");
        }
    }
}
