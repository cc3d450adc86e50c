#!/usr/bin/env bash
# Runs in a fresh root: a CMake project gets the source archive by FetchContent.
set -euxo pipefail
archive=/share/dist/gnomon-$VERSION.tar.gz
cmake -S /share/packages/fetch_content -B /build -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 \
  "-DARCHIVE=file://$archive" "-DARCHIVE_SHA256=$(sha256sum "$archive" | cut -d' ' -f1)" -DEXAMPLE=/share/first.cc
cmake --build /build -j"$JOBS" --target first
/build/first
echo 'packages: fetch_content: first.cc runs'
