#!/bin/sh
# Builds the images lingua-scheduler and lingua-node, with what this machine has: docker, podman or buildah.
#
#   deploy/container/build.sh                  both, from the base that the Containerfile names; if it cannot be pulled and
#                                              mmdebstrap is here, as with BASE=debian
#   deploy/container/build.sh scheduler        one of them
#
# BASE=image       another base with Python 3.11 or newer
# BASE=debian      a base made here by mmdebstrap (as root), and wheels downloaded here: for a machine that reaches Debian and
#                  PyPI, but no registry. The build itself then has no use for a network. SUITE=trixie is the release of Debian.
# MIRROR=url       of Debian, for BASE=debian; without it the usual ones, with security updates
# TAG=0.2.0        the tag; without it the version of the project
# BUILDER=podman   one of the three, if there are several
set -eu
cd "$(dirname "$0")/../.."

fail() { echo "build.sh: $*" >&2; exit 1; }
say() { echo "build.sh: $*" >&2; }

targets=${*:-scheduler node}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tag=${TAG:-$version}
base=${BASE:-}
suite=${SUITE:-trixie}
python=${PYTHON:-python3}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)

builder=${BUILDER:-}
for one in docker podman buildah; do
  [ -n "$builder" ] && break
  case $one in
    docker) docker info >/dev/null 2>&1 && builder=docker ;;
    *) command -v $one >/dev/null && builder=$one ;;
  esac || true
done
[ -n "$builder" ] || fail "there is no docker (with its daemon), podman or buildah here; install one, e.g. apt-get install buildah"

# buildah needs neither a daemon nor namespaces this way; docker format, because OCI's has no health check.
export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
build() {
  case $builder in
    docker) docker build "$@" . ;;
    podman) podman build --format docker "$@" . ;;
    buildah) buildah bud --format docker "$@" . ;;
    *) fail "BUILDER=$builder is none of docker, podman and buildah" ;;
  esac
}

named=$(sed -n 's/^ARG BASE=//p' deploy/container/Containerfile)
if [ -z "$base" ] && ! timeout 300 "$builder" pull "$named" >/dev/null 2>&1; then
  command -v mmdebstrap >/dev/null || fail "$named cannot be pulled; name another BASE, or install mmdebstrap for BASE=debian"
  say "$named cannot be pulled, so the base is made here"
  base=debian
fi

wheels=deploy/container/wheels
set -- --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "CREATED=$created"
rm -rf $wheels
work=$(mktemp -d)
trap 'rm -rf "$work" $wheels' EXIT

if [ "$base" = debian ]; then
  command -v mmdebstrap >/dev/null || fail "BASE=debian needs mmdebstrap: apt-get install mmdebstrap"
  say "a base of Debian $suite ..."
  # Documents and translations are of no use in an image.
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,libjemalloc2,python3,python3-venv \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$work/root" ${MIRROR:+"$MIRROR"}
  chroot "$work/root" /usr/bin/python3 -c 'import json, os, platform, sys
v = sys.version_info
print(json.dumps({"implementation_name": "cpython", "os_name": os.name, "platform_machine": platform.machine(),
  "platform_python_implementation": "CPython", "platform_release": "", "platform_system": "Linux", "platform_version": "",
  "python_full_version": platform.python_version(), "python_version": f"{v[0]}.{v[1]}", "sys_platform": sys.platform,
  "implementation_version": platform.python_version(), "extra": ""}))' >"$work/markers.json"
  base=lingua-base:$suite
  case $builder in
    buildah)
      container=$(buildah from scratch)
      buildah copy --quiet "$container" "$work/root" / >/dev/null
      buildah commit --quiet --format docker "$container" "$base" >/dev/null
      buildah rm "$container" >/dev/null
      base=localhost/$base ;;
    *) tar -C "$work/root" -c . | $builder import - "$base" >/dev/null ;;
  esac
  rm -rf "$work/root"
  locks="requirements/run.lock"
  for target in $targets; do
    case $target in scheduler) locks="$locks requirements/image.lock" ;; node) locks="$locks requirements/speech.lock" ;; esac
  done
  say "wheels of $locks ..."
  # shellcheck disable=SC2086
  "$python" deploy/container/wheels.py $wheels "$work/markers.json" $locks
  set -- "$@" --build-arg "PIP_ARGUMENTS=--no-index --find-links /wheels"
fi
[ -z "$base" ] || set -- "$@" --build-arg "BASE=$base"

for target in $targets; do
  case $target in
    scheduler) name=lingua-scheduler ;;
    node) name=lingua-node ;;
    *) fail "the targets are scheduler and node, not $target" ;;
  esac
  say "$name:$tag with $builder ..."
  build -f deploy/container/Containerfile --target "$target" -t "$name:$tag" "$@"
done
say "built with $builder: $(for target in $targets; do case $target in scheduler) echo "lingua-scheduler:$tag" ;; *) echo "lingua-node:$tag" ;; esac; done | xargs)"
