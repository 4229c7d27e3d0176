#!/bin/sh
# Stops the service when the package is removed, and not when it is upgraded.
set -e

if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl disable --now agentsignal.service
fi
