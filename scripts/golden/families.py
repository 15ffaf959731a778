#!/usr/bin/env python3
"""Writes tests/model/golden/ for the other families and for what Llama itself may have: stretched positions, biases.

usage: scripts/golden/families.py [folder]     needs what llama.py needs, and writes the same files.
"""
import sys

import torch

from llama import write_all

DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def stretched(theta, factor, low, high, positions):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": positions}


SHAPES = {
    # Frequencies on both sides of both borders, and one between them.
    "llama_stretched": dict(
        family="llama", seed=121, dtype=torch.bfloat16, spread=0.45, batch=(2, 40), targets=None, r=4, alpha=96,
        config=dict(vocab_size=61, hidden_size=24, intermediate_size=38, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    rope_parameters=stretched(500.0, 8.0, 1.0, 4.0, 60))),
    # Every bias that there is; one key head; tied.
    "llama_biased": dict(
        family="llama", seed=122, dtype=torch.bfloat16, spread=0.4, batch=(3, 11), targets="all-linear", r=3, alpha=48,
        config=dict(vocab_size=73, hidden_size=27, intermediate_size=41, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    attention_bias=True, mlp_bias=True, rope_parameters=DEFAULT_ROPE)),
    # Biases of attention alone beside stretched positions; heads narrower than their share; stored in F16.
    "llama_stretched_biased": dict(
        family="llama", seed=23, dtype=torch.float16, spread=0.45, batch=(1, 37), targets=["o_proj", "down_proj"], r=5,
        alpha=96,
        config=dict(vocab_size=59, hidden_size=30, intermediate_size=35, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=4, rms_norm_eps=1e-4, tie_word_embeddings=False,
                    attention_bias=True, rope_parameters=stretched(77.0, 32.0, 1.0, 2.0, 16))),
    # No window, as Mistral 7B from 0.2 on and Nemo, with heads other than hidden / heads.
    "mistral": dict(
        family="mistral", seed=31, dtype=torch.bfloat16, spread=0.45, batch=(2, 17), targets=None, r=4, alpha=80,
        config=dict(vocab_size=67, hidden_size=26, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    sliding_window=None, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    # A window that no sequence reaches.
    "mistral_wide_window": dict(
        family="mistral", seed=32, dtype=torch.float32, spread=0.5, batch=(3, 9), targets="all-linear", r=2, alpha=64,
        config=dict(vocab_size=79, hidden_size=21, intermediate_size=33, num_hidden_layers=1, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=14, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    sliding_window=64, rope_parameters=DEFAULT_ROPE)),
    "mistral_tied": dict(
        family="mistral", seed=133, dtype=torch.float16, spread=0.4, batch=(2, 23), targets=["k_proj", "up_proj"], r=3,
        alpha=96,
        config=dict(vocab_size=53, hidden_size=33, intermediate_size=47, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=6, rms_norm_eps=1e-3, tie_word_embeddings=True,
                    sliding_window=None, rope_parameters=DEFAULT_ROPE)),
    # Every layer sees 8 positions.
    "mistral_windowed": dict(
        family="mistral", seed=34, dtype=torch.bfloat16, spread=0.45, batch=(2, 29), targets=None, r=4, alpha=96,
        config=dict(vocab_size=57, hidden_size=24, intermediate_size=35, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    sliding_window=8, rope_parameters=DEFAULT_ROPE)),
    "qwen2": dict(
        family="qwen2", seed=41, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=None, r=4, alpha=80,
        config=dict(vocab_size=71, hidden_size=24, intermediate_size=39, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, sliding_window=4,
                    use_sliding_window=False, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen2_untied": dict(
        family="qwen2", seed=42, dtype=torch.float32, spread=0.4, batch=(1, 31), targets="all-linear", r=2, alpha=24,
        config=dict(vocab_size=63, hidden_size=30, intermediate_size=29, num_hidden_layers=2, num_attention_heads=5,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    rope_parameters=DEFAULT_ROPE)),
    "qwen2_stretched": dict(
        family="qwen2", seed=43, dtype=torch.float16, spread=0.45, batch=(3, 13), targets=["q_proj", "gate_proj"], r=5,
        alpha=96,
        config=dict(vocab_size=83, hidden_size=36, intermediate_size=31, num_hidden_layers=1, num_attention_heads=3,
                    num_key_value_heads=3, rms_norm_eps=1e-4, tie_word_embeddings=True,
                    rope_parameters=stretched(300.0, 4.0, 1.0, 3.0, 24))),
    # The last layer sees 6 positions, the others all.
    "qwen2_windowed": dict(
        family="qwen2", seed=9044, dtype=torch.bfloat16, spread=0.45, batch=(2, 21), targets=None, r=4, alpha=96,
        config=dict(vocab_size=55, hidden_size=24, intermediate_size=33, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=6,
                    use_sliding_window=True, max_window_layers=2, rope_parameters=DEFAULT_ROPE)),
    "qwen3": dict(
        family="qwen3", seed=51, dtype=torch.bfloat16, spread=0.45, batch=(2, 19), targets=None, r=4, alpha=96,
        config=dict(vocab_size=69, hidden_size=26, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen3_biased": dict(
        family="qwen3", seed=152, dtype=torch.float16, spread=0.45, batch=(1, 33), targets="all-linear", r=3, alpha=64,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=False,
                    attention_bias=True, rope_parameters=DEFAULT_ROPE)),
    "qwen3_stretched": dict(
        family="qwen3", seed=153, dtype=torch.float32, spread=0.5, batch=(4, 10), targets=["k_proj", "v_proj"], r=2,
        alpha=96,
        config=dict(vocab_size=85, hidden_size=23, intermediate_size=43, num_hidden_layers=1, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    rope_parameters=stretched(100.0, 16.0, 1.0, 4.0, 12))),
    # Norms after each branch, and over all heads of a token; heads as wide as their share.
    "olmo2": dict(
        family="olmo2", seed=61, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=96,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=False, bos_token_id=None,
                    pad_token_id=0, eos_token_id=1,
                    rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
    "olmo2_biased": dict(
        family="olmo2", seed=62, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3, alpha=64,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, pad_token_id=0,
                    eos_token_id=1, attention_bias=True, rope_parameters=DEFAULT_ROPE)),
    # The middle layer sees 6 positions.
    "ministral": dict(
        family="ministral", seed=171, dtype=torch.bfloat16, spread=0.45, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=40,
        config=dict(vocab_size=57, hidden_size=24, intermediate_size=35, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=6,
                    layer_types=["full_attention", "sliding_attention", "full_attention"],
                    rope_parameters=DEFAULT_ROPE)),
    "ministral_sliding": dict(
        family="ministral", seed=5072, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3,
        alpha=64,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=True, sliding_window=9,
                    head_dim=10, rope_parameters=DEFAULT_ROPE)),
    # The first and the fifth layer see everything, as where layer_types is silent; positions are stretched likewise.
    "cwm": dict(
        family="cwm", seed=7081, dtype=torch.bfloat16, spread=0.45, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=24,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=5, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, tie_word_embeddings=False, sliding_window=5,
                    bos_token_id=1, eos_token_id=[2, 3])),
    "cwm_biased": dict(
        family="cwm", seed=282, dtype=torch.float16, spread=0.4, batch=(3, 13), targets="all-linear", r=2, alpha=16,
        config=dict(vocab_size=61, hidden_size=30, intermediate_size=29, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-4, tie_word_embeddings=True, mlp_bias=True,
                    sliding_window=7, bos_token_id=1, eos_token_id=[2, 3],
                    rope_parameters=stretched(200.0, 8.0, 1.0, 4.0, 24))),
    # The last of four layers is not turned; stretched by one factor.
    "smollm3": dict(
        family="smollm3", seed=191, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, pad_token_id=0,
                    bos_token_id=1, eos_token_id=2,
                    rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0})),
    "smollm3_biased": dict(
        family="smollm3", seed=1092, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=False, pad_token_id=0,
                    bos_token_id=1, eos_token_id=2, mlp_bias=True, no_rope_layers=[0, 1, 0],
                    rope_parameters={"rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0,
                                     "original_max_position_embeddings": 16})),
    # Layers with a window turn by positions of their own, the last one by stretched ones.
    "olmo3": dict(
        family="olmo3", seed=101, dtype=torch.bfloat16, spread=0.4, batch=(2, 23), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=False, bos_token_id=None,
                    pad_token_id=0, eos_token_id=1, sliding_window=7,
                    rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0,
                                                        "original_max_position_embeddings": 24, "beta_fast": 16.0,
                                                        "beta_slow": 2.0, "attention_factor": 1.2},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})),
    "olmo3_named": dict(
        family="olmo3", seed=102, dtype=torch.float16, spread=0.45, batch=(1, 31), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=57, hidden_size=30, intermediate_size=33, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=3, rms_norm_eps=1e-4, tie_word_embeddings=True, bos_token_id=None,
                    pad_token_id=0, eos_token_id=1, sliding_window=5, attention_bias=True,
                    layer_types=["full_attention", "sliding_attention", "full_attention"])),
    # Positions beyond the original ones, where queries grow.
    "ministral3": dict(
        family="ministral3", seed=111, dtype=torch.bfloat16, spread=0.4, batch=(2, 27), targets=["q_proj", "v_proj"],
        r=4, alpha=32,
        config=dict(vocab_size=61, hidden_size=28, intermediate_size=35, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=0,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0,
                                     "original_max_position_embeddings": 10, "max_position_embeddings": 160,
                                     "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                     "llama_4_scaling_beta": 0.3})),
    "ministral3_windowed": dict(
        family="ministral3", seed=112, dtype=torch.float32, spread=0.45, batch=(1, 35), targets="all-linear", r=2,
        alpha=16,
        config=dict(vocab_size=59, hidden_size=26, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-4, tie_word_embeddings=True, pad_token_id=0,
                    sliding_window=9,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "truncate": False,
                                     "original_max_position_embeddings": 12, "mscale": 0.7, "mscale_all_dim": 1.3,
                                     "llama_4_scaling_beta": 0.0})),
    "granite": dict(
        family="granite", seed=131, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=40,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True, pad_token_id=0,
                    embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.4, logits_scaling=0.5,
                    rope_parameters=DEFAULT_ROPE)),
    "granite_biased": dict(
        family="granite", seed=35332, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3,
        alpha=24,
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=3, rms_norm_eps=1e-3, tie_word_embeddings=False, pad_token_id=0,
                    attention_bias=True, mlp_bias=True, embedding_multiplier=2.0, attention_multiplier=0.4,
                    residual_multiplier=0.22, logits_scaling=1.5, rope_parameters=DEFAULT_ROPE)),
    # All that sets Gemma apart: four norms in a layer, distances from one, two kinds of positions.
    "gemma3": dict(
        family="gemma3_text", seed=341, dtype=torch.bfloat16, spread=0.3, batch=(2, 21), targets=["q_proj", "v_proj"],
        r=4, alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=6, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-6, pad_token_id=0, bos_token_id=1,
                    eos_token_id=2, sliding_window=6, query_pre_attn_scalar=40)),
    "gemma3_stretched": dict(
        family="gemma3_text", seed=742, dtype=torch.float32, spread=0.35, batch=(1, 33), targets="all-linear", r=3,
        alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-3, pad_token_id=0, bos_token_id=1,
                    eos_token_id=2, sliding_window=9, query_pre_attn_scalar=64, tie_word_embeddings=False,
                    attention_bias=True,
                    layer_types=["full_attention", "sliding_attention", "full_attention"],
                    rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 100000.0, "factor": 8.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}})),
    # Fused projections; three quarters of each head are turned.
    "phi3": dict(
        family="phi3", seed=151, dtype=torch.bfloat16, spread=0.4, batch=(2, 21), targets=["qkv_proj"], r=4, alpha=32,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=0,
                    sliding_window=9,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75})),
    # Passes that end within the original positions, and others that reach beyond them while it is trained.
    "phi3_long": dict(
        family="phi3", seed=152, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=True, pad_token_id=0,
                    max_position_embeddings=96, original_max_position_embeddings=24,
                    rope_parameters={"rope_type": "longrope", "rope_theta": 1000.0,
                                     "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0], "long_factor": [1.0, 2.0, 3.5, 6.0, 9.0]})),
    "glm4": dict(
        family="glm4", seed=161, dtype=torch.bfloat16, spread=0.35, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=0,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    "glm4_unbiased": dict(
        family="glm4", seed=262, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, pad_token_id=0,
                    attention_bias=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0})),
    # The middle layer has no experts; the chosen weights add up to one.
    "qwen3_moe": dict(
        family="qwen3_moe", seed=301, dtype=torch.bfloat16, spread=0.45, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=40,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False,
                    moe_intermediate_size=19, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True,
                    mlp_only_layers=[1], rope_parameters=DEFAULT_ROPE)),
    # Every second layer has experts, of which one is chosen; what the routers add is in the loss.
    "qwen3_moe_balanced": dict(
        family="qwen3_moe", seed=1302, dtype=torch.float16, spread=0.4, batch=(3, 13), targets="all-linear", r=2, alpha=16,
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=29, num_hidden_layers=4, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-4, tie_word_embeddings=True,
                    attention_bias=True, moe_intermediate_size=23, num_experts=3, num_experts_per_tok=1,
                    norm_topk_prob=False, decoder_sparse_step=2, output_router_logits=True, router_aux_loss_coef=0.3,
                    rope_parameters=DEFAULT_ROPE)),
    # Every layer sees 9 positions.
    "qwen3_moe_windowed": dict(
        family="qwen3_moe", seed=1303, dtype=torch.float32, spread=0.45, batch=(1, 33), targets=None, r=3, alpha=24,
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=10, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    moe_intermediate_size=17, num_experts=7, num_experts_per_tok=3, norm_topk_prob=False,
                    use_sliding_window=True, sliding_window=9, rope_parameters=DEFAULT_ROPE)),
    "mixtral": dict(
        family="mixtral", seed=1311, dtype=torch.bfloat16, spread=0.4, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=40,
        config=dict(vocab_size=57, hidden_size=24, intermediate_size=35, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False, num_local_experts=4,
                    num_experts_per_tok=2, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    # Every layer sees 7 positions; scaled by the root of the rank, with both projections of a gate as one matrix.
    "mixtral_windowed": dict(
        family="mixtral", seed=312, dtype=torch.float32, spread=0.4, batch=(3, 12), targets=["w1", "w2", "w3", "gate"],
        r=2, alpha=8, rslora=True,
        config=dict(vocab_size=63, hidden_size=27, intermediate_size=22, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-4, tie_word_embeddings=True,
                    num_local_experts=3, num_experts_per_tok=1, sliding_window=7, output_router_logits=True,
                    router_aux_loss_coef=0.2, rope_parameters=DEFAULT_ROPE)),
    # All experts are chosen.
    "mixtral_all": dict(
        family="mixtral", seed=313, dtype=torch.float16, spread=0.4, batch=(1, 31), targets=None, r=3, alpha=240,
        target_parameters=["down_proj"],
        config=dict(vocab_size=71, hidden_size=30, intermediate_size=21, num_hidden_layers=1, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=False,
                    num_local_experts=3, num_experts_per_tok=3, rope_parameters=DEFAULT_ROPE)),
    # Norms over all heads; weights as they are.
    "olmoe": dict(
        family="olmoe", seed=1321, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=64,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=False, num_experts=6,
                    num_experts_per_tok=3, output_router_logits=True, router_aux_loss_coef=0.1, pad_token_id=None,
                    eos_token_id=1, rope_parameters=DEFAULT_ROPE)),
    "olmoe_normalised": dict(
        family="olmoe", seed=1322, dtype=torch.float32, spread=0.45, batch=(1, 33), targets=None, r=3, alpha=24,
        target_parameters=["experts.gate_up_proj", "gate.weight"],
        config=dict(vocab_size=65, hidden_size=24, intermediate_size=13, num_hidden_layers=2, num_attention_heads=3,
                    rms_norm_eps=1e-3, tie_word_embeddings=True, num_experts=9, num_experts_per_tok=2,
                    norm_topk_prob=True, attention_bias=True, pad_token_id=None, eos_token_id=1,
                    rope_parameters=DEFAULT_ROPE)),
    # Experts in one tensor, and Granite's multipliers.
    "granite_moe": dict(
        family="granitemoe", seed=3331, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets="all-linear", r=4,
        alpha=64,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, num_local_experts=6,
                    num_experts_per_tok=3, output_router_logits=True, router_aux_loss_coef=0.1,
                    embedding_multiplier=1.5, attention_multiplier=0.3, residual_multiplier=0.8, logits_scaling=0.7,
                    rope_parameters=DEFAULT_ROPE)),
    # Beside the experts a part that every token reads, through a gate of its own.
    "qwen2_moe": dict(
        family="qwen2_moe", seed=1821, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets="all-linear", r=4,
        alpha=48,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=False, num_experts=5,
                    num_experts_per_tok=2, moe_intermediate_size=13, shared_expert_intermediate_size=19,
                    mlp_only_layers=[0], rope_parameters=DEFAULT_ROPE)),
    "qwen2_moe_adapted": dict(
        family="qwen2_moe", seed=1722, dtype=torch.float32, spread=0.4, batch=(1, 33), r=3, alpha=24,
        targets=["o_proj", "shared_expert_gate"], target_parameters=["experts.gate_up_proj", "experts.down_proj"],
        config=dict(vocab_size=65, hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=True, num_experts=4,
                    num_experts_per_tok=3, moe_intermediate_size=11, shared_expert_intermediate_size=9,
                    norm_topk_prob=True, qkv_bias=False, output_router_logits=True, router_aux_loss_coef=0.05,
                    rope_parameters=DEFAULT_ROPE)),
    # States in one layer, attention in the other, and experts with a shared one in both.
    "qwen35_moe": dict(
        family="qwen3_5_moe_text", seed=4123, dtype=torch.bfloat16, spread=0.4, batch=(1, 71), r=3, alpha=32,
        targets=["q_proj", "in_proj_qkv", "out_proj"],
        config=dict(vocab_size=67, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                    head_dim=16, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
                    linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=12, num_experts=4,
                    num_experts_per_tok=2, moe_intermediate_size=13, shared_expert_intermediate_size=17,
                    tie_word_embeddings=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5})),
    # Projections that lie together by key head, of which each has two value heads; one dense layer.
    "qwen3_next": dict(
        family="qwen3_next", seed=2121, dtype=torch.bfloat16, spread=0.4, batch=(2, 37), r=3, alpha=32,
        targets=["q_proj", "in_proj_qkvz", "in_proj_ba", "out_proj"],
        config=dict(vocab_size=67, hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=16, layer_types=["linear_attention", "full_attention"],
                    linear_num_key_heads=3, linear_num_value_heads=6, linear_key_head_dim=10, linear_value_head_dim=12,
                    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=13, shared_expert_intermediate_size=17,
                    mlp_only_layers=[1], norm_topk_prob=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5})),
    # Every layer has experts, and what their routers add is in the loss; adapters on all that was a linear layer.
    "qwen3_next_adapted": dict(
        family="qwen3_next", seed=3831, dtype=torch.float32, spread=0.4, batch=(1, 67), targets="all-linear", r=2, alpha=20,
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=16, rms_norm_eps=1e-3, layer_types=["full_attention", "linear_attention"],
                    tie_word_embeddings=True, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=7,
                    linear_value_head_dim=9, linear_conv_kernel_dim=3, num_experts=3, num_experts_per_tok=1, norm_topk_prob=False,
                    moe_intermediate_size=11, shared_expert_intermediate_size=9, output_router_logits=True,
                    router_aux_loss_coef=0.1,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25})),
    "qwen35_moe_adapted": dict(
        family="qwen3_5_moe_text", seed=2432, dtype=torch.float32, spread=0.4, batch=(1, 67), r=2, alpha=20,
        targets=["o_proj", "in_proj_z", "shared_expert_gate"],
        target_parameters=["experts.gate_up_proj", "experts.down_proj"],
        config=dict(vocab_size=61, hidden_size=26, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
                    head_dim=16, rms_norm_eps=1e-3, layer_types=["full_attention", "linear_attention"],
                    tie_word_embeddings=True, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=7,
                    linear_value_head_dim=9, linear_conv_kernel_dim=3, num_experts=3, num_experts_per_tok=3,
                    moe_intermediate_size=11, shared_expert_intermediate_size=9, output_router_logits=True,
                    router_aux_loss_coef=0.1,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25})),
    "granite_moe_adapted": dict(
        family="granitemoe", seed=432, dtype=torch.float32, spread=0.45, batch=(1, 33), targets=["q_proj"], r=3, alpha=24,
        target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"],
        config=dict(vocab_size=65, hidden_size=24, intermediate_size=13, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=False, num_local_experts=5,
                    num_experts_per_tok=2, attention_bias=True, embedding_multiplier=2.0, attention_multiplier=0.5,
                    residual_multiplier=0.5, logits_scaling=0.5, rope_parameters=DEFAULT_ROPE)),
    # One dense layer, then experts in groups, of which two of three are open; heads with norms and biases.
    "glm4_moe": dict(
        family="glm4_moe", seed=1811, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets="all-linear", r=4,
        alpha=40,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, attention_bias=True, use_qk_norm=True,
                    n_routed_experts=9, num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=13, n_group=3,
                    topk_group=2, routed_scaling_factor=2.5,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    # What the chosen weigh is not divided by its sum; every layer has experts, in one group.
    "glm4_moe_adapted": dict(
        family="glm4_moe", seed=1812, dtype=torch.float32, spread=0.4, batch=(1, 33), targets=["q_proj"], r=3, alpha=24,
        target_parameters=["experts.gate_up_proj", "experts.down_proj"],
        config=dict(vocab_size=65, hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, n_routed_experts=5,
                    num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=11, norm_topk_prob=False,
                    first_k_dense_replace=0,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    # Keys and values of narrow rows, values narrower than keys; queries of narrow rows too; stretched positions correct
    # the scores of whole heads; one dense layer, then experts in groups.
    "deepseek_v3": dict(
        family="deepseek_v3", seed=1931, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets="all-linear", r=4,
        alpha=40,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=4, q_lora_rank=14, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=6,
                    v_head_dim=9, rms_norm_eps=1e-2, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
                    moe_intermediate_size=13, n_group=4, topk_group=2, first_k_dense_replace=1, pad_token_id=0,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 40.0, "beta_fast": 8.0,
                                     "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 1.0,
                                     "original_max_position_embeddings": 24})),
    # Queries of the stream, biases, values as wide as keys, no layer with experts, plain positions; tied.
    "deepseek_v3_dense": dict(
        family="deepseek_v3", seed=1832, dtype=torch.float32, spread=0.4, batch=(1, 33), targets=["kv_b_proj", "o_proj"],
        r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, q_lora_rank=None, kv_lora_rank=11, qk_nope_head_dim=4, qk_rope_head_dim=8,
                    v_head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=True, attention_bias=True,
                    first_k_dense_replace=2, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=11,
                    n_group=1, topk_group=1, rope_parameters=DEFAULT_ROPE)),
    # Norms of narrow rows have an epsilon of their own.
    "glm4_moe_lite": dict(
        family="glm4_moe_lite", seed=1841, dtype=torch.bfloat16, spread=0.4, batch=(3, 13),
        targets=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"], r=2, alpha=16,
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=29, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, q_lora_rank=12, kv_lora_rank=9, qk_nope_head_dim=10, qk_rope_head_dim=4,
                    v_head_dim=14, rms_norm_eps=1e-1, n_routed_experts=5, num_experts_per_tok=2,
                    moe_intermediate_size=11, mlp_layer_types=["sparse", "dense"], pad_token_id=0,
                    rope_parameters={"rope_type": "default", "rope_theta": 300.0})),
    # Layers that see 6 positions and all take turns; sinks; positions stretched as where config.json is silent, over
    # few of them.
    "gpt_oss": dict(
        family="gpt_oss", seed=1801, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=40,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=17, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, sliding_window=6, num_local_experts=5, num_experts_per_tok=2,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "beta_fast": 8.0,
                                     "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 16})),
    # One expert is chosen, and most gates are clamped; what the routers add is in the loss.
    "gpt_oss_balanced": dict(
        family="gpt_oss", seed=1702, dtype=torch.float16, spread=0.4, batch=(3, 13), targets="all-linear", r=2, alpha=24,
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=23, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-4, tie_word_embeddings=True,
                    attention_bias=False, layer_types=["full_attention", "sliding_attention"], sliding_window=7,
                    num_local_experts=3, num_experts_per_tok=1, swiglu_alpha=1.2, swiglu_limit=1.5,
                    output_router_logits=True, router_aux_loss_coef=0.3, rope_parameters=DEFAULT_ROPE)),
    "gpt_oss_adapted": dict(
        family="gpt_oss", seed=2603, dtype=torch.float32, spread=0.45, batch=(1, 33), targets=["k_proj"], r=3, alpha=24,
        target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"],
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=13, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=10, rms_norm_eps=1e-5, sliding_window=9,
                    layer_types=["full_attention"] * 2, num_local_experts=4, num_experts_per_tok=3,
                    rope_parameters=DEFAULT_ROPE)),
    # Capped scores and logits, which bind: the caps are narrower than the published ones.
    "gemma2": dict(
        family="gemma2", seed=351, dtype=torch.bfloat16, spread=0.3, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-6, pad_token_id=0, sliding_window=6,
                    query_pre_attn_scalar=40, attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
    "gemma2_uncapped_head": dict(
        family="gemma2", seed=3352, dtype=torch.float32, spread=0.35, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-3, pad_token_id=0, sliding_window=9,
                    query_pre_attn_scalar=16, tie_word_embeddings=False, attention_bias=True,
                    attn_logit_softcapping=1.5, final_logit_softcapping=None,
                    rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0})),
    # Layers that see everything have heads of their own size, whose keys are their values; a quarter of their pairs turns.
    "gemma4": dict(
        family="gemma4_text", seed=1601, dtype=torch.bfloat16, spread=0.3, batch=(2, 21), targets=["q_proj", "v_proj"],
        r=4, alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=10, global_head_dim=20, num_global_key_value_heads=1,
                    attention_k_eq_v=True, rms_norm_eps=1e-6, pad_token_id=0, sliding_window=6,
                    hidden_size_per_layer_input=0, final_logit_softcapping=5.0,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"])),
    # Values of their own, biases; only the last layer sees everything, as it must.
    "gemma4_biased": dict(
        family="gemma4_text", seed=1602, dtype=torch.float32, spread=0.3, batch=(1, 33), targets="all-linear", r=3,
        alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=8, global_head_dim=6, rms_norm_eps=1e-3, pad_token_id=0,
                    sliding_window=9, hidden_size_per_layer_input=0, tie_word_embeddings=False, attention_bias=True,
                    rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 500.0,
                                                        "partial_rotary_factor": 0.7, "factor": 2.0},
                                     "sliding_attention": {"rope_type": "linear", "rope_theta": 300.0,
                                                           "factor": 4.0}})),
    # LayerNorm, one for attention and the feed-forward part; layers that see everything are not turned.
    "cohere2": dict(
        family="cohere2", seed=9361, dtype=torch.bfloat16, spread=0.4, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, layer_norm_eps=1e-5, pad_token_id=0, sliding_window=6, logit_scale=0.5)),
    "cohere2_biased": dict(
        family="cohere2", seed=362, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, layer_norm_eps=1e-3, pad_token_id=0, sliding_window=9, logit_scale=0.7,
                    tie_word_embeddings=False, attention_bias=True,
                    layer_types=["sliding_attention", "sliding_attention"],
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    # Norms' weights as distances from 1, one kind of layers; stretched by one factor.
    "gemma": dict(
        family="gemma", seed=1501, dtype=torch.bfloat16, spread=0.35, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-6, pad_token_id=0,
                    rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0})),
    "gemma_biased": dict(
        family="gemma", seed=2502, dtype=torch.float32, spread=0.25, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=16, rms_norm_eps=1e-3, pad_token_id=0, tie_word_embeddings=False,
                    attention_bias=True, rope_parameters=DEFAULT_ROPE)),
    # Attention alone, and a feed-forward part of fused projections, with Granite's multipliers.
    "granite_hybrid": dict(
        family="granitemoehybrid", seed=1511, dtype=torch.bfloat16, spread=0.4, batch=(2, 19),
        targets=["q_proj", "v_proj"], r=4, alpha=48,
        config=dict(vocab_size=69, hidden_size=24, shared_intermediate_size=37, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    layer_types=["full_attention"] * 2, num_local_experts=0, position_embedding_type="rope",
                    mamba_n_heads=4, embedding_multiplier=1.5, attention_multiplier=0.3, residual_multiplier=0.8,
                    logits_scaling=0.7, rope_parameters=DEFAULT_ROPE)),
    "granite_hybrid_biased": dict(
        family="granitemoehybrid", seed=1512, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3,
        alpha=24,
        config=dict(vocab_size=65, hidden_size=30, shared_intermediate_size=31, num_hidden_layers=3,
                    num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=1e-3, tie_word_embeddings=False,
                    layer_types=["attention"] * 3, num_local_experts=0, position_embedding_type="rope",
                    mamba_n_heads=3, attention_bias=True, embedding_multiplier=2.0, attention_multiplier=0.2,
                    residual_multiplier=0.5, logits_scaling=0.9, rope_parameters=stretched(200.0, 8.0, 1.0, 4.0, 24))),
    # Biases of queries, keys and values, as where config.json is silent; without dropout.
    "seed_oss": dict(
        family="seed_oss", seed=521, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=48,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=0,
                    attention_dropout=0.0, residual_dropout=0.0,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000000.0})),
    # Every other bias.
    "seed_oss_biased": dict(
        family="seed_oss", seed=522, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, pad_token_id=0,
                    attention_bias=False, attention_out_bias=True, mlp_bias=True, attention_dropout=0.0,
                    residual_dropout=0.0, rope_parameters=DEFAULT_ROPE)),
    # Norms behind each branch and of heads; the last of four layers sees everything, unturned.
    "exaone4": dict(
        family="exaone4", seed=2531, dtype=torch.bfloat16, spread=0.4, batch=(2, 23), targets=["q_proj", "v_proj"], r=4,
        alpha=64,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=False, sliding_window=6,
                    rope_parameters=stretched(500.0, 16.0, 1.0, 4.0, 60))),
    # No window: every layer is turned.
    "exaone4_full": dict(
        family="exaone4", seed=1532, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3, alpha=48,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-3, tie_word_embeddings=True,
                    sliding_window=None, layer_types=["full_attention"] * 3, rope_parameters=DEFAULT_ROPE)),
    # Turned in pairs of neighbours, all numbers of each head.
    "ernie4_5": dict(
        family="ernie4_5", seed=1541, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=48,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, pad_token_id=0)),
    "ernie4_5_biased": dict(
        family="ernie4_5", seed=542, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=False, pad_token_id=0,
                    use_bias=True, rope_parameters={"rope_type": "default", "rope_theta": 300.0})),
    # ReLU squared without a gate.
    "arcee": dict(
        family="arcee", seed=551, dtype=torch.bfloat16, spread=0.35, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=48,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=False,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                                     "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0,
                                     "mscale": 1.0})),
    "arcee_biased": dict(
        family="arcee", seed=552, dtype=torch.float32, spread=0.3, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, attention_bias=True,
                    mlp_bias=True, rope_parameters=DEFAULT_ROPE)),
    # As Cohere 2, but every layer sees everything, and is turned.
    "cohere": dict(
        family="cohere", seed=3561, dtype=torch.bfloat16, spread=0.4, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=96,
        config=dict(vocab_size=69, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, layer_norm_eps=1e-5, pad_token_id=0, logit_scale=0.5)),
    "cohere_biased": dict(
        family="cohere", seed=562, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=30, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=3, layer_norm_eps=1e-3, pad_token_id=0, logit_scale=0.7,
                    tie_word_embeddings=False, attention_bias=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    # Half of each head is turned, in pairs of neighbours; gate and up are one projection.
    "glm": dict(
        family="glm", seed=2571, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=48,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=0,
                    eos_token_id=[2, 3])),
    "glm_unbiased": dict(
        family="glm", seed=572, dtype=torch.float32, spread=0.4, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=True, pad_token_id=0,
                    attention_bias=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0})),
    # Norms of heads that are turned already, by a base stretched for one alpha.
    "hunyuan": dict(
        family="hunyuan_v1_dense", seed=581, dtype=torch.bfloat16, spread=0.4, batch=(2, 19),
        targets=["q_proj", "v_proj"], r=4, alpha=96,
        config=dict(vocab_size=69, hidden_size=26, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=True, pad_token_id=0,
                    rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0})),
    "hunyuan_biased": dict(
        family="hunyuan_v1_dense", seed=582, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3,
        alpha=48,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-3, tie_word_embeddings=False, pad_token_id=0,
                    attention_bias=True, rope_parameters=DEFAULT_ROPE)),
    # Magnitudes that the norms behind the rotation take away again.
    "hunyuan_stretched": dict(
        family="hunyuan_v1_dense", seed=2583, dtype=torch.float16, spread=0.45, batch=(3, 13),
        targets=["k_proj", "up_proj"], r=2, alpha=96,
        config=dict(vocab_size=61, hidden_size=23, intermediate_size=43, num_hidden_layers=1, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=0,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0,
                                     "original_max_position_embeddings": 16})),
    # Convolutions around one layer that attends.
    "lfm2": dict(
        family="lfm2", seed=401, dtype=torch.bfloat16, spread=0.4, batch=(2, 19),
        targets=["q_proj", "v_proj", "in_proj"], r=4, alpha=64,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=8, norm_eps=1e-5, block_auto_adjust_ff_dim=False, pad_token_id=0,
                    layer_types=["conv", "full_attention", "conv"], rope_parameters=DEFAULT_ROPE)),
    # A width made of the key; four taps; the first layer attends, and a head of its own reads what is made.
    "lfm2_adjusted": dict(
        family="lfm2", seed=402, dtype=torch.float32, spread=0.45, batch=(1, 33), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=50, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=10, norm_eps=1e-3, block_ffn_dim_multiplier=1.1,
                    block_multiple_of=7, conv_L_cache=4, full_attn_idxs=[0], pad_token_id=0,
                    tie_word_embeddings=False, rope_parameters=stretched(200.0, 8.0, 1.0, 4.0, 24))),
    # More taps than a prompt has tokens.
    "lfm2_far": dict(
        family="lfm2", seed=403, dtype=torch.float16, spread=0.45, batch=(3, 13),
        targets=["in_proj", "out_proj", "w1", "w3"], r=2, alpha=32,
        config=dict(vocab_size=61, hidden_size=30, intermediate_size=45, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=5, norm_eps=1e-4, block_multiple_of=2, conv_L_cache=9, full_attn_idxs=[1],
                    pad_token_id=0, rope_parameters=DEFAULT_ROPE)),
    # A state around attention; more tokens than a chunk of 64 has, and no multiple of it; two value heads for a key head.
    "qwen35": dict(
        family="qwen3_5_text", seed=511, dtype=torch.bfloat16, spread=0.4, batch=(2, 83),
        targets=["q_proj", "v_proj", "in_proj_qkv", "in_proj_z", "out_proj"], r=4, alpha=32,
        config=dict(vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, pad_token_id=0, linear_num_key_heads=2,
                    linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=10,
                    layer_types=["linear_attention", "full_attention", "linear_attention"],
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [1, 1, 0],
                                     "mrope_interleaved": True})),
    # The first layer attends; three value heads for a key head; a head of its own, biases, three taps, half of each head
    # turned.
    "qwen35_grouped": dict(
        family="qwen3_5_text", seed=502, dtype=torch.float32, spread=0.4, batch=(1, 131), targets="all-linear", r=3,
        alpha=24,
        config=dict(vocab_size=65, hidden_size=27, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=12, pad_token_id=0, rms_norm_eps=1e-3, attention_bias=True,
                    linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=14,
                    linear_conv_kernel_dim=3, layer_types=["full_attention", "linear_attention"],
                    partial_rotary_factor=0.5, rope_parameters=DEFAULT_ROPE)),
    # Every fourth layer attends, as where layer_types is silent; one key head; tied; texts shorter than a chunk.
    "qwen35_tied": dict(
        family="qwen3_5_text", seed=504, dtype=torch.float16, spread=0.4, batch=(3, 23),
        targets=["k_proj", "o_proj", "in_proj_a", "in_proj_b", "gate_proj"], r=2, alpha=32,
        config=dict(vocab_size=61, hidden_size=30, intermediate_size=45, num_hidden_layers=4, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=16, pad_token_id=0, tie_word_embeddings=True,
                    linear_num_key_heads=1, linear_num_value_heads=1, linear_key_head_dim=16,
                    linear_value_head_dim=16, linear_conv_kernel_dim=6)),
    # Learned positions, biases everywhere, and matrices stored by what they read.
    "gpt2": dict(
        family="gpt2", seed=25371, dtype=torch.bfloat16, spread=0.25, batch=(2, 21), targets=None, r=4, alpha=32,
        config=dict(vocab_size=69, n_embd=24, n_layer=2, n_head=4, layer_norm_epsilon=1e-5, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0)),
    "gpt2_narrow": dict(
        family="gpt2", seed=2372, dtype=torch.float32, spread=0.3, batch=(3, 17), targets="all-linear", r=3, alpha=24,
        config=dict(vocab_size=65, n_embd=30, n_layer=3, n_head=3, n_inner=41, layer_norm_epsilon=1e-3,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False)),
}

if __name__ == "__main__":
    write_all(SHAPES, sys.argv[1:])
