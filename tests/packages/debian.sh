#!/usr/bin/env bash
# Runs in a fresh root: installs the Debian packages with apt, uses them, removes them.
set -euxo pipefail
cd /tmp
export DEBIAN_FRONTEND=noninteractive
readonly debs=/share/dist/debian
install=(apt-get install -y --no-install-recommends)
say() { echo "packages: debian: $*"; }
apt-get update

# The program and the Python package, with nothing but their dependencies.
"${install[@]}" "$debs"/gnomon_*.deb "$debs"/python3-gnomon_*.deb
[[ -z $(command -v g++ cmake) ]]
gnomon --version | grep -F "$VERSION"
names=$(gnomon list | wc -l)
gnomon inspect /share/config.json | tee inspected
grep -q 500000 inspected
gnomon plot similarity -o similarity.html
(($(stat -c %s similarity.html) > 500000)) # contains the script
[[ $(gnomon lab 2>lab.txt && echo 0 || echo $?) == 2 ]]
grep -F 'gnomon-lab must be installed' lab.txt
python3 /share/packages/use.py /share/config.json
say "gnomon list prints $names lines"

# Everything, for C and C++.
"${install[@]}" g++ cmake ninja-build pkg-config "$debs"/libgnomon*.deb
for library in /usr/lib/*/libgnomon_*.so.0; do
  ! ldd -r "$library" 2>&1 | grep -F 'undefined symbol' || exit 1
done
use_libraries() {
  cp -R /share/packaging /tmp/packaging
  packaging/pkg_config.sh /usr/lib gnomon /share/first.cc ./first
  packaging/pkg_config.sh /usr/lib gnomon-core /share/rotary.c ./rotary
  local how
  for how in find_package core c; do
    local example=/share/first.cc
    [[ $how != c ]] || example=/share/rotary.c
    cmake -S packaging/$how -B build/$how -G Ninja -DEXAMPLE=$example
    cmake --build build/$how
  done
  build/find_package/first
  build/core/core
  build/c/rotary
  ldd first | grep -F libgnomon_core.so.0
}
use_libraries
say 'first.cc and rotary.c run, built by pkg-config and by CMake'

# Nothing is left after the packages are removed.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /share -o -path /var/lib/dpkg \
    -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /run \) -prune -o -print | sort
}
packages=(gnomon python3-gnomon libgnomon0 libgnomon-dev)
apt-get purge -y "${packages[@]}"
files >before
"${install[@]}" "$debs"/*.deb
gnomon list >/dev/null
python3 /share/packages/use.py /share/config.json
ldconfig -p | grep -F libgnomon_report.so.0
apt-get purge -y "${packages[@]}"
files >after
diff before after
[[ -z $(find / -xdev -name '*gnomon*' -not -path '/share/*' -not -path '/tmp/*' -not -path '/proc/*') ]]
[[ -z $(dpkg-query -W -f '${Package}\n' '*gnomon*' 2>/dev/null) ]]
say 'nothing is left after apt-get purge'
