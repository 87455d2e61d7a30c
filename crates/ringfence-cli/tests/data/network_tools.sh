# Gets the tools that the tests of the network use into a directory: what no package of the system has. Twice it does nothing.
set -eu
[ ! -e "$1" ] || exit 0
made=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$made"' EXIT
/usr/bin/python3 -m venv "$1.venv"
"$1.venv/bin/python" -m pip install --quiet --disable-pip-version-check requests==2.32.3 httpx==0.28.1 aiohttp==3.11.11 uv==0.5.14
npm install --silent --no-audit --no-fund --no-update-notifier --prefix "$made/npm" pnpm@9.15.2 yarn@1.22.22
(cd "$made" && apt-get download -qq openssh-server && dpkg -x openssh-server_*.deb sshd)
chmod -R go+rX "$made" "$1.venv"
mv "$made" "$1"
