#!/usr/bin/env bash
# Usage: pkg_config.sh PREFIX EXAMPLE FOLDER. Compiles the example by hand with what pkg-config
# says, and runs it.
set -euo pipefail
PKG_CONFIG_PATH=$(dirname "$(find "$1" -name gnomon.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs gnomon)"
"${CXX:-g++}" -std=c++20 "$2" "${flags[@]}" -o "$3/by_pkg_config"
"$3/by_pkg_config"
