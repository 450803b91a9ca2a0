# Where the toolchain lives and which versions it is made of. Sourced by the scripts beside it.
# shellcheck shell=bash

# Everything that is made or downloaded goes here; nothing is written into the source tree.
APPLE_CACHE=${WEDJAT_APPLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wedjat-apple}

# The machine, made by `run`; its CPU, Unicorn, by `setup`.
EMULATOR=$APPLE_CACHE/machine/debug/emulator
machine() { # BUILD-OR-CLIPPY [OPTION...]
  local command=$1; shift
  PKG_CONFIG_PATH=$APPLE_CACHE/unicorn cargo "$command" -q --manifest-path "$(dirname "${BASH_SOURCE[0]}")/Cargo.toml" --target-dir "$APPLE_CACHE/machine" "$@"
}

# One LLVM for all: compiler, linker, dsymutil and the tools that give the golden outputs.
LLVM=22
LLVM_BIN=/usr/lib/llvm-$LLVM/bin

# Headers, libSystem's list of symbols and the sources of libunwind and libc++abi.
ZIGLANG=0.17.0

# The processors, of an interface like that of the crate in emulator/Cargo.toml.
UNICORN=2.1.4

# The compiler with the standard library's sources, as Debian ships it for building browsers.
RUSTC=/usr/bin/rustc
RUST_SRC=/usr/lib/rustlib/src/rust

# Device and simulators; with IOS=device, that alone.
IOS_TARGETS='aarch64-apple-ios aarch64-apple-ios-sim x86_64-apple-ios'
[ "${IOS:-}" != device ] || IOS_TARGETS=aarch64-apple-ios

# Sets SDK, TRIPLE, MINIMUM and ARCH for a Rust target.
apple_target() {
  case $1 in
    aarch64-apple-darwin)  ARCH=arm64  SDK=$APPLE_CACHE/sdk/macos TRIPLE=arm64-apple-macos13 ;;
    x86_64-apple-darwin)   ARCH=x86_64 SDK=$APPLE_CACHE/sdk/macos TRIPLE=x86_64-apple-macos13 ;;
    aarch64-apple-ios)     ARCH=arm64  SDK=$APPLE_CACHE/sdk/ios TRIPLE=arm64-apple-ios14 ;;
    aarch64-apple-ios-sim) ARCH=arm64  SDK=$APPLE_CACHE/sdk/ios-simulator TRIPLE=arm64-apple-ios14-simulator ;;
    x86_64-apple-ios)      ARCH=x86_64 SDK=$APPLE_CACHE/sdk/ios-simulator TRIPLE=x86_64-apple-ios14-simulator ;;
    *) echo "$0: unknown target '$1'; known: {aarch64,x86_64}-apple-darwin, aarch64-apple-ios, aarch64-apple-ios-sim, x86_64-apple-ios" >&2
       return 2 ;;
  esac
}
