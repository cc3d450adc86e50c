#!/usr/bin/env bash
# Runs in a fresh root: Conan builds, packages and uses the library with the recipe. Highway and the other libraries
# are those of Debian, because Conan's own need Conan Center.
set -euxo pipefail
export CONAN_HOME=/conan
python3 -m venv /venv
/venv/bin/python -m pip --disable-pip-version-check install --no-index --find-links /share/wheels conan
PATH=/venv/bin:$PATH
conan profile detect
conan remote disable '*'
# The source archive is a local file here; the recipe's checksum is still compared.
sed -i "s|url: .*|url: \"file:///share/dist/gnomon-$VERSION.tar.gz\"|" /share/dist/recipes/conan/conandata.yml
conan create /share/dist/recipes/conan -o '&:system_dependencies=True' -s compiler.cppstd=20 -s build_type=Debug \
  -c "tools.build:jobs=$JOBS" -c "tools.build:cxxflags=['-O0', '-g0']" -c tools.cmake.cmaketoolchain:generator=Ninja
conan list "gnomon/$VERSION:*"
conan list "gnomon/$VERSION" | grep -F "gnomon/$VERSION"
echo "packages: conan: conan create gnomon/$VERSION passes with its test_package"
