#!/usr/bin/env bash
# Usage: pkg_config.sh PREFIX PACKAGE SOURCE PROGRAM. Compiles the source (.cc or .c) with the flags
# that pkg-config prints for the package, and runs the program.
set -euo pipefail
prefix=$1 package=$2 source=$3 program=$4
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name "$package.pc")")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs "$package")"
compile=("${CXX:-g++}" -std=c++20)
[[ $source != *.c ]] || compile=("${CC:-cc}" -std=c11)
"${compile[@]}" "$source" "${flags[@]}" -lm -o "$program"
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$program"
