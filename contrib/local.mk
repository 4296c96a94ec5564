# SPDX-License-Identifier: GPL-2.0-or-later
EXTRA_DIST += \
	contrib/build-lib.sh \
	contrib/check \
	contrib/fit-calibration \
	contrib/get-slurm-headers \
	contrib/install-deps \
	contrib/private-cluster \
	contrib/private-cluster.d/accounting.sh \
	contrib/private-cluster.d/files.sh \
	contrib/private-cluster.d/processes.sh \
	contrib/quickstart \
	contrib/quickstart.d/gpt2/config.json \
	contrib/quickstart.d/rank.sh \
	contrib/quickstart.d/report \
	contrib/quickstart.d/tiny-llama.yaml \
	contrib/quickstart.d/train.sh \
	# end
