//! The `symbolicate` binary; what it does stands in [`wedjat::symbolicate::command`].

fn main() -> std::process::ExitCode {
    wedjat::symbolicate::command::main()
}
