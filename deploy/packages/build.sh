#!/usr/bin/env bash
# Builds the deb and the rpm of VERSION for ARCH (amd64 or arm64) into the directory OUT:
#   deploy/packages/build.sh VERSION ARCH OUT
set -euo pipefail
cd "$(dirname "$0")/../.."
VERSION=$1 ARCH=$2 out=$3
files=build/packages/files # of nfpm.yaml
rm -rf "$files"
mkdir -p "$files"

build() { # GOARCH FILE
	CGO_ENABLED=0 GOARCH=$1 go build -trimpath -o "$2" \
		-ldflags "-s -w -X github.com/agentsignal/agentsignal/cmd/agentsignal/service.release=$VERSION" ./cmd/agentsignal
}
build "$ARCH" "$files/agentsignal"
tool=$files/agentsignal # which writes pages and completions on this machine
if [ "$ARCH" != "$(go env GOHOSTARCH)" ]; then
	tool=$files/tool
	build "$(go env GOHOSTARCH)" "$tool"
fi
mkdir "$files/man" "$files/completion"
"$tool" man "$files/man"
gzip -9n "$files"/man/*.1
for shell in bash zsh fish; do
	"$tool" completion "$shell" >"$files/completion/$shell"
done
deploy/packages/licences.sh "$ARCH" | gzip -9n >"$files/LICENCES.gz"
deploy/packages/pack.sh "$VERSION" "$ARCH" "$out"
