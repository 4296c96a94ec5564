# SPDX-License-Identifier: GPL-2.0-or-later
dist_man_MANS += \
	doc/man/arena.1 \
	doc/man/arena-args.1 \
	doc/man/arena-exporter.8 \
	doc/man/arena.yaml.5 \
	doc/man/arena-model.5 \
	doc/man/arena-launchers.7 \
	doc/man/sched_arena.8 \
	doc/man/spank_arena.8 \
	# end
EXTRA_DIST += doc/live.png doc/arrays.md doc/benchmarks.md doc/containers.md doc/design.md doc/policies.md doc/sbatch-options.md doc/site.md doc/slurm-versions.md
