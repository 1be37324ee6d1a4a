#!/usr/bin/env bash
# Installs a real VS Code (code-server) and Chromium for the editor test.
# usage: install.sh FOLDER
#
# Exits 0 when everything is there, and 77, with the reason in FOLDER/skipped, when this machine
# cannot install it (no package manager, no network). A second run installs nothing.
set -euo pipefail

home=${1:?usage: install.sh FOLDER}
code_server=4.139.1
node=24.22.1
playwright=1.65.1
wanted="$code_server $node $playwright"

mkdir -p "$home"
home=$(cd "$home" && pwd)
rm -f "$home/skipped"

skip() {
  echo "$*" >"$home/skipped"
  echo "The editor test cannot run here: $*" >&2
  exit 77
}

find_chromium() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

if ! find_chromium >/dev/null; then
  command -v apt-get >/dev/null || skip "no Chromium, and no apt-get to install it; set CHROMIUM"
  echo "Installing Chromium"
  {
    as_root apt-get update -q &&
      DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -q --no-install-recommends \
        chromium fonts-dejavu-core
  } >"$home/apt.log" 2>&1 || skip "apt-get cannot install chromium: $(tail -n 1 "$home/apt.log")"
  find_chromium >/dev/null || skip "apt-get installed chromium, but it is not on the path"
fi
find_chromium >"$home/chromium"

if [ "$(cat "$home/installed" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

command -v npm >/dev/null || skip "npm is missing"
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  *) skip "code-server is installed from npm on Linux only" ;;
esac
export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
export npm_config_loglevel=error

npm_install() { # npm_install FOLDER ARGUMENTS: one retry, since registries hiccup
  local folder=$1
  shift
  mkdir -p "$folder"
  [ -f "$folder/package.json" ] || echo '{"private": true}' >"$folder/package.json"
  local attempt
  for attempt in 1 2; do
    if (cd "$folder" && npm install --ignore-scripts "$@") >>"$home/npm.log" 2>&1; then
      return 0
    fi
    echo "npm install $* failed (attempt $attempt), see $home/npm.log" >&2
  done
  skip "npm cannot install $*: $(tail -n 1 "$home/npm.log")"
}

rm -rf "$home/node" "$home/code" "$home/driver" "$home/installed" "$home/npm.log"
echo "Installing Node $node"
npm_install "$home/node" "node-$platform@$node"
mkdir -p "$home/bin"
ln -sf "$home/node/node_modules/node-$platform/bin/node" "$home/bin/node"
"$home/bin/node" --version

echo "Installing code-server $code_server"
export PATH="$home/bin:$PATH"
npm_install "$home/code" "code-server@$code_server"
vscode="$home/code/node_modules/code-server/lib/vscode"
npm_install "$vscode" --omit=dev
npm_install "$vscode/extensions" --omit=dev
rm -rf "$vscode"/node_modules/@github/copilot-sdk-linux* "$vscode/extensions/copilot"

echo "Installing playwright-core $playwright"
npm_install "$home/driver" "playwright-core@$playwright"

echo "$wanted" >"$home/installed"
