# SPDX-License-Identifier: GPL-2.0-or-later

# ---- planner: hardware entries and example models --------------------------------------------
dist_pkgdata_DATA += etc/hardware.yaml etc/calibration.yaml
modelsdir = $(pkgdatadir)/models
dist_models_DATA = \
	etc/models/gpt2.json \
	etc/models/gpt2-xl.json \
	etc/models/bert-large.json \
	etc/models/llama-2-7b.json \
	etc/models/llama-tiny.yaml \
	etc/models/gpt-22b.yaml \
	etc/models/mixtral-8x7b.json etc/models/deepseek-v3.json \
	etc/models/wide-resnet-1b.yaml etc/models/moe-2.4b.yaml etc/models/custom.yaml \
	etc/models/llama-3-8b.args \
	# end

# Recorded profiles: one line for each file that is added.
profilesdir = $(pkgdatadir)/profiles
dist_profiles_DATA = \
	etc/profiles/README \
	# end

# ---- examples and the SPANK snippet, with the paths of this installation ---------------------------
dist_pkgdata_DATA += etc/slurm.conf.example
spankconf_DATA = etc/plugstack.conf.d/arena.conf
CLEANFILES += $(spankconf_DATA)
EXTRA_DIST += etc/plugstack.conf.d/arena.conf.in
etc/plugstack.conf.d/arena.conf: etc/plugstack.conf.d/arena.conf.in Makefile
	$(AM_V_GEN)$(MKDIR_P) etc/plugstack.conf.d && \
	$(SED) 's|@pkglibdir[@]|$(pkglibdir)|' '$(srcdir)/etc/plugstack.conf.d/arena.conf.in' >$@

# arena.yaml is the site's once it is there: never overwritten, and removed only while unchanged.
EXTRA_DIST += etc/arena.yaml
install-data-local: install-arena-yaml
install-arena-yaml:
	$(MKDIR_P) '$(DESTDIR)$(arenaconfdir)'
	test -e '$(DESTDIR)$(arenaconfdir)/arena.yaml' || \
	$(INSTALL_DATA) '$(srcdir)/etc/arena.yaml' '$(DESTDIR)$(arenaconfdir)/arena.yaml'
uninstall-local: uninstall-arena-yaml
uninstall-arena-yaml:
	! cmp -s '$(srcdir)/etc/arena.yaml' '$(DESTDIR)$(arenaconfdir)/arena.yaml' || \
	rm -f '$(DESTDIR)$(arenaconfdir)/arena.yaml'
.PHONY: install-arena-yaml uninstall-arena-yaml
