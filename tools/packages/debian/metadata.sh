#!/bin/sh
# Usage: metadata.sh DIST_PACKAGES. Writes the metadata by which Python's tools know the installed package.
set -eu
version=$(dpkg-parsechangelog -S Version | sed 's/-[^-]*$//')
folder=$1/gnomon-$version.dist-info
mkdir -p "$folder"
cat >"$folder/METADATA" <<METADATA
Metadata-Version: 2.1
Name: gnomon
Version: $version
Summary: Positional encodings for Transformers: exact, fast, trainable
License: MIT
Requires-Python: >=3.10
Requires-Dist: numpy>=1.24
METADATA
echo dpkg >"$folder/INSTALLER"
