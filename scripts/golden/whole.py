#!/usr/bin/env python3
"""Writes tests/model/golden/ for the text parts of models that see pictures, in folders that hold the whole model.

usage: scripts/golden/whole.py [folder]     needs what llama.py needs, and writes the same files.
"""
import sys

import torch

from llama import write_all

SIGLIP = dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=12, num_hidden_layers=1,
              num_attention_heads=2, image_size=8, patch_size=4)
PIXTRAL = dict(model_type="pixtral", hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
               head_dim=4, image_size=8, patch_size=4)

SHAPES = {
    # The head is tied where nobody says so; layers that see all of the text have stretched positions.
    "whole_gemma3": dict(
        family="gemma3", seed=1501, dtype=torch.bfloat16, spread=0.3, batch=(2, 21), targets=["q_proj", "v_proj"], r=4,
        alpha=32,
        whole=dict(vision_config=SIGLIP, mm_tokens_per_image=4, image_token_index=61, boi_token_index=59,
                   eoi_token_index=60),
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=39, num_hidden_layers=3, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=12, query_pre_attn_scalar=9, sliding_window=6, pad_token_id=0,
                    layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                    rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 50000.0, "factor": 4.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}})),
    # Layers of two kinds, whose names lie below a part of the whole model.
    "whole_gemma4": dict(
        family="gemma4", seed=1611, dtype=torch.bfloat16, spread=0.3, batch=(2, 21),
        targets=["k_proj", "o_proj", "down_proj"], r=3, alpha=32,
        whole=dict(vision_config=dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                                      num_key_value_heads=2, head_dim=4, patch_size=2, position_embedding_size=16),
                   audio_config=None, image_token_id=62, video_token_id=63, audio_token_id=64, boi_token_id=65,
                   eoi_token_id=66),
        config=dict(vocab_size=61, hidden_size=26, intermediate_size=39, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, global_head_dim=16, num_global_key_value_heads=2,
                    attention_k_eq_v=True, pad_token_id=0, sliding_window=6, hidden_size_per_layer_input=0,
                    final_logit_softcapping=7.0, use_bidirectional_attention="vision",
                    layer_types=["sliding_attention", "full_attention", "full_attention"])),
    # A head of its own in a folder that does not say so, as Mistral Small 3.1 has it.
    "whole_mistral3": dict(
        family="mistral3", seed=502, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["q_proj", "v_proj"], r=4,
        alpha=64, silent="tie_word_embeddings",
        whole=dict(vision_config=PIXTRAL, image_token_index=69, spatial_merge_size=1, tie_word_embeddings=False),
        config=dict(model_type="mistral", vocab_size=69, hidden_size=24, intermediate_size=37, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, sliding_window=None,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    # Ministral 3, whose queries grow with their position.
    "whole_ministral3": dict(
        family="mistral3", seed=503, dtype=torch.float32, spread=0.4, batch=(1, 31), targets="all-linear", r=3, alpha=24,
        whole=dict(vision_config=PIXTRAL, image_token_index=63, spatial_merge_size=1, tie_word_embeddings=True),
        config=dict(model_type="ministral3", vocab_size=63, hidden_size=27, intermediate_size=35, num_hidden_layers=2,
                    num_attention_heads=3, num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-4, pad_token_id=0,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0,
                                     "original_max_position_embeddings": 10, "max_position_embeddings": 160,
                                     "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                     "llama_4_scaling_beta": 0.3})),
    # Mistral Small 4: keys and values of narrow rows; a softmax chooses experts, uncorrected; queries grow beyond the
    # original positions, whole heads of them.
    "whole_mistral4": dict(
        family="mistral3", seed=1851, dtype=torch.float32, spread=0.4, batch=(1, 37), targets=["o_proj"], r=3, alpha=24,
        target_parameters=["experts.gate_up_proj", "experts.down_proj"],
        whole=dict(vision_config=PIXTRAL, image_token_index=62, spatial_merge_size=1, tie_word_embeddings=False),
        config=dict(model_type="mistral4", vocab_size=63, hidden_size=28, intermediate_size=31, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=4, q_lora_rank=13, kv_lora_rank=10, qk_nope_head_dim=6,
                    qk_rope_head_dim=6, v_head_dim=10, rms_norm_eps=1e-4, n_routed_experts=6, num_experts_per_tok=2,
                    n_shared_experts=1, moe_intermediate_size=16, routed_scaling_factor=1.3, pad_token_id=0,
                    max_position_embeddings=160,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 16.0,
                                     "original_max_position_embeddings": 10, "mscale": 1.0, "mscale_all_dim": 1.0,
                                     "llama_4_scaling_beta": 0.3})),
    # Three grids of positions, which are one for text.
    "whole_qwen2_5_vl": dict(
        family="qwen2_5_vl", seed=504, dtype=torch.bfloat16, spread=0.4, batch=(2, 19), targets=["k_proj", "up_proj"],
        r=3, alpha=64,
        whole=dict(vision_config=dict(depth=1, hidden_size=8, intermediate_size=12, num_heads=2, patch_size=4,
                                      window_size=8, out_hidden_size=24, fullatt_block_indexes=[0]),
                   image_token_id=71, video_token_id=72, vision_start_token_id=69, vision_end_token_id=70,
                   tie_word_embeddings=True),
        config=dict(vocab_size=71, hidden_size=24, intermediate_size=39, num_hidden_layers=2, num_attention_heads=2,
                    num_key_value_heads=1, rms_norm_eps=1e-6,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [2, 1, 3]})),
    # The same, interleaved.
    "whole_qwen3_vl": dict(
        family="qwen3_vl", seed=505, dtype=torch.bfloat16, spread=0.4, batch=(3, 13), targets="all-linear", r=2, alpha=32,
        whole=dict(vision_config=dict(depth=1, hidden_size=8, intermediate_size=12, num_heads=2, patch_size=4,
                                      out_hidden_size=26, num_position_embeddings=16, deepstack_visual_indexes=[0]),
                   image_token_id=69, video_token_id=70, vision_start_token_id=67, vision_end_token_id=68,
                   tie_word_embeddings=False),
        config=dict(vocab_size=69, hidden_size=26, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6,
                    rope_parameters={"rope_type": "default", "rope_theta": 5000000.0, "mrope_section": [2, 2, 2],
                                     "mrope_interleaved": True})),
    # States in most layers, which the last one reads by attention.
    "whole_qwen35": dict(
        family="qwen3_5", seed=1635, dtype=torch.bfloat16, spread=0.4, batch=(2, 71), r=3, alpha=32,
        targets=["q_proj", "in_proj_qkv", "out_proj", "down_proj"],
        whole=dict(vision_config=dict(depth=1, hidden_size=8, intermediate_size=12, num_heads=2, patch_size=4,
                                      out_hidden_size=24, num_position_embeddings=16),
                   image_token_id=67, video_token_id=68, vision_start_token_id=65, vision_end_token_id=66,
                   tie_word_embeddings=True),
        config=dict(vocab_size=67, hidden_size=24, intermediate_size=35, num_hidden_layers=4, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
                    linear_key_head_dim=10, linear_value_head_dim=12,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 1, 1],
                                     "mrope_interleaved": True, "partial_rotary_factor": 0.5})),
}

if __name__ == "__main__":
    write_all(SHAPES, sys.argv[1:])
