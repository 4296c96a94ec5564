# SPDX-License-Identifier: GPL-2.0-or-later
launchersdir = $(pkgdatadir)/launchers
dist_launchers_SCRIPTS = \
	contrib/launchers/accelerate.sh \
	contrib/launchers/deepspeed.sh \
	contrib/launchers/hf-trainer.sh \
	contrib/launchers/lightning.sh \
	contrib/launchers/megatron.sh \
	contrib/launchers/nemo.sh \
	contrib/launchers/torchrun.sh \
	contrib/launchers/torchtitan.sh \
	# end
dist_launchers_DATA = \
	contrib/launchers/checkpoint_on_signal.py \
	# end
TESTS += tests/t0425-launchers.t
dist_check_SCRIPTS += tests/t0425-launchers.t
TESTS += tests/t0426-launcher-parsers.t
dist_check_SCRIPTS += tests/t0426-launcher-parsers.t
EXTRA_DIST += tests/launchers/plans tests/launchers/expected
EXTRA_DIST += \
	contrib/build-lib.sh \
	contrib/check \
	contrib/fit-calibration \
	contrib/get-slurm-headers \
	contrib/install-deps \
	contrib/own-directory.sh \
	contrib/private-cluster \
	contrib/private-cluster.d/accounting.sh \
	contrib/private-cluster.d/build.sh \
	contrib/private-cluster.d/files.sh \
	contrib/private-cluster.d/processes.sh \
	contrib/quickstart \
	contrib/quickstart.d/compare \
	contrib/quickstart.d/losses \
	contrib/quickstart.d/rank.sh \
	contrib/quickstart.d/report \
	contrib/quickstart.d/small-gpt.yaml \
	contrib/quickstart.d/tiny-llama.yaml \
	contrib/quickstart.d/train.sh \
	# end
