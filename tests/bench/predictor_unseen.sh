#!/usr/bin/env bash
# What our network makes of what it has not seen, one thread:  tests/bench/predictor_unseen.sh DATASET FOLDER
#   each family of models left out of the training (an eighth of the graphs of DATASET, 8 epochs), then predicted
#   a setting left out, then learnt from 1/8 of its graphs, beside a training on all of them
# DATASET: generate scenarios/spaces/reference.json --count 20160. Goes on where it was interrupted.
set -euo pipefail

data=$(readlink -f "$1") folder=$(mkdir -p "$2" && readlink -f "$2")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
short=(--epochs 8 --share 0.125 --quiet)
train() {  # NAME DATASET OPTIONS...: the seconds that it took go to NAME.s
  local name=$1 start=$(date +%s.%N)
  shift
  [ -e "$folder/$name.s" ] && return
  build/rehearse train "$1" -o "$folder/$name" "${@:2}" >/dev/null
  awk "BEGIN { printf \"%.1f\\n\", $(date +%s.%N) - $start }" >"$folder/$name.s"
}
errors() {  # NAME DATASET OPTIONS...: median error over the metrics, of the worst metric, R2
  build/rehearse compare "$folder/$1" "$2" "${@:3}" --no-baselines --json | python3 -c '
import json, sys
score = next(iter(json.load(sys.stdin)["origins"]["simulated"]["predictors"].values()))
print("%6.2f %% %6.2f %% %7.3f" % (score["median_ape"], score["worst_median_ape"], score["r2"]))'
}

echo "left out         median APE, worst metric, R2"
for family in densenet gnmt inception lstm mobilenet_v2 resnet resnet_v2 transformer translation vgg zoo; do
  train "without-$family" "$data" --leave-out-family $family "${short[@]}"
  printf '%-15s %s\n' $family "$(errors "without-$family" "$data" --family $family)"
done

setting=driple/12-2080ti-ps5-w5
[ -e "$folder/setting.db" ] ||
  build/rehearse generate scenarios/spaces/reference.json --setting $setting --seed 2 --count 1280 --quiet -o "$folder/setting.db" >/dev/null
train others "$data" --leave-out-setting $setting "${short[@]}"
train whole "$folder/setting.db" --epochs 24 --quiet
train eighth "$folder/setting.db" --epochs 18 --share 0.125 --transfer-from "$folder/others" --quiet
echo "$setting"
for name in others whole eighth; do
  printf '%-15s %s  %s s of training\n' $name "$(errors $name "$folder/setting.db")" "$(cat "$folder/$name.s")"
done
