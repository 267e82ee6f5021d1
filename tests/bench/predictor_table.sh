#!/usr/bin/env bash
# Our network, the four published ones and simple predictors on the same graphs: 320 graphs in each of four of Driple's
# settings, 192 to train, 64 to stop early, 64 unseen ones to test; at most 30 epochs each, one thread:
#   tests/bench/predictor_table.sh FOLDER        goes on where it was interrupted
# The published networks are trained as published (hidden 64, constant rate, one network for each setting; GAT and MPNN
# with log2 N instead of N / 2 convolutions, which would take hours), ours once for all four settings.
set -euo pipefail

folder=$(mkdir -p "$1" && readlink -f "$1")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
settings=("driple/01-v100-ps1-w2 synchronous" "driple/04-2080ti-ps1-w3 asynchronous" "driple/09-2080ti-ps4-w4 synchronous" "driple/12-2080ti-ps5-w5 asynchronous")
chosen=()
for setting in "${settings[@]}"; do chosen+=(--setting "$setting"); done

[ -e "$folder/data.db" ] || build/rehearse generate scenarios/spaces/reference.json "${chosen[@]}" --count 1280 -o "$folder/data.db"
train() {  # NAME OPTIONS...: the seconds that it took go to NAME.s
  local name=$1 start=$SECONDS
  shift
  [ -e "$folder/$name.s" ] && return
  build/rehearse train "$folder/data.db" -o "$folder/$name" --epochs 30 --quiet "$@" >/dev/null
  echo $((SECONDS - start)) >"$folder/$name.s"
}
train profile
for i in 0 1 2 3; do
  for network in gcn gin gat mpnn; do
    rule=Nover2
    case $network in gat | mpnn) rule=log2N ;; esac
    train "$network-$i" --network $network --iterations $rule --constant-lr --fixed-batches --setting "${settings[i]}"
  done
  build/rehearse compare "$folder"/{profile,gcn-$i,gin-$i,gat-$i,mpnn-$i} "$folder/data.db" --setting "${settings[i]}" \
    -o "$folder/comparison-$i" >/dev/null
done
python3 tests/bench/predictor_table.py "$folder" "${settings[@]}"
