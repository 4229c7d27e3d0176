#!/usr/bin/env bash
# Packs what build.sh has built as the deb and the rpm of VERSION for ARCH into the directory OUT:
#   deploy/packages/pack.sh VERSION ARCH OUT
set -euo pipefail
cd "$(dirname "$0")/../.."
export VERSION=$1 ARCH=$2
mkdir -p "$3"
for packager in deb rpm; do
	go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0 pkg --config deploy/packages/nfpm.yaml \
		--packager "$packager" --target "$3"
done
