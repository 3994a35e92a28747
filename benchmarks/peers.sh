#!/usr/bin/env bash
# Install the libraries that thermoset is measured against into the given Python. One that cannot be installed is
# left out, and its lines in the tables say so.
set -euo pipefail
python=$1

have() { "$python" -c 'import importlib.metadata as m, sys; m.version(sys.argv[1])' "$1" 2>/dev/null; }
install() {
    local package=$1
    shift
    have "$package" || "$python" -m pip install --quiet "$@" "$package" || echo "bench: $package is left out" >&2
}

install mapie
install crepes
install probmetrics
# TorchCP asks for torchsort (compiled), torchvision, torch_geometric and transformers even to compute APS; they
# cannot all be installed on a plain CPU machine. benchmarks/peers.py stands in for them; tqdm it does use.
install tqdm
install torchcp --no-deps
