# SPDX-License-Identifier: GPL-2.0-or-later
launchersdir = $(pkgdatadir)/launchers
dist_launchers_SCRIPTS = \
	contrib/launchers/accelerate.sh \
	contrib/launchers/deepspeed.sh \
	contrib/launchers/hf-trainer.sh \
	contrib/launchers/lightning.sh \
	contrib/launchers/megatron.sh \
	contrib/launchers/nemo.sh \
	contrib/launchers/pytorch.sh \
	contrib/launchers/torchrun.sh \
	contrib/launchers/torchtitan.sh \
	# end
dist_launchers_DATA = \
	contrib/launchers/checkpoint_on_signal.py \
	contrib/launchers/elastic.sh \
	contrib/launchers/pytorch_arena.py \
	# end
# ---- model files from torch modules ----------------------------------------------------------------
dist_pkgdata_SCRIPTS = contrib/describe-model
TESTS += tests/t0052-describe-model.t
dist_check_SCRIPTS += tests/t0052-describe-model.t
EXTRA_DIST += tests/describe/kept.py tests/describe/models.py tests/describe/run.py
# ---- launchers -------------------------------------------------------------------------------------
TESTS += tests/t0425-launchers.t
dist_check_SCRIPTS += tests/t0425-launchers.t
TESTS += tests/t0426-launcher-parsers.t
dist_check_SCRIPTS += tests/t0426-launcher-parsers.t
EXTRA_DIST += tests/launchers/plans tests/launchers/expected
# ---- arena exporter: dashboard and an example of a unit ---------------------------------------------
grafanadir = $(pkgdatadir)/grafana
dist_grafana_DATA = contrib/grafana/slurm-arena.json
pkgdata_DATA = contrib/systemd/arena-exporter.service
CLEANFILES += contrib/systemd/arena-exporter.service
EXTRA_DIST += contrib/systemd/arena-exporter.service.in
contrib/systemd/arena-exporter.service: contrib/systemd/arena-exporter.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/systemd && \
	$(SED) 's|@bindir[@]|$(bindir)|' '$(srcdir)/contrib/systemd/arena-exporter.service.in' >$@

EXTRA_DIST += \
	contrib/build-lib.sh \
	contrib/check \
	contrib/compile-plugins.sh \
	contrib/debian-root \
	contrib/demo-array \
	contrib/demo-array.d/hardware.yaml \
	contrib/demo-array.d/sibling.yaml \
	contrib/demo-array.d/sweep.sh \
	contrib/demo-loans \
	contrib/demo-loans.d/curve.awk \
	contrib/demo-loans.d/page \
	contrib/demo-loans.d/replica.sh \
	contrib/demo-loans.d/returns.awk \
	contrib/demo-loans.d/train.sh \
	contrib/fit-calibration \
	contrib/get-slurm-headers \
	contrib/hold-services.sh \
	contrib/install-deps \
	contrib/make-packages \
	contrib/page.sh \
	contrib/own-directory.sh \
	contrib/private-cluster \
	contrib/private-cluster.d/accounting.sh \
	contrib/private-cluster.d/build.sh \
	contrib/private-cluster.d/files.sh \
	contrib/private-cluster.d/processes.sh \
	contrib/private-cluster.d/stock.sh \
	contrib/quickstart \
	contrib/quickstart.d/compare \
	contrib/quickstart.d/losses \
	contrib/quickstart.d/rank.sh \
	contrib/quickstart.d/report \
	contrib/quickstart.d/small-gpt.yaml \
	contrib/quickstart.d/tiny-llama.yaml \
	contrib/quickstart.d/train.sh \
	contrib/rpm/slurm-arena.rpmlintrc \
	contrib/rpm/slurm-arena.spec \
	contrib/screenshot \
	contrib/slurm-smoke \
	contrib/slurm-versions \
	# end

# ---- packages --------------------------------------------------------------------------------------
EXTRA_DIST += debian/changelog debian/control debian/copyright debian/rules debian/source/format debian/source/lintian-overrides \
	debian/slurm-arena.install debian/slurm-arena.manpages debian/slurm-arena-client.install \
	debian/slurm-arena-client.links debian/slurm-arena-client.manpages debian/slurm-arena-node.install debian/slurm-arena-node.manpages \
	debian/slurm-arena-lab.install debian/slurm-arena-lab.manpages \
	debian/slurm-arena-slurmctld.install debian/slurm-arena-slurmctld.manpages \
	debian/slurm-arena-slurmctld.postinst debian/slurm-arena-slurmctld.postrm debian/slurm-arena-slurmctld.slurm-arena.tmpfiles \
	debian/slurm-arena-client.postinst \
	debian/tests/control debian/tests/private-cluster
if HAVE_SLURM_SRC
deb rpm: dist
	'$(srcdir)/contrib/make-packages' $@ $(DIST_ARCHIVES) '$(SLURM_SRC)' packages
else
deb rpm:
	@echo 'make $@: configure found no headers of Slurm: run contrib/get-slurm-headers, then --with-slurm-src=DIR' >&2; exit 3
endif
.PHONY: deb rpm
