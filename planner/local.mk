# SPDX-License-Identifier: GPL-2.0-or-later
noinst_LTLIBRARIES += libarena_models.la
models_sources = \
	planner/models/check_model.cc \
	planner/models/hf_config.cc \
	planner/models/hf_images.cc \
	planner/models/hf_listed.cc \
	planner/models/hf_reader.h planner/models/hf_reader.cc \
	planner/models/hf_types.h planner/models/hf_types.cc \
	planner/models/layer_index.h planner/models/layer_index.cc \
	planner/models/layer_sums.h \
	planner/models/layers.h planner/models/layers.cc \
	planner/models/megatron_args.h planner/models/megatron_args.cc \
	planner/models/megatron_words.h planner/models/megatron_words.cc \
	planner/models/model.h planner/models/model.cc \
	planner/models/peft_config.cc \
	planner/models/readers.h \
	planner/models/words.h planner/models/words.cc \
	planner/models/yaml_model.cc \
	planner/models/zoo.cc \
	# end
models_libs = libarena_models.la $(request_libs)

# What each word of a published model says: part of the program.
word_tables = planner/models/config.table planner/models/megatron.table planner/models/peft.table
EXTRA_DIST += $(word_tables)
planner/models/word_tables.inc: $(word_tables) planner/local.mk
	$(AM_V_GEN)$(MKDIR_P) planner/models && \
	for table in $(word_tables); do \
	    name=$${table##*/} && printf 'constexpr std::string_view %s_words = R"arena(' "$${name%.table}" && \
	    cat "$(srcdir)/$$table" && printf ')arena";\n' || exit; \
	done >$@.new && mv $@.new $@
planner/models/words.lo unity/models.lo: planner/models/word_tables.inc
CLEANFILES += planner/models/word_tables.inc

noinst_LTLIBRARIES += libarena_hardware.la
hardware_sources = \
	planner/hardware/calibration.h planner/hardware/calibration.cc \
	planner/hardware/collectives.h planner/hardware/collectives.cc \
	planner/hardware/card_names.h planner/hardware/card_names.cc \
	planner/hardware/hardware.h planner/hardware/hardware.cc \
	planner/hardware/measured_links.h planner/hardware/measured_links.cc \
	planner/hardware/shipped_profile.h planner/hardware/shipped_profile.cc \
	# end
hardware_libs = libarena_hardware.la $(models_libs)

# The table is part of the program: estimates need no file at run time.
planner/hardware/calibration_table.inc: etc/calibration.yaml
	$(AM_V_GEN)$(MKDIR_P) planner/hardware && \
	{ printf 'R"arena('; cat '$(srcdir)/etc/calibration.yaml'; printf ')arena"\n'; } >$@
planner/hardware/calibration.lo unity/hardware.lo: planner/hardware/calibration_table.inc
CLEANFILES += planner/hardware/calibration_table.inc

noinst_LTLIBRARIES += libarena_operators.la
operators_sources = \
	planner/operators/cost.h planner/operators/cost.cc \
	planner/operators/op_builder.h \
	planner/operators/operators.h planner/operators/operators.cc \
	planner/operators/resnet_ops.cc \
	planner/operators/roofline.cc \
	planner/operators/transformer_ops.cc \
	planner/operators/whole_layer.h planner/operators/whole_layer.cc \
	# end
operators_libs = libarena_operators.la $(hardware_libs)

noinst_LTLIBRARIES += libarena_plans.la
plans_sources = \
	planner/plans/context.h planner/plans/context.cc \
	planner/plans/iteration.h planner/plans/iteration.cc \
	planner/plans/memory.h planner/plans/memory.cc \
	planner/plans/pool.h \
	planner/plans/pool_network.h planner/plans/pool_network.cc \
	planner/plans/schedule.h planner/plans/schedule.cc \
	planner/plans/zero_bubble.h planner/plans/zero_bubble.cc \
	planner/plans/shard.h planner/plans/shard.cc \
	# end
plans_libs = libarena_plans.la $(operators_libs)

noinst_LTLIBRARIES += libarena_search.la
search_sources = \
	planner/search/budget.h planner/search/budget.cc \
	planner/search/candidate_layers.h planner/search/candidate_layers.cc \
	planner/search/grids.h planner/search/grids.cc \
	planner/search/mixed.h planner/search/mixed.cc \
	planner/search/mixed_search.h planner/search/mixed_search.cc \
	planner/search/no_plan.h planner/search/no_plan.cc \
	planner/search/offers.h planner/search/offers.cc \
	planner/search/partition.h planner/search/partition.cc \
	planner/search/planner.h planner/search/planner.cc \
	planner/search/query.h \
	planner/search/search.h planner/search/search.cc \
	planner/search/shard_parts.h planner/search/shard_parts.cc \
	planner/search/spans.h planner/search/spans.cc \
	# end
search_libs = libarena_search.la $(plans_libs)

noinst_LTLIBRARIES += libarena_arrays.la
arrays_sources = \
	planner/arrays/array_offers.h planner/arrays/array_offers.cc \
	planner/arrays/array_stages.h planner/arrays/array_stages.cc \
	# end
arrays_libs = libarena_arrays.la libarena_array_search.la libarena_array.la $(search_libs)

noinst_LTLIBRARIES += libarena_requests.la
requests_sources = \
	planner/requests/build_request.h planner/requests/build_request.cc \
	planner/requests/cluster_rules.h planner/requests/cluster_rules.cc \
	planner/requests/pin_rules.h planner/requests/pin_rules.cc \
	planner/requests/plan_query.h planner/requests/plan_query.cc \
	planner/requests/would_fit.h planner/requests/would_fit.cc \
	# end
requests_libs = libarena_requests.la $(search_libs)

noinst_LTLIBRARIES += libarena_evaluate.la
evaluate_sources = \
	planner/evaluate/evaluate.h planner/evaluate/evaluate.cc \
	planner/evaluate/image_rows.h planner/evaluate/image_rows.cc \
	planner/evaluate/measured.h planner/evaluate/measured.cc \
	# end
evaluate_libs = libarena_evaluate.la $(requests_libs)

# What knows the planner and the policies that Slurm runs, as the command does; with simulator and baselines, as tests do.
planning_libs = libarena_policy_arena.la libarena_policy_aryl.la libarena_policy_order.la libarena_policy_loans.la libarena_policy.la libarena_store.la libarena_checks.la libarena_slowdown.la \
	$(evaluate_libs) $(SQLITE_LIBS)
all_libs = libarena_sim.la libarena_html.la libarena_sim_power.la libarena_sim_slow.la libarena_sim_loans.la libarena_baselines.la $(planning_libs)
