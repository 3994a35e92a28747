#!/usr/bin/env bash
# The heavy optional parts that `make STRICT=1` insists on: PyTorch (CPU) and Chromium.
set -euo pipefail
python=$1

"$python" -c 'import torch' 2>/dev/null || "$python" -m pip install --quiet 'torch==2.13.0'

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "STRICT=1 needs Chromium, and there is no apt-get to install it with. Install it and run again." >&2
        exit 1
    fi
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
