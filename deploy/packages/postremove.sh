#!/bin/sh
# Purging removes the secrets and the data. After a removal they stay, as rpm has no purging.
set -e

if [ "$1" = purge ]; then
	rm -rf /etc/agentsignal /var/lib/agentsignal /var/lib/private/agentsignal
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
