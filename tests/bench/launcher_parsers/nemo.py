# SPDX-License-Identifier: GPL-2.0-or-later
"""NeMo 2: a recipe of its own with the words as overrides, read by nemo_run's parser; then its MegatronStrategy, what
that writes into the model's configuration, and Megatron core's own checks. PYTHONPATH names nemo_run, fiddle and the
Megatron-LM that belongs to the release."""
import importlib
import importlib.metadata
import os
import re

from . import stubs
from .megatron import _distributed, expert_tp, recompute, schedule, shared_by, stage_layers, start
from .plans import FACTS

STUBBED = tuple("""
torch nemo.core lightning pytorch_lightning lightning_fabric lightning_utilities torchmetrics numpy transformers
huggingface_hub datasets tokenizers sentencepiece einops omegaconf hydra yaml tqdm pandas braceexpand webdataset wget
peft safetensors accelerate tensorstore zarr nvidia_resiliency_ext modelopt absl graphviz libcst networkx rich typer
torchx fabric inquirerpy InquirerPy cryptography jinja2 leptonai toml invoke paramiko docker click nemo_run.run
nemo_run.core.execution nemo_run.core.runners nemo_run.core.tunnel nemo_run.core.packaging nemo_run.cli.api
nemo_run.cli.lazy catalogue transformer_engine tensorboard wandb psutil regex wrapt ruamel cloudpickle h5py scipy numba
matplotlib requests six dateutil filelock megatron.energon megatron.core.inference megatron.core.tokenizers pydantic
nemo.collections.common.tokenizers nemo.collections.asr nemo.collections.tts nemo.collections.vlm
nemo.collections.multimodal nemo.collections.nlp nemo.utils.exp_manager nemo.export nemo.deploy
nemo.collections.llm.inference nemo.collections.llm.evaluation nemo.collections.llm.quantization
nemo.collections.llm.modelopt nemo.collections.llm.t5 nemo.collections.llm.bert
nemo.collections.llm.gpt.model.hf_llama_embedding""".split())
# model -> recipes, the first that the release has; its configuration is then made the model's
RECIPES = {
    "gpt2-xl": ("gpt3_175b",), "gpt-22b": ("gpt3_175b",), "llama-3-8b": ("llama3_8b",), "llama-3-70b": ("llama3_70b",),
    "qwen2.5-3b": ("qwen25_1p5b", "qwen2_1p5b", "llama3_8b"), "mixtral-8x7b": ("mixtral_8x7b",),
    "deepseek-v3": ("deepseek_v3",),
}

# what ARENA_LORA_TARGETS says -> the modules that have adapters
MODULES = {"attention": ["linear_qkv", "linear_proj"],
           "attention,mlp": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]}


def version(directory):
    text = open(os.path.join(directory, "nemo/package_info.py"), encoding="utf-8").read()
    return ".".join(re.search(rf"^{part} = (\d+)", text, re.M)[1] for part in ("MAJOR", "MINOR", "PATCH"))


class Checker:
    observes = FACTS

    def __init__(self, directory):
        stubs.install(directory, STUBBED)
        stubs.dtypes()
        _distributed(0)
        stubs.put("torch.cuda.is_available", lambda: False)
        stubs.put("torch.cuda.device_count", lambda: 8)
        stubs.put("torch.cuda.get_device_properties", lambda *_: type("H100", (), {"major": 9, "minor": 0}))
        importlib.metadata.version = lambda *_: "2.9.0"
        registry = type("RegistryError", (Exception,), {})

        def absent(*_):
            raise registry("not in the registry")

        stubs.put("catalogue.RegistryError", registry)
        stubs.put("catalogue.check_exists", lambda *_: False)
        stubs.put("catalogue._get", absent)
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        import fiddle
        from megatron.core import num_microbatches_calculator, parallel_state
        from megatron.core.pipeline_parallel import schedules
        from megatron.core.transformer import transformer_block
        from nemo.collections.llm import recipes
        from nemo.lightning import _strategy_lib
        from nemo.lightning.pytorch.plugins import mixed_precision
        from nemo_run.cli import cli_parser

        self.fiddle, self.recipes, self.library = fiddle, recipes, _strategy_lib
        self.mpu, self.schedules, self.block = parallel_state, schedules, transformer_block
        self.calculator, self.mixed, self.parser = num_microbatches_calculator, mixed_precision, cli_parser

    def cannot_train(self, model):
        """Why this release has nothing to train such a model by; "" when it has."""
        return "" if self._recipe(model) else "no recipe"

    def _recipe(self, model):
        for name in RECIPES.get(model.name.partition("-lora")[0], ()):
            try:
                return importlib.import_module(f"nemo.collections.llm.recipes.{name}")
            except ModuleNotFoundError:
                continue
        return None

    def run(self, plan, words):
        module = self._recipe(plan.model)
        make = module.finetune_recipe if plan.model.adapters else module.pretrain_recipe
        recipe = make(num_nodes=plan.nodes, num_gpus_per_node=plan.per_node)
        self._make_model(recipe.model.config, plan.model)
        recipe.data.seq_length = plan.model.seq_length
        self.parser.parse_cli_args(recipe, [f"trainer.num_nodes={plan.nodes}", f"trainer.devices={plan.per_node}", *words])
        build = self.fiddle.build
        strategy, optimizer = build(recipe.trainer.strategy), build(recipe.optim.config)
        config = self._connect(build(recipe.model.config), strategy, build(recipe.trainer.plugins))
        world = recipe.trainer.num_nodes * recipe.trainer.devices
        _distributed(0)
        start(self.mpu, self.calculator, world, {
            "tensor_model_parallel_size": strategy.tensor_model_parallel_size,
            "pipeline_model_parallel_size": strategy.pipeline_model_parallel_size,
            "virtual_pipeline_model_parallel_size": strategy.virtual_pipeline_model_parallel_size,
            "context_parallel_size": strategy.context_parallel_size,
            "expert_model_parallel_size": strategy.expert_model_parallel_size,
            "expert_tensor_parallel_size": vars(strategy).get("expert_tensor_parallel_size")})
        dp = self.mpu.get_data_parallel_world_size()
        data = recipe.data
        self.calculator.init_num_microbatches_calculator(0, None, data.global_batch_size, data.micro_batch_size, dp)
        count, chunks = self.calculator.get_num_microbatches(), strategy.virtual_pipeline_model_parallel_size or 1
        self._configure(config)
        layers = stage_layers(self.mpu, self.block, config, strategy.pipeline_model_parallel_size, chunks)
        schedule(self.schedules, config, chunks, count, data.seq_length, data.micro_batch_size)
        return {
            "world": world, "pp": strategy.pipeline_model_parallel_size, "dp": dp,
            "tp": strategy.tensor_model_parallel_size, "cp": strategy.context_parallel_size,
            "ep": strategy.expert_model_parallel_size,
            "expert_tp": expert_tp(self.mpu, plan.model, strategy.tensor_model_parallel_size), "vpp": chunks,
            "schedule": "1f1b", "shared_by": shared_by(self.mpu, strategy.context_parallel_size),
            "micro_batch": data.micro_batch_size, "num_micro_batches": count, "global_batch": data.global_batch_size,
            "recompute": recompute(config), "zero": 1 if optimizer.use_distributed_optimizer else 0,
            "sequence_parallel": bool(strategy.sequence_parallel), "stage_layers": layers,
            "precision": "bf16" if config.bf16 else "fp16" if config.fp16 else "fp32",
            **({"adapters": self._adapters(build(recipe.peft))} if plan.model.adapters else {}),
        }

    def _adapters(self, lora):
        """Rank and targets of the LoRA that the recipe builds."""
        targets = [name for name, modules in MODULES.items() if modules == lora.target_modules]
        return (lora.dim, targets[0] if targets else lora.target_modules)

    def _make_model(self, config, model):
        """The recipe's model with this one's sizes: what the user would write into it."""
        config.num_layers, config.hidden_size, config.num_attention_heads = model.layers, model.hidden, model.heads
        config.ffn_hidden_size, config.seq_length = model.ffn_hidden, model.seq_length
        if not model.mla:
            config.num_query_groups = model.kv_heads

    def _connect(self, config, strategy, plugin):
        """What MegatronStrategy.connect does to the model's configuration."""
        model = type("Model", (), {"config": config, "configure_model": None})()
        parallelism = strategy.parallelism
        self.library.set_model_parallel_attributes(model, parallelism)
        config = self.mixed.update_config_with_dtype_overrides(plugin.dtype_config, model.config)
        config.__post_init__()
        return config

    def _configure(self, config):
        """GPTConfig.configure_model up to where Megatron core builds the model."""
        module = importlib.import_module("nemo.collections.llm.gpt.model.base")

        def reached(*_, **__):
            raise stubs.Reached("the model is built")

        core = importlib.import_module("megatron.core.models.gpt.gpt_model")
        core.GPTModel = reached
        if hasattr(module, "MCoreGPTModel"):
            module.MCoreGPTModel = reached
        try:
            config.configure_model(type("Tokenizer", (), {"vocab_size": 32000})())
        except stubs.Reached:
            pass
