/* Steps that models.txt names ("read do gemma" is hf_gemma, "put mlps" is hf_put_mlps), and what
 * they and the reader are written with.
 *
 * A function that finds a fault leaves the run (checkpoint.h), so that functions return the values that
 * they read.
 */
#ifndef MGPT_CONVERT_HF_SPECIAL_H
#define MGPT_CONVERT_HF_SPECIAL_H

#include "convert/families/hf.h"

/* ---- hf_families.c --------------------------------------------------------------------------- */

/* Leaves the reader with "config.json: ...". */
_Noreturn __attribute__((format(printf, 2, 3))) void hf_stop(struct hf_model *m, const char *fmt,
                                                             ...);

/* The value of a key of m->at. `absent` is that of an absent key; -1, NAN or NULL: it must be there.
 * hf_any: any number; hf_num: between `above` and `below`; hf_count: from min to max. */
const json_t *hf_get(struct hf_model *m, const char *key);
double hf_any(struct hf_model *m, const char *key, double absent);
double hf_num(struct hf_model *m, const char *key, double absent, double above, double below);
uint32_t hf_count(struct hf_model *m, const char *key, int64_t absent, uint32_t min, uint32_t max);
int hf_on(struct hf_model *m, const char *key, int absent);
const char *hf_word(struct hf_model *m, const char *key, const char *absent);
void hf_off(struct hf_model *m, const char *key);

/* The steps of the family. */
hf_step_fn hf_take_steps;

/* ---- hf_windows.c ---------------------------------------------------------------------------- */

/* Room for a window per layer in hp.windows, all 0. */
int32_t *hf_windows(struct hf_model *m);

/* All layers have the window that sliding_window states. */
hf_step_fn hf_one_window;

/* Gives windows to the layers that layer_types names; without that key to the layers from `first` on, except
 * one of each `period` (0: no exception): the last one, or by the architecture the first. They are as long as
 * hp.window, or where that is 0 as sliding_window says. */
void hf_layer_windows(struct hf_model *m, uint32_t period, uint32_t first);

/* Gives windows to layers if use_sliding_window is true: by layer_types, or from max_window_layers on. */
hf_step_fn hf_used_windows;

hf_step_fn hf_cohere_compass;

/* Windows become attention.sliding_window_pattern. */
hf_step_fn hf_window_flags;

/* Layers with windows, and their rope bases by layer_rope_theta. */
hf_step_fn hf_granite_swa;

/* The index of layer_types[i] in kinds, which must have it; kinds[2] may be NULL. */
size_t hf_layer_kind(struct hf_model *m, uint32_t i, const char *const kinds[3]);

/* Whether layer_types[i] is `yes`; it must be one of both. */
int hf_layer_is(struct hf_model *m, uint32_t i, const char *yes, const char *no);

/* ---- hf_special.c ---------------------------------------------------------------------------- */

/* The kind of layers whose settings are the model's, where there are some for each kind: those with a window, where others
 * are not rotated and have none. */
const char *hf_rope_layer(struct hf_model *m);

/* The rope of layers with a window, which has no scaling. */
struct hf_rope hf_local_rope(struct hf_model *m, const struct hf_rope_keys *keys);

/* Its base and the rotated part of a head become those of layers with a window. */
void hf_set_local_rope(struct hf_model *m, const struct hf_rope *local);

hf_step_fn hf_smollm3, hf_gemma, hf_gemma_scale, hf_gemma3_rope, hf_olmo3_rope, hf_hunyuan;
hf_step_fn hf_exaone4, hf_minicpm, hf_lfm2, hf_lfm3, hf_opt, hf_gptj, hf_ministral3;
hf_step_fn hf_modernbert, hf_put_modernbert;             /* hf_windows.c */
hf_step_fn hf_gemma4, hf_put_resting_pairs, hf_put_lfm3; /* hf_gemma4.c */
hf_step_fn hf_sequential, hf_bigcode, hf_falcon, hf_gpt1, hf_ctrl, hf_gpt_neo, hf_qwen2_moe,
    hf_apertus1p5, hf_mllama;

/* from_litgpt.c */
hf_step_fn hf_litgpt;

/* ---- hf_mixtures.c --------------------------------------------------------------------------- */

hf_step_fn hf_routed, hf_experts_of, hf_dots1, hf_ernie_moe, hf_lfm2_moe, hf_hunyuan_moe;
hf_step_fn hf_minimax_m2, hf_hy_v3, hf_granite_4, hf_mlp_types, hf_cohere2_moe, hf_afmoe;
hf_step_fn hf_dbrx, hf_aria, hf_beam;
hf_step_fn hf_laguna, hf_mimo; /* hf_laguna.c, hf_mimo.c */

/* Reads n_group and topk_group; a group has `least` experts or more. */
void hf_groups_of(struct hf_model *m, uint32_t least);

/* Marks the tensors of layers that predict further tokens. */
hf_step_fn hf_skip_further;

/* ---- hf_latent.c ----------------------------------------------------------------------------- */

hf_step_fn hf_latent_sizes, hf_deepseek2, hf_deepseek3, hf_deepseek3_types, hf_minicpm3,
    hf_latent_numbers, hf_indexed, hf_put_indexed;

/* ---- hf_special_put.c ------------------------------------------------------------------------ */

hf_step_fn hf_put_convolutions, hf_put_granite_4, hf_put_xielu_weights, hf_put_opt_positions;
hf_step_fn hf_put_opt, hf_put_sinusoids, hf_put_ctrl_sinusoids, hf_put_codegen_qkv,
    hf_put_stablelm_gains;

/* The tensor of this name, which must be there. */
__attribute__((format(printf, 2, 3))) const struct state_tensor *hf_tensor(struct hf_model *m,
                                                                           const char *name, ...);

/* t, which must be a matrix [n_out, n_in], or a vector [n_in] where n_out is 0. */
const struct state_tensor *hf_shaped(struct hf_model *m, const struct state_tensor *t,
                                     uint64_t n_out, uint64_t n_in);

/* Puts parts under "blk.LAYER.STEM.weight", or under STEM where layer is below 0. Returns what was
 * added. */
struct ckpt_tensor *hf_add(struct hf_model *m, int64_t layer, const char *stem, uint64_t n_in,
                           const struct state_part *parts, size_t n_parts);

/* Splits Granite's shared_mlp.input_linear, [2 F, n_embd]: the gate's rows, then those of up. */
void hf_put_gate_up(struct hf_model *m, uint32_t layer, uint64_t F, const char *gate,
                    const char *up);

/* ---- hf_experts.c ---------------------------------------------------------------------------- */

hf_step_fn hf_put_mlps, hf_put_lfm2_moe, hf_put_dbrx, hf_put_beam;

/* The matrices of all experts in t, [n_expert, n_in, n_out], as a part each; *parts says which rows. */
void hf_split_experts(struct hf_model *m, const struct state_tensor *t, uint64_t n_in,
                      uint64_t n_out, struct state_part *parts);

/* ---- hf_gpt_oss.c ---------------------------------------------------------------------------- */

hf_step_fn hf_gpt_oss, hf_put_gpt_oss;

/* Layers that config.json gives a plain MLP: by mlp_only_layers, and all but each n-th: the n. */
uint32_t hf_plain_layers(struct hf_model *m);

#endif
