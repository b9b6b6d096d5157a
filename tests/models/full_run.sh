#!/bin/sh
# The recorded full-size run, all 42 blocks, and the ten-row request, against torch's bytes: full_run.sh VERDIT FOLDER
# Needs 11 GB of disk in FOLDER (the model stays there for the next time; MOSS names one made before) and minutes to an hour.
set -eu
verdit=$1
folder=$2
here=$(dirname "$0")
data=$here/../data/moss
model=${MOSS:-$folder/moss}
mkdir -p "$folder"

[ -e "$model/config.json" ] || "$verdit" synth "$model" --shape moss --seed 1 --progress
"$verdit" synth --shape moss --inputs "$folder/in.safetensors" --latents 32x32 --text-rows 64 --t 910
"$verdit" run -m "$model" -i "$folder/in.safetensors" -o "$folder/out.safetensors" --match torch2.11-h200 --progress \
    --tap 'time,mod,head_mod,video,text.*,x.*,b20.*'
python3 "$here/compare_recorded.py" "$folder/out.safetensors" "$data/run.safetensors"

# cuBLAS splits K in many of this one's linears: 74 rows, block 22 left out
python3 "$here/cut_request.py" "$folder/in.safetensors" "$folder/in10.safetensors" 10 8 1000
"$verdit" run -m "$model" -i "$folder/in10.safetensors" -o "$folder/out10.safetensors" --match torch2.11-h200 --skip 22 --tap 'text.*' --progress
python3 "$here/compare_recorded.py" "$folder/out10.safetensors" "$data/t10.safetensors"
