#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The batch script of the demo's inference jobs: a replica of a service, which has a node until load falls.
# usage: replica.sh FILE   ends when FILE is there
exec {never}<> <(:)
until [[ -e ${1:?file} ]]; do read -rt 0.3 -u "$never"; done
exit 0
