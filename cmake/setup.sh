# Sourced by run.sh and test.sh, which work in the repository root.
# need [PART...]: installs the Debian packages that are missing for the simulator and these parts of it: predictor, python,
# tests, distribution (Debian packages and man pages).
# build [TARGET...]: brings the targets up to date, or all. build/ is configured with the needed parts and those it has.
# Progress goes to stderr after 3 s, what the compiler says only if it fails.

declare -A packages=(
  [simulator]="g++ cmake ninja-build pkg-config ccache libsimgrid-dev libeigen3-dev libsvm-dev libboost-dev libcli11-dev
               nlohmann-json3-dev zlib1g-dev libsqlite3-dev libprotobuf-dev protobuf-compiler libpcap-dev libcpp-httplib-dev"
  [predictor]="libtorch-dev libopenblas0-pthread libxgboost-dev"
  [python]="python3-dev pybind11-dev python3-pip python3-setuptools python3-wheel python3-venv"
  [tests]="doctest-dev chromium python3 python3-yaml parallel clang-tidy clang-format iproute2 iptables ethtool procps"
  [distribution]="python3 help2man dpkg-dev file"
)
declare -A option=([predictor]=REHEARSE_PREDICTOR [python]=REHEARSE_PYTHON [tests]=BUILD_TESTING)

need() {
  parts=("$@")
  local part wanted=(${packages[simulator]})
  for part in predictor python tests distribution; do
    if is_needed "$part" || is_configured "$part"; then wanted+=(${packages[$part]}); fi
  done
  install_missing "${wanted[@]}"
}

is_needed() { [[ " ${parts[*]} " == *" $1 "* ]]; }
is_configured() { [ -v "option[$1]" ] && [ -f build/build.ninja ] && grep -qixE "${option[$1]}:[a-z]+=(on|true|yes|y|1)" build/CMakeCache.txt; }

install_missing() {
  command -v dpkg-query > /dev/null || return 0  # another system: CMake names what is missing
  local missing=() installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2> /dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<< "$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0

  echo "installing ${missing[*]}" >&2
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || { echo "error: as root, run: apt-get install ${missing[*]}" >&2; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || return 1
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

build() {
  local log=build/build.log status=0 alive
  mkdir -p build
  exec {alive}> >(report_progress "$log")  # which ends when this closes, however we end
  {
    flock 9  # two builds at once would spoil each other
    { configure && NINJA_STATUS="[%f/%t %e] " ninja -C build "$@"; } > "$log" 2>&1 < /dev/null 9>&- {alive}>&- || status=$?
  } 9> build/.lock
  exec {alive}>&-
  wait $!
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
    echo "error: the build failed; all of its output is in $PWD/$log" >&2
  fi
  return "$status"
}

configure() {
  local part settings=() is_stale=0 cache=build/CMakeCache.txt
  [ -f build/build.ninja ] || is_stale=1
  for part in predictor python tests; do
    if is_configured "$part"; then
      settings+=("-D${option[$part]}=ON")
    elif is_needed "$part"; then
      settings+=("-D${option[$part]}=ON")
      is_stale=1
    else
      settings+=("-D${option[$part]}=OFF")
    fi
  done
  [ "$is_stale" -eq 1 ] || return 0

  if [ -f "$cache" ]; then cp -p "$cache" "$cache.before"; fi
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "${settings[@]}" && return
  if [ -f "$cache.before" ]; then mv "$cache.before" "$cache"; fi  # what was configured can still be built
  return 1
}

# report_progress LOG: how far ninja is, once a second on a terminal, otherwise every 10 s, until stdin ends.
report_progress() {
  local pause=3
  while read -rt "$pause" || [ $? -gt 128 ]; do
    if [ -t 2 ]; then
      printf '\r%s\e[K' "$(progress_text < "$1")" >&2
      pause=1
    else
      progress_text < "$1" >&2
      pause=10
    fi
  done
  if [ "$pause" -eq 1 ]; then printf '\r\e[K' >&2; fi
}

# progress_text < LOG: a line from the last status, "[files built/files to build seconds]", in ninja's output.
progress_text() {
  awk '
    match($0, /^\[[0-9]+\/[0-9]+ [0-9.]+\]/) { split(substr($0, 2, RLENGTH - 2), status, /[\/ ]/) }
    END {
      built = status[1] + 0; all = status[2] + 0
      if (!built) { print "building ..."; exit }
      left = int((status[3] / built * (all - built) + 4.999) / 5) * 5  # seconds, in steps of 5
      time = left % 60 ? left % 60 " s" : ""
      if (left >= 60) time = int(left / 60) " min" (time ? " " time : "")
      printf "building: %d of %d files%s\n", built, all, left ? ", about " time " left" : ""
    }'
}
