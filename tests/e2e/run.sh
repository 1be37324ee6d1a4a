#!/usr/bin/env bash
# Opens a real VS Code with the packaged extension and drives it; `make e2e` sets the environment:
# VSIX (the extension), PYTHON (an interpreter with accelopt_lsp), E2E_HOME (folder for the editor).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:?set by make e2e}
: "${VSIX:?set by make e2e}" "${PYTHON:?set by make e2e}"
case $VSIX in /*) ;; *) VSIX=$PWD/$VSIX ;; esac

bash "$here/install.sh" "$home"
home=$(cd "$home" && pwd)
export PATH="$home/bin:$PATH"
entry="$home/code/node_modules/code-server/out/node/entry.js"
server_pid=

stop_server() {
  if [ -n "$server_pid" ]; then
    kill -- "-$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
  fi
}
trap stop_server EXIT

free_port() {
  "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

attempt() {
  local state="$home/state" port
  rm -rf "$state" "$home/shots"
  mkdir -p "$state/data/User" "$state/extensions" "$state/xdg" "$state/workspace" "$home/shots"
  cp "$here"/kernels/* "$state/workspace/"
  export XDG_CONFIG_HOME="$state/xdg" XDG_DATA_HOME="$state/xdg" XDG_CACHE_HOME="$state/xdg"
  export ACCELOPT_DATA_DIR="$state/xdg/accelopt"
  # No extension gallery: the test talks to no outside host.
  export EXTENSIONS_GALLERY='{"serviceUrl": "http://127.0.0.1:9/none"}'
  local options=(--user-data-dir "$state/data" --extensions-dir "$state/extensions")
  node "$entry" "${options[@]}" --install-extension "$VSIX" >"$home/shots/install.log" 2>&1

  port=$(free_port)
  # A process group of its own, so that stopping it stops the language server as well.
  set -m
  node "$entry" "${options[@]}" --auth none --bind-addr "127.0.0.1:$port" --disable-telemetry \
    --disable-update-check --disable-getting-started-override --disable-proxy \
    --reconnection-grace-time 3 >"$home/shots/code-server.log" 2>&1 &
  server_pid=$!
  set +m
  local code=0
  PORT=$port SERVER=$server_pid STATE=$state DRIVER="$home/driver" CHROMIUM=$(cat "$home/chromium") \
    SHOTS="$home/shots" node "$here/drive.mjs" || code=$?
  stop_server
  return "$code"
}

for number in 1 2; do
  if attempt; then
    echo "Editor test passed"
    exit 0
  fi
  echo "Editor test failed (attempt $number); screenshots and logs are in $home/shots" >&2
  rm -rf "$home/shots.$number"
  cp -r "$home/shots" "$home/shots.$number"
done
exit 1
