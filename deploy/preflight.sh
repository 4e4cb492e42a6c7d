#!/bin/sh
# Says in one line what keeps the fleet from starting, before Docker says it in many. Called by the Makefile.
set -eu
cd "$(dirname "$0")/.."

refuse() {
  echo "headrace: $1" >&2
  exit 2
}

docker compose version >/dev/null 2>&1 ||
  refuse "this needs Docker with its compose plugin (v2), and \`docker compose version\` fails; without Docker: make crawl"
docker info >/dev/null 2>&1 || refuse "no Docker engine answers (\`docker info\` fails): is it running, and may you use it?"
[ -f .env ] || refuse "there is no .env yet: cp .env.example .env, then set HEADRACE_CONTACT, POSTGRES_PASSWORD and GRAFANA_PASSWORD in it"

# As compose reads it: the environment goes before the file, quotes are not part of a value.
value_of() {
  value=$(printenv "$1") || value=$(sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*//p" .env | tail -n 1)
  printf %s "$value" | sed -E "s/[[:space:]]+#.*$//; s/[[:space:]]+$//; s/^(['\"])(.*)\1$/\2/"
}

settings=$(value_of CRAWL_CONFIG)
[ -z "$settings" ] || [ -f "$settings" ] || refuse "CRAWL_CONFIG is $settings, and there is no such file"

for name in HEADRACE_CONTACT POSTGRES_PASSWORD GRAFANA_PASSWORD; do
  case "$(value_of "$name")" in
    "") refuse "$name is empty: set it in .env" ;;
    you@example.org | changeme | change-me | password | postgres | admin | headrace | secret)
      refuse "$name is an example's, which anyone may know: set your own in .env" ;;
  esac
done
