#!/bin/sh
# Makes models/moss-small again: a small MOSS-Image of all mechanisms (head_dim 128, both text blocks, a massive channel, a skipped block),
# and its cases recorded from torch. Needs a Python with torch, numpy and safetensors: PYTHON=… models/make_moss_small.sh
# The model's bytes are the same everywhere. A case's reference runs depend on torch and on the CPU (case.json names both), so the cases are
# made once and kept; run this only to change them. `cuda` adds the GPU's run: models/make_moss_small.sh cuda OUT, on a machine with one.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PYTHONPATH=python
small=models/moss-small

if [ "${1:-}" = cuda ]; then
    out=${2:?give the folder to write the cases to}
    for case in case-bf16 case-f32; do
        "$python" -m verdit record $small $small/$case --add-runs cuda --out "$out/$case"
    done
    exit
fi

"$python" -m verdit synth $small/transformer --seed 1 --config \
    '{"dim":256,"ffn_dim":192,"num_heads":2,"num_layers":6,"text_dim":128,"freq_dim":64,"latent_channels":16,"rope_base":10000}'
"$python" -m verdit record $small $small/case-bf16 --size 8x12 --text-rows 40 --t 910 --skip 4 --seed 1 --cuda no --force
"$python" -m verdit record $small $small/case-f32 --size 4x5 --text-rows 12 --t 910 --skip 4 --seed 1 --policy f32 --cuda no --force
