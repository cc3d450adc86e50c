# The lab on a machine with an NVIDIA GPU, from nothing. The machine requires Docker, the driver of
# the GPU and the NVIDIA Container Toolkit. In the folder of the repository:
#
#   docker build -t gnomon-lab -f tools/cuda.Dockerfile .
#   docker run --rm --gpus all -v "$PWD/out:/gnomon/out" gnomon-lab
#   docker run --rm --gpus all -v "$PWD/out:/gnomon/out" gnomon-lab \
#     make lab TORCH=pypi LAB_FLAGS="--device=cuda --encodings rotary,t5 --out out/second"
#
# The lab requires CMake 3.25, so Ubuntu 24.04 or Debian 12. It runs with the CUDA libraries of
# PyPI's wheels, so --build-arg BASE=debian:12 is enough for it. The toolkit of the default image
# (nvcc) is for code that compiles CUDA kernels.
ARG BASE=nvidia/cuda:13.0.2-devel-ubuntu24.04
FROM ${BASE}

# `docker run --gpus` mounts the driver into images with these variables, also into debian:12.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates make python3 python3-venv

# Packages and torch (6 GB) are layers of their own, which a change of the sources does not rebuild.
WORKDIR /gnomon
COPY tools/setup.sh tools/torch2.sh tools/
RUN tools/setup.sh pypi && tools/torch2.sh install

COPY . .
RUN make build TORCH=pypi

CMD ["make", "lab", "TORCH=pypi", "LAB_FLAGS=--device=cuda --out out/report"]
