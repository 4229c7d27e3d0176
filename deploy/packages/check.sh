#!/usr/bin/env bash
# Builds two versions of the packages, and installs, starts, upgrades and purges the deb. It needs root
# on a Debian without agentsignal, and leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "check.sh needs root"; exit 1; }
! dpkg-query -s agentsignal >/dev/null 2>&1 || { echo "agentsignal is installed here: purge it first"; exit 1; }
for path in /etc/agentsignal /var/lib/agentsignal; do
	[ ! -e "$path" ] || { echo "$path exists: move it away first"; exit 1; }
done

built=$(mktemp -d)
service=
clean() {
	[ -z "$service" ] || kill "$service" 2>/dev/null || true
	dpkg --purge agentsignal >/dev/null 2>&1 || true
	rm -rf "$built"
}
trap clean EXIT
fail() { echo "check.sh: $*" >&2; exit 1; }

deploy/packages/build.sh 0.0.1 "$(go env GOHOSTARCH)" "$built"
deploy/packages/pack.sh 0.0.2 "$(go env GOHOSTARCH)" "$built" # with the same files
ls "$built"/*.rpm >/dev/null
old=$(ls "$built"/agentsignal_0.0.1*.deb) new=$(ls "$built"/agentsignal_0.0.2*.deb)
contents=$(dpkg-deb --contents "$old")
for file in usr/bin/agentsignal usr/lib/systemd/system/agentsignal.service etc/agentsignal/config.yaml \
	usr/share/man/man1/agentsignal.1.gz usr/share/man/man1/agentsignal-serve.1.gz \
	usr/share/bash-completion/completions/agentsignal usr/share/zsh/vendor-completions/_agentsignal \
	usr/share/fish/vendor_completions.d/agentsignal.fish usr/share/doc/agentsignal/copyright \
	usr/share/doc/agentsignal/LICENCES.gz; do
	grep -q " ./$file\$" <<<"$contents" || fail "the deb has no $file"
done
[ "$(dpkg-deb --ctrl-tarfile "$old" | tar -xO ./conffiles)" = /etc/agentsignal/config.yaml ] || fail "conffiles"

dpkg --install "$old" >/dev/null
licences=$(dpkg-deb --fsys-tarfile "$old" | tar -xO ./usr/share/doc/agentsignal/LICENCES.gz | zcat)
while read -r name; do # of the tables of what is embedded
	grep -qF "$name" <<<"$licences" || fail "LICENCES.gz has nothing of $name"
done < <(sed -n '/^## Tables/,$ { s/^| \([^ |]*\) | .*/\1/p }' deploy/LICENCES.md | grep -v -e '^Go$' -e '^package$' -e '^---')
grep -qF "SmartBear Software" <<<"$licences" || fail "LICENCES.gz lacks the notice of Swagger UI"
secrets=/etc/agentsignal/credentials
for name in jwt.key encryption.key record.key; do
	[ "$(stat -c %a:%U "$secrets/$name")" = 600:root ] || fail "$name can be read by others"
done
before=$(cat $secrets/*)
# With the manual page that the unit names, unless dpkg leaves pages out here or there is no man.
man=yes
[ -e /usr/share/man/man1/agentsignal.1.gz ] && command -v man >/dev/null || { man=no; echo "the manual page is not checked"; }
systemd-analyze verify --man=$man agentsignal.service || fail "systemd does not accept the unit"

# There may be no systemd here, so the service is started with the environment of the unit.
unit=(env AGENTSIGNAL_CONFIG=/etc/agentsignal/config.yaml AGENTSIGNAL_HTTP_ADDR=127.0.0.1:18080
	AGENTSIGNAL_AUTH_JWT_KEYS_FILE=$secrets/jwt.key
	AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS_FILE=$secrets/encryption.key
	AGENTSIGNAL_SECURITY_RECORD_KEYS_FILE=$secrets/record.key)
start() { # VERSION
	"${unit[@]}" /usr/bin/agentsignal serve 2>"$built/log" &
	service=$!
	for _ in $(seq 300); do
		! "${unit[@]}" agentsignal healthcheck >/dev/null 2>&1 || break
		sleep 0.2
	done
	"${unit[@]}" agentsignal healthcheck >/dev/null || { cat "$built/log"; fail "version $1 is not ready"; }
	[ "$(dpkg-query -W -f '${Version}' agentsignal)" = "$1" ] || fail "this is not version $1"
}
stop() {
	kill "$service"
	wait "$service" || fail "the service ended with $?"
	service=
}
start 0.0.1
"${unit[@]}" agentsignal account create --email you@example.com --password-stdin <<<"a long password" >/dev/null
stop
echo "# changed" >>/etc/agentsignal/config.yaml
dpkg --install "$new" >/dev/null
grep -q "# changed" /etc/agentsignal/config.yaml || fail "the upgrade has replaced the settings"
[ "$before" = "$(cat $secrets/*)" ] || fail "the upgrade has replaced the secrets"
start 0.0.2
"${unit[@]}" agentsignal account list | grep -q you@example.com || fail "the account is lost"
stop

dpkg --remove agentsignal >/dev/null
[ "$before" = "$(cat $secrets/*)" ] || fail "the removal has replaced the secrets"
dpkg --purge agentsignal >/dev/null
for path in /etc/agentsignal /var/lib/agentsignal /usr/bin/agentsignal /usr/share/doc/agentsignal; do
	[ ! -e "$path" ] || fail "purging leaves $path"
done
echo "deb and rpm are built; the deb was installed, started, upgraded, removed and purged"
