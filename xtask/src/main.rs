//! Builds, tests, demonstrates and measures Flyball: `cargo xtask COMMAND`.

mod bench;
mod build;
mod componentize;
mod demo;
mod differential;
mod fuzz;
mod guests;
mod run;
mod test;
mod toolchain;

use std::process::ExitCode;

use crate::demo::Demo;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  build                         build the guests and the host, with the built-in controllers embedded
  test [--full] [ARGUMENT…]     build, then run every test, or those that the arguments of `cargo test` name; with
                                --full, what goes on for a minute goes on for five
  demo [--once]                 play the life of a Deployment on a local control plane; stay up, or end after it
  demo --kubeconfig FILE        play the greeter's story on a cluster of your own, in one namespace, removed after
  differential [--only NAME]    play scenarios, and compare with what the stock kube-controller-manager leaves behind;
               [--full]         three times
  differential --bless          have the stock kube-controller-manager play them, and keep what it leaves behind
  bench [--quick|--keep] [WORKLOAD…]
                                measure what the same work costs under the built host and under stock, in turn, and what
                                calling a guest, plugins that misbehave and plugins that do nothing cost: all but `hostile`,
                                or those named (tests/bench/README.md lists them); with --quick, all, small and once;
                                with --keep, the figures of those named go into docs/
  fuzz [--seconds N] [TARGET…]  feed what the outside reaches with inputs that nobody would write, for 60 s each; what fails
                                becomes a part of tests/fuzz/corpus
  guests [rust] [go] [python]   build the guests into target/guests/components; without a language, all of them
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["build"] => build::all().map(|built| println!("{}", built.host.display())),
        ["test", arguments @ ..] => test::run_all(arguments),
        ["demo"] => demo::run(&Demo::default()),
        ["demo", "--once"] => demo::run(&Demo {
            once: true,
            ..Demo::default()
        }),
        ["demo", "--kubeconfig", file] => demo::run(&Demo {
            kubeconfig: Some(file.into()),
            ..Demo::default()
        }),
        ["differential", arguments @ ..] => differential::run(arguments),
        ["bench", arguments @ ..] => bench::measure(arguments),
        ["fuzz", arguments @ ..] => fuzz::feed(arguments),
        ["guests", languages @ ..] => guests::build(languages),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
