# SPDX-License-Identifier: GPL-2.0-or-later
"""The models whose plans are tried, as the config.json that the planner reads, and how many samples an iteration has.
A spread of what makes frameworks refuse: head counts, key-value heads, layer counts, experts, encoders."""
import json

MODELS = {
    "gpt2-xl": ({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024,
                 "vocab_size": 50257}, 512),  # 25 heads
    "gpt-22b": ({"model_type": "gpt2", "n_layer": 48, "n_embd": 6144, "n_head": 64, "n_positions": 2048,
                 "vocab_size": 51200}, 512),
    "llama-3-8b": ({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                    "max_position_embeddings": 8192}, 1024),
    "llama-3-70b": ({"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
                     "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
                     "max_position_embeddings": 8192}, 1024),
    "qwen2.5-3b": ({"model_type": "qwen2", "num_hidden_layers": 36, "hidden_size": 2048, "num_attention_heads": 16,
                    "num_key_value_heads": 2, "intermediate_size": 11008, "vocab_size": 151936,
                    "tie_word_embeddings": True, "max_position_embeddings": 4096}, 512),  # tp above its 2 key-value heads
    "mixtral-8x7b": ({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096,
                      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
                      "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
                      "max_position_embeddings": 4096}, 1024),
    "deepseek-v3": ({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
                     "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
                     "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
                     "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536,
                     "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                     "vocab_size": 129280, "max_position_embeddings": 4096, "attention_bias": False,
                     "hidden_act": "silu"}, 2048),  # 61 layers, a prime
    "bert-large": ({"model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
                    "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512}, 512),
}
# One model more for each precision that a table may have words for, and a small one for those without ZeRO 3 or recompute:
# a name of MODELS and the precision.
PRECISIONS = {f"llama-3-8b-{name}": ("llama-3-8b", name) for name in ("fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4")}
PRECISIONS |= {f"gpt2-xl-{name}": ("gpt2-xl", name) for name in ("fp16", "fp32", "tf32")}
# And of which adapters are trained: a name of MODELS, rank, what has adapters (ARENA_LORA_TARGETS) and bits of a frozen weight.
ADAPTED = {f"{base}-lora-{name}": (base, *how) for base in ("llama-3-8b", "llama-3-70b", "qwen2.5-3b") for name, how in {
    "attention": (8, "attention", 16), "mlp": (16, "attention,mlp", 16), "qv": (64, "q_proj,v_proj", 16), "4bit": (16, "attention,mlp", 4)}.items()}
ALL_MODELS = (*MODELS, *PRECISIONS, *ADAPTED)
SIZES = (1, 8, 16, 64, 512)
PRECISION_SIZE = 16
ADAPTED_SIZES = (1, 8, 16)
GPU_TYPES = {"mxfp8": "B200-SXM-180GB", "nvfp4": "B200-SXM-180GB"}  # else H100-SXM-80GB


class Model:
    """One of MODELS with the words of config.json made alike."""

    def __init__(self, name):
        self.name = name
        base, *adapters = ADAPTED.get(name, (name,))
        self.adapters = tuple(adapters)  # (rank, targets, bits of frozen weights), or ()
        base, self.precision = PRECISIONS.get(base, (base, "bf16"))
        self.config, self.batch = MODELS[base]
        get = self.config.get
        self.family = get("model_type")
        self.layers = get("num_hidden_layers", get("n_layer"))
        self.hidden = get("hidden_size", get("n_embd"))
        self.heads = get("num_attention_heads", get("n_head"))
        self.kv_heads = get("num_key_value_heads", self.heads)
        self.ffn_hidden = get("intermediate_size", 4 * self.hidden)
        self.seq_length = get("max_position_embeddings", get("n_positions"))
        self.vocab = get("vocab_size")
        self.experts = get("num_local_experts", get("n_routed_experts", 0))
        self.top_k = get("num_experts_per_tok", 0)
        self.moe_ffn_hidden = get("moe_intermediate_size", self.ffn_hidden)
        self.dense_layers = get("first_k_dense_replace", 0)
        self.mla = "kv_lora_rank" in self.config
        self.arena_family = ("moe" if self.experts else {"gpt2": "gpt", "bert": "bert"}.get(self.family, "llama"))
        self.gpu_type = GPU_TYPES.get(self.precision, "H100-SXM-80GB")
        self.gated = self.family not in ("gpt2", "bert")

    def file(self):
        """(name, text) of the model file that the planner reads: config.json, or YAML for what that cannot say."""
        if self.precision == "bf16" and not self.adapters:
            return f"{self.name}.json", json.dumps({"_name_or_path": self.name, "torch_dtype": "bfloat16", **self.config})
        facts = {"name": self.name, "family": self.arena_family, "layers": self.layers, "hidden": self.hidden,
                 "heads": self.heads, "kv_heads": self.kv_heads, "ffn_hidden": self.ffn_hidden, "vocab": self.vocab,
                 "seq_length": self.seq_length, "precision": self.precision, **self._adapters()}
        return f"{self.name}.yaml", "".join(f"{key}: {value}\n" for key, value in facts.items())

    def _adapters(self):
        """The keys of arena-model(5) for its adapters."""
        if not self.adapters:
            return {}
        rank, targets, bits = self.adapters
        which = {"attention": {}, "attention,mlp": {"lora_mlp": 1}}.get(targets, {"lora_targets": f"[{targets}]"})
        return {"trainable": "lora", "lora_rank": rank, **which, **({"base_bits": bits} if bits < 16 else {})}
