//! The `symbolicate` binary, see [`wedjat::symbolicate::command`].

fn main() -> std::process::ExitCode {
    wedjat::symbolicate::command::main()
}
