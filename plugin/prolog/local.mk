# SPDX-License-Identifier: GPL-2.0-or-later
pkglibexec_SCRIPTS += plugin/prolog/arena-prolog
EXTRA_DIST += plugin/prolog/arena-prolog.in
CLEANFILES += plugin/prolog/arena-prolog
plugin/prolog/arena-prolog: plugin/prolog/arena-prolog.in Makefile
	$(AM_V_GEN)$(MKDIR_P) plugin/prolog && \
	$(SED) -e 's|@sysconfdir[@]|$(sysconfdir)|g' -e 's|@pkglibexecdir[@]|$(pkglibexecdir)|g' \
		$(srcdir)/plugin/prolog/arena-prolog.in >$@.new && chmod 755 $@.new && mv $@.new $@
