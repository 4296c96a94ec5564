#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The GPU's tests as part of `make check`: they skip, with the reason, where there is no GPU.
: "${ARENA_SRCDIR:=$(cd "$(dirname "$0")/.." && pwd)}"
export ARENA_SRCDIR
exec "$ARENA_SRCDIR/tests/gpu/run" "${ARENA_BUILDDIR:-$PWD}"
