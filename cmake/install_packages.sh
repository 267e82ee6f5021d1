# Sourced by run.sh and test.sh, which work in the repository root.
# install_packages: the Debian packages that are missing.  build: brings build/ up to date, without output unless it fails.

packages=(g++ cmake ninja-build pkg-config ccache libsimgrid-dev libeigen3-dev libboost-dev libcli11-dev
          nlohmann-json3-dev doctest-dev zlib1g-dev libsqlite3-dev libtorch-dev libopenblas0-pthread
          libprotobuf-dev protobuf-compiler python3)

install_packages() {
  command -v dpkg-query > /dev/null || return 0  # another system: CMake names what is missing
  local missing=() installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2> /dev/null || true)
  for package in "${packages[@]}"; do
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

# build [TARGET...]: all of them without arguments. stdout stays clean; a build of more than 3 s says so on stderr.
build() {
  local log=build/build.log status=0 notice
  mkdir -p build
  (sleep 3 2> /dev/null && echo "building ..." >&2) > /dev/null &  # sleep outlives the kill, so it holds no output of ours
  notice=$!
  {
    flock 9  # two builds at once would spoil each other
    if [ ! -f build/build.ninja ]; then
      cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON
    fi && ninja -C build "$@" 9>&-
  } > "$log" 2>&1 < /dev/null 9> build/.lock || status=$?
  kill "$notice" 2> /dev/null || true
  wait "$notice" 2> /dev/null || true
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
    echo "error: the build failed; all of its output is in $PWD/$log" >&2
  fi
  return "$status"
}
