// SPDX-License-Identifier: GPL-2.0-or-later
// The launcher table: that every table compiled in is sound, what its text may be, versions, and
// that what can be told is what has words.

#include "base/hostlist.h"
#include "base/text.h"
#include "core/model_fields.h"
#include "request/launchers.h"
#include "request/rendezvous.h"
#include "request/resolver.h"
#include "request/script_programs.h"
#include "request/script_training.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

constexpr const char* head = "title A framework\ntasks gpu\nversion 1.1\n";

Launcher parsed(const std::string& rows) {
    return must(parse_launcher_table(head + rows, "x.table"));
}

void refused(const std::string& text, const char* message) {
    const auto table = parse_launcher_table(text, "x.table");
    ck_assert(!table.ok());
    const std::string said = table.error().message();
    ck_assert_msg(said.find(message) != std::string::npos, "%s", said.c_str());
}

Plan one_gpu() {
    Plan plan;
    plan.stage_layers = {4}, plan.stage_dp = {1}, plan.stage_tp = {1};
    return plan;
}

std::string told(const Launcher& launcher, const char* version, const Plan& plan,
                 const Model& model = {}) {
    const auto words = render(launcher, parse_version(version), words_of(model, 8, plan));
    return words ? join(*words, " ") : "no: " + words.error().text;
}

/// The versions at which something changes; one that means nothing where there are none.
std::vector<Version> versions_of(const Launcher& launcher) {
    return launcher.version ? launcher.changes() : std::vector<Version>{{}};
}

}  // namespace

TEST(each_table_compiled_in_is_sound) {
    ck_assert_uint_ge(launchers().size(), 12);
    for (const Launcher& launcher : launchers()) {
        ck_assert_ptr_eq(find_launcher(launcher.name), &launcher);
        ck_assert_msg(parse_launcher(launcher.name).ok(), "%s", launcher.name.c_str());
        for (const Version& version : versions_of(launcher)) {
            ck_assert(launcher.knows(version) || !launcher.version);
            const auto words = render(launcher, version, words_of(Model{}, 1, one_gpu()));
            ck_assert_msg(words.ok(), "%s %s cannot be told a plan on one GPU: %s",
                          launcher.name.c_str(), to_string(version).c_str(),
                          words.ok() ? "" : words.error().text.c_str());
        }
    }
}

TEST(a_plan_can_be_told_iff_each_of_its_features_has_words) {
    const Launcher table = parsed(
        "1.0 2.0 always --pp {pp} --dp {dp}\n1.0 2.0 flat -\n1.0 2.0 pipeline --x\n1.0 2.0 "
        "one-replica -\n"
        "1.0 2.0 recompute-none -\n1.0 2.0 bf16 --bf16\n"
        "1.0 1.1 vpp --chunk {chunk}\n1.1 2.0 vpp --vpp {vpp} --chunk={chunk}\n1.1 2.0 vpp1 --vpp "
        "null\n"
        "1.0 2.0 one-replica-amp -\n");
    Plan plan = one_gpu();
    test::assert_text(told(table, "1.0", plan), "--pp 1 --dp 1 --bf16");
    test::assert_text(told(table, "1.1", plan), "--pp 1 --dp 1 --vpp null --bf16");
    plan.stage_layers = {4, 4}, plan.stage_dp = {1, 1}, plan.stage_tp = {1, 1}, plan.vpp = 2;
    test::assert_text(told(table, "1.0.9", plan), "no: 1 micro-batches over 2 stages");
    plan.num_micro_batches = 2;
    test::assert_text(told(table, "1.0.9", plan), "--pp 2 --dp 1 --x --chunk 2 --bf16");
    test::assert_text(told(table, "1.9", plan), "--pp 2 --dp 1 --x --vpp 2 --chunk=2 --bf16");
    plan.stage_dp = {2, 2};
    test::assert_text(told(table, "1.9", plan), "no: ZeRO 0 with pipeline stages");
    Model model;
    model.precision = Precision::mxfp8;
    test::assert_text(told(table, "1.0", one_gpu(), model), "no: mxfp8");
    ck_assert(!table.can().told.has(Feature::cp) &&
              table.can().degree(Feature::vpp) == Degree::pinned);
    const Launcher free = parsed("1.0 2.0 vpp -\n- - flat -\n");
    ck_assert(free.can().degree(Feature::vpp) == Degree::pinned);
    ck_assert(parse_launcher_table(std::string(head) + "unasked vpp\n1.0 2.0 vpp -\n", "x")
                  ->can()
                  .degree(Feature::vpp) == Degree::free);
}

TEST(words_may_depend_on_features_together_which_alone_say_what_can_be_told) {
    const Launcher table = parsed(
        "1.0 2.0 flat -\n1.0 2.0 one-replica -\n1.0 2.0 zero0 -\n1.0 2.0 zero3 --fsdp\n1.0 2.0 "
        "bf16 -\n"
        "1.0 2.0 recompute-none -\n1.0 2.0 recompute-full --full\n1.0 2.0 recompute-full+zero3 "
        "--by-fsdp\n"
        "1.0 2.0 recompute-full+zero0 --by-model\n1.0 2.0 recompute-selective+zero0 --selective\n");
    Plan plan = one_gpu();
    plan.recompute = Recompute::full;
    test::assert_text(told(table, "1.0", plan), "--full");
    plan.stage_dp = {8};
    test::assert_text(told(table, "1.0", plan), "--full --by-model");
    plan.zero_stage = 3;
    test::assert_text(told(table, "1.0", plan), "--fsdp --full --by-fsdp");
    plan.num_micro_batches = 2;
    test::assert_text(told(table, "1.0", plan), "no: ZeRO 3 of more than one micro-batch");
    plan.num_micro_batches = 1, plan.recompute = Recompute::selective;
    test::assert_text(told(table, "1.0", plan), "no: selective recompute");
    refused(std::string(head) + "1.0 2.0 flat+zeroo -\n", "x.table:4: unknown feature 'zeroo'");
    refused(std::string(head) + "1.0 2.0 flat+ -\n", "x.table:4: unknown feature ''");
}

TEST(versions_with_gaps_are_said_with_them) {
    const auto known = [](const char* rows) { return parsed(rows).known_versions(); };
    test::assert_text(known("1.0 2.0 flat -\n1.1 2.0 bf16 -\n"), "1.0 to before 2.0");
    test::assert_text(known("1.0 1.2 flat -\n1.2 2.0 flat -\n"), "1.0 to before 2.0");
    test::assert_text(known("1.0 1.2 flat -\n3.0 4.0 flat -\n5.0 - flat -\n"),
                      "1.0 to before 1.2, 3.0 to before 4.0, 5.0 and newer");
    test::assert_text(known("- 1.2 flat -\n"), "any to before 1.2");
    test::assert_text(known("gap 1.2 1.5\n1.0 1.6 flat -\n1.2 1.5 bf16 -\n"),
                      "1.0 to before 1.2, 1.5 to before 1.6");
    ck_assert(
        !parsed("gap 1.2 1.5\n1.0 1.6 flat -\n1.3 1.6 bf16 -\n").knows(*parse_version("1.4")));
    test::assert_text(known("- - flat -\n1.0 2.0 bf16 -\n"), "any and newer");
}

/// What stands for a script that reads ARENA_* is the table of env.
TEST(a_launcher_that_nobody_knows_is_told_what_env_is) {
    ck_assert(Capabilities{}.told == find_launcher("env")->can().told);
    ck_assert(capabilities_of("horovod") == capabilities_of("env"));
}

TEST(a_data_parallel_script_is_told_replicas_and_no_more) {
    const Capabilities can = capabilities_of("ddp");
    ck_assert(can.is_data_parallel() && !capabilities_of("env").is_data_parallel());
    ck_assert(capabilities_of("fsdp").is_data_parallel());
    for (const Feature none :
         {Feature::pipeline, Feature::sp, Feature::no_sp, Feature::convolutions, Feature::cp,
          Feature::ep, Feature::vpp, Feature::zero1, Feature::zero2, Feature::zero3})
        ck_assert_msg(can.degree(none) == Degree::no, "%s", std::string(to_string(none)).c_str());
    for (const Feature pinned : {Feature::recompute_selective, Feature::recompute_full}) {
        ck_assert(can.degree(pinned) == Degree::pinned);
        ck_assert(capabilities_of("env").degree(pinned) == Degree::free);
    }
    ck_assert(can.degree(Feature::zero0) == Degree::free);
    for (int p = 0; p <= static_cast<int>(Precision::nvfp4); ++p) {
        Model model;
        model.precision = static_cast<Precision>(p);
        ck_assert(can.tells(needs(facts_of(model))));
    }
}

TEST(a_launcher_is_told_of_adapters_or_cannot_have_them) {
    Model model;
    model.lora_rank = 8;
    std::string told;
    for (const Launcher& launcher : launchers())
        if (launcher.can().told.has(Feature::lora)) told += launcher.name + " ";
    test::assert_text(told,
                      "ddp env torchrun deepspeed fsdp accelerate hf-trainer lightning nemo ");
    Plan plan;
    plan.stage_layers = {12}, plan.stage_dp = {1}, plan.stage_tp = {1};
    const auto words = [&] {
        const Launcher& nemo = *find_launcher("nemo");
        const auto rendered = render(nemo, nemo.version, words_of(model, 1, plan));
        return rendered ? join(*rendered, " ") : rendered.error().message();
    };
    const auto says = [&](const std::string& part) {
        ck_assert_msg(words().find(part) != std::string::npos, "%s", words().c_str());
    };
    says(R"(peft.dim=8 peft.target_modules=["linear_qkv","linear_proj"])");
    model.lora_mlp = 1;
    says(R"(["linear_qkv","linear_proj","linear_fc1","linear_fc2"])");
    model.base_bits = 4;
    says("frozen weights of 4 bits");
    model.base_bits = 0, model.lora_mlp = 0, model.lora_targets = lora_target::q_proj;
    says("adapters (LoRA of rank 8) on q_proj");
    Model read;
    for (const char* parts : {"attention", "attention,mlp", "q_proj,v_proj"}) {
        read = {};
        ck_assert(read_lora_parts(parts, read).ok());
        test::assert_text(lora_parts(facts_of(read)), parts);
    }
    ck_assert(!read_lora_parts("q_proj,x", read).ok());
}

std::string programs(std::string_view script) {
    std::string text;
    for (const ScriptProgram& p : parse_script_programs(script))
        text += std::to_string(p.line) + ":" + p.word + "=" + p.launcher + " ";
    return text;
}

TEST(a_batch_script_names_the_launchers_that_it_starts) {
    const auto names = [](std::string_view script, const char* wanted) {
        test::assert_text(programs(script), wanted);
    };
    names("#!/bin/bash\n#SBATCH -n 1\nsrun torchrun --nproc_per_node=4 train.py\n",
          "3:torchrun=torchrun ");
    names("srun -l torchrun x.py", "1:torchrun=torchrun ");
    names("exec /opt/venv/bin/torchrun x.py", "1:torchrun=torchrun ");
    names("if true; then env A=1 timeout 60m torchrun x; fi", "1:torchrun=torchrun ");
    names("x=$(torchrun --help)", "1:torchrun=torchrun ");
    names("python3 -u -m torch.distributed.run x.py", "1:torch.distributed.run=torchrun ");
    names("srun python -m torchtitan.train", "1:torchtitan.train=torchtitan ");
    names("deepspeed --num_gpus 4 train.py", "1:deepspeed=deepspeed ");
    names("accelerate launch train.py", "1:accelerate=accelerate ");
    names("srun \\\n  --ntasks 4 \\\n  python $MEGATRON/pretrain_gpt.py $ARENA_ARGS",
          "1:pretrain_gpt.py=megatron ");
    names("torchrun --nproc-per-node 8 pretrain_gpt.py",
          "1:torchrun=torchrun 1:pretrain_gpt.py=megatron ");
    names("python train_lightning_gpt.py fit", "1:train_lightning_gpt.py=lightning ");
    names("srun bash -c 'trap \"\" USR1; exec torchrun \"$@\"' _ x.py", "1:torchrun=torchrun ");
    names("torchrun a.py\ntorchrun b.py\n", "1:torchrun=torchrun ");
}

TEST(a_batch_script_says_what_it_trains) {
    const auto said = [](std::string_view script) {
        const ScriptTraining t = parse_script_training(script);
        return t.launcher + "|" + t.model + "|" + std::to_string(t.batch_on(8));
    };
    test::assert_text(
        said("MODEL=meta-llama/Llama-2-7b-hf\nsrun torchrun --nproc_per_node 4 run_clm.py "
             "--model_name_or_path \"$MODEL\" --per_device_train_batch_size=2 "
             "--gradient_accumulation_steps 4\n"),
        "torchrun|meta-llama/Llama-2-7b-hf|64");
    test::assert_text(
        said("L=24\nexport ARGS=\"--num-layers $L --hidden-size 1024 \\\n  --seq-length 1024\"\n"
             "DATA=(\n  --global-batch-size 64 # samples\n)\n"
             "torchrun --nproc-per-node 8 pretrain_gpt.py $ARGS ${DATA[@]}\n"),
        "megatron|--num-layers 24 --hidden-size 1024 --seq-length 1024 --global-batch-size 64|64");
    test::assert_text(said("deepspeed train.py --model $1 --train_batch_size 16\n"),
                      "deepspeed||16");
    test::assert_text(said("srun python train.py --model gpt2\n"), "||0");
    test::assert_text(said("for MODEL in a b; do torchrun x.py --model $MODEL; done\n"),
                      "torchrun||0");
    test::assert_text(with_own_variables("A=1\nB='x y'\necho $A ${B} ${C} ${A:-2}\n"),
                      "A=1\nB='x y'\necho 1 x y ${C} ${A:-2}\n");
}

TEST(what_a_batch_script_only_mentions_is_no_launcher_that_it_starts) {
    for (const char* none :
         {"", "srun python train.py\n",
          "# torchrun train.py\nsrun python train.py  # not torchrun\n",
          "#SBATCH -J torchrun\npython train.py\n", "pip install deepspeed accelerate lightning\n",
          "echo torchrun\nprintf '%s' \"torchrun\"\n", "module load torchrun/2.6; python x.py",
          "cat >x.sh <<'END'\ntorchrun train.py\nEND\nsrun python x.py",
          "cat <<-EOF >x\n\ttorchrun\n\tEOF\ntrue", "cat << EOF\ntorchrun\nEOF\n",
          "srun -J lightning python train.py", "cd /srv/deepspeed", "export L=torchrun",
          "srun python train.py --launcher torchrun", "srun echo torchrun",
          "mytorchrun x; torchrun2 x"})
        test::assert_text(programs(none), "");
    std::string long_script(64 * 1024, '\n');
    test::assert_text(programs(long_script + "torchrun x.py"), "");
    ck_assert_uint_eq(
        parse_script_programs("torchrun a\ndeepspeed b\naccelerate launch\nnemo llm\n").size(), 3);
}

/// Every feature of every plan has a rule: none is left out where a launcher has no words for it.
TEST(each_feature_is_needed_by_some_plan) {
    FeatureSet seen;
    for (std::int64_t bits = 0; bits < 1 << 13; ++bits) {
        const auto bit = [&](int i) { return ((bits >> i) & 1) != 0; };
        PlanFacts f;
        f.pp = bit(0)   ? 2
               : bit(1) ? 3
                        : 1,
        f.dp = bit(2) ? 2 : 1, f.tp = bit(3) ? 2 : 1, f.cp = bit(4) ? 2 : 1;
        f.ep = bit(5) ? 8 : 1, f.vpp = bit(6) ? 2 : 1, f.zero = (bits >> 7) & 3,
        f.micro_batches = 2;
        f.sequence_parallel = bit(9), f.convolutions = bit(10), f.mixed = bit(11);
        f.kv_heads = bit(12) ? 1 : 8;
        f.layers = static_cast<LayerSplit>(bits % 3),
        f.recompute = static_cast<Recompute>(bits % 3);
        f.precision = static_cast<Precision>(bits % 7);
        f.lora_rank = bit(0) ? 8 : 0, f.lora_mlp = bit(1), f.lora_targets = bit(2) ? 1 : 0;
        f.base_bits = bit(3) ? 4 : 16;
        f.hsdp = bit(4) && f.zero > 0 ? 1 : 0;  // groups of one replica each
        f.etp = bit(11) ? 2 : 1, f.schedule = static_cast<Schedule>((bits >> 9) & 3);
        seen = seen.with(needs(f));
        f.ep = bit(5) ? 3 : 1;
        seen = seen.with(needs(f));
    }
    for (std::size_t i = 0; i < feature_count; ++i) {
        const auto feature = static_cast<Feature>(i);
        ck_assert_msg(seen.has(feature), "%s", std::string(to_string(feature)).c_str());
        ck_assert(parse_feature(to_string(feature)) == feature);
        ck_assert(!describe(feature, PlanFacts{}).empty());
    }
}

TEST(an_unsound_table_is_refused_with_its_line) {
    const std::string good = std::string(head) + "1.0 2.0 flat -\n";
    ck_assert(parse_launcher_table(good, "x").ok());
    refused("tasks gpu\n- - flat -\n", "x.table: no line 'title WORDS'");
    refused("title T\n- - flat -\n", "x.table: no line 'tasks gpu' or 'tasks node'");
    refused("title T\ntasks gpu\n", "x.table: no rows");
    refused("title T\ntasks gpu\n1.0 2.0 flat -\n", "go together");
    refused("title T\ntasks gpu\nversion 1\n- - flat -\n", "go together");
    refused("title T\ntasks gpu\nversion 2.0\n1.0 2.0 flat -\n", "version 2.0 has no rows");
    refused(good + "title U\n", "x.table:5: 'title' is there twice");
    refused("tasks host\n", "x.table:1: 'host' is not node or gpu");
    refused("ranks yes\n", "'yes' is not env or own");
    refused("version new\n", "'new' is no version");
    refused("unasked vpp tp\n", "'tp' is none of vpp, cp, ep");
    refused("asked recompute-full zero1\n", "'zero1' is none of recompute-selective");
    refused("script \n", "'script' without words");
    refused("programs\n", "'programs' is followed by");
    refused("colour red\n", "unknown word 'colour'");
    refused("gap 1.0\n", "'gap' is followed by");
    refused("gap 2.0 1.0\n", "2.0 does not come before 1.0");
    refused("gap 1.0 x\n", "'x' is no version");
    refused(good + "1.0 2.0 flat\n", "x.table:5: a row is FROM BEFORE FEATURE WORDS");
    refused(good + "2.0 1.0 flat -\n", "2.0 does not come before 1.0");
    refused(good + "1.0 1.x flat -\n", "'1.x' is no version");
    refused(good + "1.0 2.0 dp -\n", "unknown feature 'dp': accepted are always flat");
    refused(good + "1.0 2.0 flat --n {dip}\n", "'{dip}' names none of {pp} {dp}");
    refused(good + "1.0 2.0 flat --n {dp\n", "'{dp' names none of");
    refused(good + "1.0 2.0 flat --\x01\n", "not printable");
    refused(good + "1.0 2.0 flat " + std::string(300, 'x') + "\n", "more than 256 characters");
    std::string many = good + "1.0 2.0 flat";
    for (int i = 0; i < 65; ++i) many += " x";
    refused(many, "more than 64 words");
    many = good;
    for (int i = 0; i < 1100; ++i) many += "1.0 2.0 flat -\n";
    refused(many, "more than 1024 rows");
    refused(std::string(70000, '#'), "larger than 65536 bytes");
}

TEST(versions_are_compared_by_their_numbers) {
    ck_assert(*parse_version("0.9") < *parse_version("0.10"));
    ck_assert(*parse_version("0.15.3") < *parse_version("0.16"));
    ck_assert(*parse_version("1") == *parse_version("1.0.0"));
    test::assert_text(to_string(*parse_version("0.13")), "0.13");
    test::assert_text(to_string(*parse_version("2")), "2.0");
    test::assert_text(to_string(*parse_version("1.2.0.4")), "1.2.0.4");
    for (const char* none : {"", "x", "1.", ".1", "1.2.3.4.5", "-1", "1.-0", "1 ", "10000"})
        ck_assert_msg(!parse_version(none), "%s", none);
}

TEST(a_launcher_is_named_with_or_without_its_version) {
    test::assert_text(to_string(*parse_launcher("megatron@0.12")), "megatron@0.12");
    test::assert_text(to_string(*parse_launcher("megatron@0.12.3")), "megatron@0.12.3");
    test::assert_text(to_string(*parse_launcher("env")), "env");
    const std::string meant = to_string(*parse_launcher("megatron"));
    test::assert_text(meant, ("megatron@" + to_string(*find_launcher("megatron")->version)));
    const auto says = [](const char* text, const char* wanted) {
        const auto choice = parse_launcher(text);
        ck_assert(!choice.ok());
        ck_assert_msg(choice.error().text.find(wanted) != std::string::npos, "%s",
                      choice.error().text.c_str());
    };
    says("mpirun", "'mpirun' is not one of ddp, env, torchrun, arena-train, megatron");
    says("", "'' is not one of ddp");
    says("env@1.0", "env has no versions: leave out '@1.0'");
    says("megatron@", "'' is no version of megatron: give one such as megatron@");
    says("megatron@core_r0.12", "'core_r0.12' is no version of megatron");
    says("megatron@0.5", "megatron 0.5 is not known: its versions are 0.9 to before ");
}

TEST(lists_of_hosts_are_read_whole_or_not_at_all) {
    const auto hosts = [](const char* list) {
        return join(test::must(parse_hostlist(list, 4096)), " ");
    };
    test::assert_text(hosts("n1"), "n1");
    test::assert_text(hosts("n[08-10,3],m-1.x"), "n08 n09 n10 n3 m-1.x");
    test::assert_text(hosts("r[1-2]n[07,9]"), "r1n07 r1n9 r2n07 r2n9");
    for (const char* none :
         {"", ",", "n1,", ",n1", "n1,,n2", "n[", "n[]", "n[1-2", "n]", "n[2-1]", "n[1-]", "n[-1]",
          "n[a]", "n[1,]", "n[[1]]", "n 1", "n;rm", "n[1-2]]", "n[1234567890]"})
        test::assert_refused(parse_hostlist(none, 4096), "is no list of nodes");
    test::assert_refused(parse_hostlist(std::string(300, 'n'), 4096), "is no list of nodes");
    test::assert_refused(parse_hostlist("n[0-4096]", 4096), "more than 4096 nodes");
    test::assert_refused(parse_hostlist("n1,n[0-2]", 4096), "n1 is there twice");
    ck_assert_uint_eq(test::must(parse_hostlist("n[0-4095]", 4096)).size(), 4096);
}

TEST(ranks_meet_at_the_first_host_and_a_port_of_the_step) {
    const auto first = [](const char* list) { return parse_first_host(list).value_or("none"); };
    test::assert_text(first("n1"), "n1");
    test::assert_text(first("n[3-7,9],m1"), "n3");
    test::assert_text(first("r[01-02]n[007,9]-ib,x"), "r01n007-ib");
    test::assert_text(first("a.b,n[1-2]"), "a.b");
    for (const char* none : {"", ",n1", "n[1-2", "n[]", "n;rm", "n 1", "n[$(x)]"})
        ck_assert_msg(!parse_first_host(none), "%s", none);
    ck_assert(!parse_first_host(std::string(300, 'n')));
    ck_assert_int_eq(master_port(42, 0), 20042);
    ck_assert_int_ne(master_port(42, 0), master_port(42, 1));
    for (const std::int64_t job : {0L, 9999L, 123456789L})
        for (std::int64_t step = 0; step < 50; ++step) {
            const std::int64_t port = master_port(job, step);
            ck_assert(port >= 20000 && port < 30000);
            for (std::int64_t other = 1; other < 20; ++other)
                ck_assert_int_ne(port, master_port(job + other, step));
        }
}

TEST(how_long_something_lasts_is_read_as_slurm_writes_it) {
    const auto seconds = [](const char* text) { return parse_elapsed(text).value_or(-1); };
    ck_assert(seconds("00:00:00") == 0 && seconds("02:03:04") == 7384);
    ck_assert(seconds("1-02:03:04") == 86400 + 7384 && seconds("05:00") == 300);
    ck_assert(seconds("100000-00:00:01") == 100000 * 86400.0 + 1);
    for (const char* none : {"", "5", "1-02", "1-02:03", "1:2:3:4", "-1:00:00", "1--1:00:00", "1-",
                             "00:00:61", "61:00:00", "100001-00:00:00", "UNLIMITED", " 00:00:01",
                             "00:00:0x1", "9223372036854775808-00:00:00"})
        ck_assert_msg(seconds(none) == -1, "%s", none);
}

TEST(what_is_a_host_is_no_option_and_no_word_of_a_shell) {
    for (const char* host : {"n1", "N-1.example.org", "gpu_07", "10.0.0.1", "::1", "fe80::12"})
        ck_assert_msg(is_host(host), "%s", host);
    for (const char* none : {"", "-n", ".n", "n 1", "n;", "n:1", "[::1]", "::g", "n\n"})
        ck_assert_msg(!is_host(none), "%s", none);
    ck_assert(is_host(std::string(255, 'n')) && !is_host(std::string(256, 'n')));
}

TEST(the_resolver_is_asked_for_a_bounded_time_only) {
    using namespace std::chrono_literals;
    ck_assert(resolves("10.1.2.3", 0ms) && resolves("2001:db8::1", 0ms));
    ck_assert_msg(!resolves("localhost", 10s), "a loopback address is of no use to other nodes");
    for (int i = 0; i < 100; ++i)
        ck_assert_msg(!resolves("node.invalid", 0ms), "nobody waited for an answer");
}

TEST(ranks_meet_at_a_name_that_resolves_else_at_the_nodes_address) {
    std::string asked;
    const auto meet = [&](const char* wanted, const char* nodes, bool known, const char* address) {
        asked = "";
        return rendezvous_host(wanted, nodes,
                               {[&](const std::string& host) {
                                    asked += "resolver " + host;
                                    return known;
                                },
                                [&](const std::string& node) {
                                    asked += ", slurmctld " + node;
                                    return std::string(address);
                                }});
    };
    const auto said = [](const Result<std::string>& host, const char* wanted) {
        test::assert_text(must(host), wanted);
    };
    said(meet("", "n[3-4]", true, "10.0.0.3"), "n3");
    test::assert_text(asked, "resolver n3");
    said(meet("", "n[3-4]", false, "10.0.0.3"), "10.0.0.3");
    test::assert_text(asked, "resolver n3, slurmctld n3");
    said(meet("", "n[3-4]", false, ""), "n3");
    said(meet("", "n[3-4]", false, "n3-ib"), "n3-ib");
    said(meet("", "n[3-4]", false, "-o /x"), "n3");
    said(meet("", "n[", false, "10.0.0.3"), "");
    said(meet("head.example.org", "n[3-4]", false, "10.0.0.3"), "head.example.org");
    test::assert_text(asked, "");
    test::assert_refused(meet("n3 ", "n3", true, ""), "ARENA_RDZV_HOST: 'n3 ' is no host name");
}
