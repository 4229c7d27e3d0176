#!/usr/bin/env bash
# Replaces the pictures of this folder by those that `make screenshots` took into a folder: the upper part of each page,
# at three widths and in both themes. They have a palette and are lossless WebP: for flat surfaces that takes less than
# half of lossy WebP, and text stays sharp. Needs ImageMagick (convert); takes some minutes.
#
#   deploy/screenshots/keep.sh build/screenshots
set -euo pipefail
from=$1
to=$(dirname "$0")
colors=20
rm -f "$to"/*.webp
for page in signin live signal-open signal-closed scorecard weather content run scan schedules webhooks webhook account; do
  for size in 390x640 1280x640 1920x640; do
    for theme in dark light; do
      name=$page-${size%x*}-$theme
      convert "$from/$name.png" -crop "$size+0+0" +repage +dither -colors "$colors" png8:- |
        convert png8:- -quality 100 -define webp:lossless=true -define webp:method=6 "$to/$name.webp"
    done
  done
done
