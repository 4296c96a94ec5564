# SPDX-License-Identifier: GPL-2.0-or-later
noinst_LTLIBRARIES += libarena_planner.la
libarena_planner_la_SOURCES = \
	planner/search/planner.h \
	planner/models/model.h planner/models/model.cc planner/models/check_model.cc \
	planner/models/hf_config.h planner/models/hf_config.cc planner/models/hf_reader.h planner/models/hf_reader.cc \
	planner/models/yaml_model.cc planner/models/megatron_args.h planner/models/megatron_args.cc \
	planner/models/layers.h planner/models/layers.cc \
	planner/models/zoo.cc \
	planner/requests/build_request.cc planner/requests/pin_rules.h planner/requests/pin_rules.cc \
	planner/requests/cluster_rules.h planner/requests/cluster_rules.cc \
	planner/hardware/hardware.h planner/hardware/hardware.cc \
	planner/hardware/shipped_profile.h planner/hardware/shipped_profile.cc \
	planner/operators/operators.h planner/operators/operators.cc planner/operators/op_builder.h \
	planner/operators/transformer_ops.cc planner/operators/resnet_ops.cc \
	planner/hardware/calibration.h planner/hardware/calibration.cc \
	planner/evaluate/measured.h planner/evaluate/measured.cc \
	planner/evaluate/evaluate.h planner/evaluate/evaluate.cc \
	planner/operators/cost.h planner/operators/cost.cc planner/operators/roofline.cc \
	planner/operators/whole_layer.h planner/operators/whole_layer.cc \
	planner/hardware/collectives.h planner/hardware/collectives.cc \
	planner/hardware/measured_links.h planner/hardware/measured_links.cc \
	planner/plans/memory.h planner/plans/memory.cc \
	planner/plans/schedule.h planner/plans/schedule.cc \
	planner/search/partition.h planner/search/partition.cc planner/search/balance.h \
	planner/models/layer_index.h planner/models/layer_index.cc planner/models/layer_sums.h \
	planner/plans/shard.h planner/plans/shard.cc \
	planner/plans/iteration.h planner/plans/iteration.cc \
	planner/search/grids.h planner/search/grids.cc \
	planner/search/shard_parts.h planner/search/shard_parts.cc \
	planner/search/search.h planner/search/search.cc \
	planner/search/mixed.h planner/search/mixed.cc \
	planner/search/mixed_search.h planner/search/mixed_search.cc \
	planner/search/offers.h planner/search/offers.cc \
	planner/search/budget.h planner/search/budget.cc \
	planner/search/planner.cc \
	# end
libarena_planner_la_LIBADD = libarena_core.la

# The table is part of the program: estimates need no file at run time.
planner/hardware/calibration_table.inc: etc/calibration.yaml
	$(AM_V_GEN)$(MKDIR_P) planner && \
	{ printf 'R"arena('; cat '$(srcdir)/etc/calibration.yaml'; printf ')arena"\n'; } >$@
planner/hardware/calibration.lo: planner/hardware/calibration_table.inc
CLEANFILES += planner/hardware/calibration_table.inc
