#!/bin/sh
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# In the place of runc on machines that lack CAP_SYS_RESOURCE: takes it out of what a container, or a command to run in
# one, asks for, since runc would refuse the whole ("unable to apply caps"). It is in the bundle's config.json (runc
# create) or in the file of --process (runc exec). In a JSON string quotes are escaped, so only the object matches.
# SANDBOX_STATUS and SANDBOX_LOG are for the test of this script.
file=
previous=
for word in "$@"; do
    case $previous in
        --bundle|-b) file=$word/config.json ;;
        --process|-p) file=$word ;;
    esac
    case $word in
        --bundle=*) file=${word#--bundle=}/config.json ;;
        --process=*) file=${word#--process=} ;;
    esac
    previous=$word
done
effective=$(sed -n 's/^CapEff:[[:space:]]*//p' "${SANDBOX_STATUS:-/proc/self/status}")
if [ -f "$file" ] && [ $(( (0x$effective >> 24) & 1 )) -eq 0 ] &&
    grep -Eq '"capabilities":\{[^}]*"CAP_SYS_RESOURCE"' "$file"; then
    sed -E -i \
        -e ':a' -e 's/("capabilities":\{[^}]*),"CAP_SYS_RESOURCE"/\1/;ta' \
        -e ':b' -e 's/("capabilities":\{[^}]*)"CAP_SYS_RESOURCE",/\1/;tb' \
        -e ':c' -e 's/("capabilities":\{[^}]*)"CAP_SYS_RESOURCE"/\1/;tc' \
        "$file"
    echo "$(date -u +%FT%TZ) $file: without CAP_SYS_RESOURCE, which this machine does not have" \
        >> "${SANDBOX_LOG:-/var/log/runc-wrapper.log}"
fi
exec runc "$@"
