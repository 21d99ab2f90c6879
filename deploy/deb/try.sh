#!/bin/sh
# Installs a package in a fresh Debian made by mmdebstrap, and runs the command of its unit there as the user of the unit.
set -eu
[ "$(id -u)" = 0 ] || { echo "try.sh: only root can make a system; sudo make test-deb" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "try.sh: mmdebstrap is not here: apt-get install mmdebstrap" >&2; exit 1; }
deb=$1
# shellcheck disable=SC1091
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

mmdebstrap --quiet --variant=minbase --include=procps,python3,systemd "$suite" "$root" ${MIRROR:+"$MIRROR"}
mkdir -p "$root/proc"
mount --bind /proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$work"' EXIT
cp "$deb" "$root/package.deb"
chroot "$root" dpkg -i /package.deb
chroot "$root" lingua version
[ "$(chroot "$root" stat -c '%a %U:%G' /etc/lingua/lingua.toml)" = '640 root:lingua' ]

# Where systemd would have made the folder.
chroot "$root" install -d -o lingua -g lingua -m 0700 /var/lib/lingua
user=$(chroot "$root" id -u lingua)
group=$(chroot "$root" id -g lingua)
start=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/lingua.service")
# shellcheck disable=SC2086
chroot --userspec="$user:$group" "$root" env LINGUA_CONFIG=/etc/lingua/lingua.toml LINGUA_SERVER_PORT="${PORT:-15010}" $start >"$work/log" 2>&1 &
pid=$!
tries=0
until chroot "$root" env LINGUA_SERVER_PORT="${PORT:-15010}" lingua health --ready 2>/dev/null; do
  tries=$((tries + 1))
  [ $tries -lt 60 ] || { cat "$work/log"; exit 1; }
  sleep 1
done
kill -TERM $pid
wait $pid || { cat "$work/log"; exit 1; }

chroot "$root" dpkg --purge lingua-scheduler
for left in opt/lingua etc/lingua var/lib/lingua usr/bin/lingua; do
  [ ! -e "$root/$left" ] || { echo "try.sh: /$left is left after a purge" >&2; exit 1; }
done
echo "try.sh: installed, started, stopped and removed"
