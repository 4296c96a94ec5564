# SPDX-License-Identifier: GPL-2.0-or-later
noinst_LTLIBRARIES += libarena_planner.la
libarena_planner_la_SOURCES = \
	planner/planner.h \
	planner/model.h planner/model.cc planner/check_model.cc \
	planner/hf_config.h planner/hf_config.cc planner/hf_reader.h planner/hf_reader.cc \
	planner/yaml_model.cc planner/megatron_args.h planner/megatron_args.cc \
	planner/layers.h planner/layers.cc \
	planner/zoo.cc \
	planner/build_request.cc planner/pin_rules.h planner/pin_rules.cc \
	planner/cluster_rules.h planner/cluster_rules.cc \
	planner/hardware.h planner/hardware.cc \
	planner/shipped_profile.h planner/shipped_profile.cc \
	planner/operators.h planner/operators.cc planner/op_builder.h \
	planner/transformer_ops.cc planner/resnet_ops.cc \
	planner/calibration.h planner/calibration.cc \
	planner/measured.h planner/measured.cc \
	planner/evaluate.h planner/evaluate.cc \
	planner/cost.h planner/cost.cc planner/roofline.cc \
	planner/whole_layer.h planner/whole_layer.cc \
	planner/collectives.h planner/collectives.cc \
	planner/measured_links.h planner/measured_links.cc \
	planner/memory.h planner/memory.cc \
	planner/schedule.h planner/schedule.cc \
	planner/partition.h planner/partition.cc planner/balance.h \
	planner/layer_index.h planner/layer_index.cc planner/layer_sums.h \
	planner/shard.h planner/shard.cc \
	planner/iteration.h planner/iteration.cc \
	planner/grids.h planner/grids.cc \
	planner/shard_parts.h planner/shard_parts.cc \
	planner/search.h planner/search.cc \
	planner/mixed.h planner/mixed.cc \
	planner/mixed_search.h planner/mixed_search.cc \
	planner/offers.h planner/offers.cc \
	planner/budget.h planner/budget.cc \
	planner/planner.cc \
	# end
libarena_planner_la_LIBADD = libarena_core.la

# The table is part of the program: estimates need no file at run time.
planner/calibration_table.inc: etc/calibration.yaml
	$(AM_V_GEN)$(MKDIR_P) planner && \
	{ printf 'R"arena('; cat '$(srcdir)/etc/calibration.yaml'; printf ')arena"\n'; } >$@
planner/calibration.lo: planner/calibration_table.inc
CLEANFILES += planner/calibration_table.inc
