#!/bin/sh
# Makes the secrets of the service at the first installation. It starts nothing: the administrator
# does, by "systemctl enable --now agentsignal". An upgrade restarts what runs.
# Arguments: "configure" and the old version from dpkg, the number of installed versions from rpm.
set -e

agentsignal config keys /etc/agentsignal/credentials

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" = 2 ]; then
		systemctl try-restart agentsignal.service
	fi
fi
