#!/bin/sh
# Builds dist/lingua-scheduler_VERSION_ARCH.deb: the program in /opt/lingua/.venv, units, and what makes their user and folders.
# It is for the release of Debian or Ubuntu on which it is built, because it uses that release's Python. PYTHON is one that has pip.
set -eu
cd "$(dirname "$0")/../.."

fail() { echo "deb: $*" >&2; exit 1; }
system=/usr/bin/python3
[ -x $system ] || fail "there is no $system; install python3"
command -v dpkg-deb >/dev/null || fail "dpkg-deb is not here: the package can be built on Debian and Ubuntu only"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
minor=$($system -c 'import sys; print(sys.version_info[1])')
arch=$(dpkg --print-architecture)
python=${PYTHON:-python3}
case $python in /*) ;; */*) python=$PWD/$python ;; esac
pip="$python -m pip"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
root=$work/root
umask 022

# The program, as it will be in its place: without pip, and compiled, because its services may not write there.
$system -m venv --without-pip --symlinks "$root/opt/lingua/.venv"
$pip --python "$root/opt/lingua/.venv/bin/python" install --quiet --disable-pip-version-check --no-compile \
  --require-hashes --only-binary :all: -r requirements/image.lock
for part in lingua-sdk .; do
  (cd $part && "$python" -m hatchling build -t wheel -d "$work" >/dev/null)
done
$pip --python "$root/opt/lingua/.venv/bin/python" install --quiet --disable-pip-version-check --no-compile --no-index --no-deps "$work"/*.whl
grep -rlI "$root" "$root/opt/lingua/.venv/bin" "$root/opt/lingua/.venv/pyvenv.cfg" | xargs sed -i "s#$root##g"
find "$root" -name direct_url.json -delete
$system -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$root" "$root/opt/lingua/.venv/lib"

install -d "$root/usr/bin" "$root/etc/lingua" "$root/usr/lib/systemd/system" "$root/usr/lib/sysusers.d" \
  "$root/usr/lib/tmpfiles.d" "$root/usr/share/doc/lingua-scheduler" "$root/DEBIAN"
ln -s /opt/lingua/.venv/bin/lingua "$root/usr/bin/lingua"
install -m 0644 deploy/systemd/*.service "$root/usr/lib/systemd/system/"
install -m 0644 deploy/systemd/sysusers.conf "$root/usr/lib/sysusers.d/lingua.conf"
install -m 0644 deploy/systemd/tmpfiles.conf "$root/usr/lib/tmpfiles.d/lingua.conf"
install -m 0640 deploy/lingua.toml "$root/etc/lingua/lingua.toml"
install -m 0640 deploy/systemd/node.env "$root/etc/lingua/node.env"
install -m 0644 LICENSE "$root/usr/share/doc/lingua-scheduler/copyright"

cat >"$root/DEBIAN/control" <<END
Package: lingua-scheduler
Version: $version
Architecture: $arch
Maintainer: The Lingua Scheduler authors <noreply@example.com>
Section: net
Priority: optional
Depends: python3 (>= 3.$minor~), python3 (<< 3.$((minor + 1))), procps, systemd (>= 250)
Recommends: libjemalloc2
Installed-Size: $(du -sk "$root" | cut -f1)
Description: Scheduler for real-time speech translation on a fleet of nodes
 It distributes live speech translation over GPU machines: clients stream audio over WebSocket, and each utterance
 becomes a job of a node. An embedded Valkey is included; several schedulers share a Redis of your own.
END
printf '/etc/lingua/lingua.toml\n/etc/lingua/node.env\n' >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
systemd-sysusers lingua.conf
systemd-tmpfiles --create lingua.conf || true # as Debian's own packages: where there is no /proc
[ ! -d /run/systemd/system ] || systemctl daemon-reload
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now lingua.service 'lingua@*.service' lingua-node.service || true
fi
END
cat >"$root/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
[ "$1" != purge ] || rm -rf /var/lib/lingua /var/lib/lingua-node /etc/lingua
[ ! -d /run/systemd/system ] || systemctl daemon-reload
END
chmod 0755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"

mkdir -p dist
dpkg-deb -Zzstd --root-owner-group --build "$root" "dist/lingua-scheduler_${version}_$arch.deb" >/dev/null
echo "dist/lingua-scheduler_${version}_$arch.deb"
