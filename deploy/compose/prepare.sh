#!/bin/sh
# Makes secrets/ for compose.yaml. What is there already stays; users.acl is written again, with the rights of this release.
set -eu
cd "$(dirname "$0")"

# Only you can enter the folder. Within it the files are open, because the users in the containers have other numbers.
umask 022
mkdir -p secrets
chmod 0700 secrets

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in redis_password grafana_password; do
  [ -s "secrets/$name" ] || random >"secrets/$name"
done
# Filled by: docker compose run --rm -T lingua keys create --kind node > secrets/node_key
: >>secrets/node_key

digest=$(sha256sum <secrets/redis_password | cut -d ' ' -f 1)
sed "s/@DIGEST@/$digest/" users.acl >secrets/users.acl
chmod 0644 secrets/*
echo "secrets/ is ready"
