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

# As compose reads it: the environment goes before the file, the last line of a name counts. `export NAME=value` and
# `NAME: value` are lines too; quotes, blanks around and what follows ` #` are not part of a value. One that begins with
# # is a comment behind nothing, though compose would take it for a password.
value_of() {
  printenv "$1" || LC_ALL=C awk -v name="$1" '
    NR == 1 { sub(/^\357\273\277/, "") }
    { sub(/^[ \t]*(export[ \t]+)?/, "") }
    match($0, /^[A-Za-z0-9_]+[ \t]*[=:]/) {
      key = substr($0, 1, RLENGTH - 1)
      sub(/[ \t]+$/, "", key)
      if (key != name) next
      value = substr($0, RLENGTH + 1)
      sub(/^[ \t\r]+/, "", value)
      if (match(value, /^"([^"\\]|\\.)*"/) || match(value, /^\047([^\047\\]|\\.)*\047/)) {
        value = substr(value, 2, RLENGTH - 2)
      } else {
        sub(/(^#| #).*/, "", value)
        sub(/[ \t\r]+$/, "", value)
      }
    }
    END { print value }' .env
}

settings=$(value_of CRAWL_CONFIG)
case "$settings" in
  "~/"*) settings=$HOME/${settings#"~/"} ;;
esac
case "$settings" in
  "" | *\$*) ;; # with a variable in it compose knows better
  *) [ -f "$settings" ] || refuse "CRAWL_CONFIG is $settings, and there is no such file" ;;
esac

for name in HEADRACE_CONTACT POSTGRES_PASSWORD GRAFANA_PASSWORD; do
  value=$(value_of "$name" | tr '[:upper:]' '[:lower:]')
  case "$(printf %s "$value" | tr -d ' _-')" in
    "") refuse "$name is empty: set it in .env" ;;
    changeme | password | postgres | admin | headrace | secret | example)
      refuse "$name is an example's, which anyone may know: set your own in .env" ;;
  esac
done
value=$(value_of HEADRACE_CONTACT | tr '[:upper:]' '[:lower:]')
if printf %s "$value" | grep -Eq '(^|[@/.])(example\.(org|com|net)|[a-z0-9-]+\.(example|invalid|test))($|[/:?#> ,;)])'; then
  refuse "HEADRACE_CONTACT is an example's, and reaches nobody: set your own e-mail address or URL in .env"
fi
