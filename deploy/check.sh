#!/bin/sh
# Lints the files of deploy/ and .github/: `make check-deploy` gives the folder of the linters (requirements/deploy.lock).
# Each part looks only at files that are there, so parts can be added in any order.
set -eu
cd "$(dirname "$0")/.."
bin=${1:?the folder of the linters}
PATH=$bin:$PATH

say() { echo "check-deploy: $*"; }

for file in deploy/container/Containerfile*; do
  [ -f "$file" ] || continue
  say "hadolint $file"
  hadolint "$file"
done

for file in deploy/compose/*.yaml; do
  [ -f "$file" ] || continue
  say "compose schema $file"
  check-jsonschema --quiet --builtin-schema vendor.compose-spec "$file"
done

if [ -d .github/workflows ]; then
  say "workflows"
  check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
  zizmor --offline --quiet --no-progress .github
fi
if [ -f .github/dependabot.yml ]; then
  check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
fi

# Higher figures are worse: 10 is a service without any restriction.
if command -v systemd-analyze >/dev/null; then
  for unit in deploy/systemd/*.service; do
    say "systemd $unit"
    systemd-analyze security --offline=true --threshold=20 "$unit" >/dev/null ||
      { echo "$unit leaves more than 2.0 of the machine open: systemd-analyze security --offline=true $unit"; exit 1; }
  done
else
  say "skipped: scores of units (systemd-analyze is not on this machine)"
fi
