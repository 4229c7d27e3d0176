#!/usr/bin/env bash
# Writes the licences and notices of all that the binary for ARCH contains: of Go, of each module, of Swagger UI,
# and of the packages of the console, whose build has collected theirs:
#   deploy/packages/licences.sh ARCH >FILE
set -euo pipefail
cd "$(dirname "$0")/../.."
show() { # TITLE FILE…
	printf '\n%s\n%s\n\n' "$1" "${1//?/=}"
	shift
	cat "$@"
}
echo "The licences of what agentsignal contains, beside its own, which is in the file copyright."
show "Go" "$(go env GOROOT)/LICENSE"
GOARCH=$1 CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' \
	./cmd/agentsignal | sort -u | while read -r path version dir; do
	mapfile -t files < <(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort)
	[ ${#files[@]} -gt 0 ] || { echo "licences.sh: $path has no licence" >&2; exit 1; }
	show "$path $version" "${files[@]}"
done
show "Swagger UI" deploy/packages/swagger-ui.txt LICENSE
show "Packages of the console" http/console/licences.md
