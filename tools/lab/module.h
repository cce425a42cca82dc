/* What the module of a lab page exports: the engine, for page/engine.js.
 *
 * The module is the library compiled to WebAssembly. It has one model and two lanes: lane 0 is the
 * run that is shown and may have edits, lane 1 has none. Every pass keeps the value at every point
 * of the model, for all positions. Functions that return int return a negative mgpt_status on
 * failure, those that return a pointer NULL; lab_error() then says why. Pointers that are returned
 * are the module's own and stay until the next call. Nothing here imports anything but page.matches
 * (wasm/split.c), page.number (wasm/command.c) and page.tap (wasm/sessions.h).
 *
 * Words of this folder:
 *   page     the HTML file that `mgpt lab` writes: page/ around the module, the model and a record
 *   record   one run computed beforehand, for pages whose model is too large to take with them (record.h)
 *   module   this file's functions as WebAssembly; lane: one of its two sessions
 *   edit     a head or an MLP that is switched off, scaled or replaced by its mean
 *   draft    a copy of a run that goes on by itself and is thrown away
 */
#ifndef MGPT_LAB_MODULE_H
#define MGPT_LAB_MODULE_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__wasm__)
#define LAB_API(name) __attribute__((export_name(#name)))
#else
#define LAB_API(name)
#endif

enum { LAB_SHOWN, LAB_PLAIN, LAB_LANES };

/* One line about the last failure. */
LAB_API(lab_error) const char *lab_error(void);

/* Memory for what the page hands over. */
LAB_API(lab_room) void *lab_room(size_t n);
LAB_API(lab_free) void lab_free(void *p);

/* Opens a GGUF file of n bytes that came from lab_room; if it can be opened, they are the
 * module's. */
LAB_API(lab_open) int lab_open(uint8_t *bytes, size_t n);

/* For programs, which have files: takes an open model. After lab_close, which frees it, it can be
 * done again. */
int lab_adopt(mgpt_model *model);

/* Closes the model and all that belongs to it; another one can then be opened. */
LAB_API(lab_close) void lab_close(void);

LAB_API(lab_n_ctx) int lab_n_ctx(void);

/* Tokens of a text, BOS not added, or with flags of mgpt_encode; their number. The tokens are at lab_tokens(). */
LAB_API(lab_encode) int lab_encode(const char *text, size_t n);
LAB_API(lab_encode_as) int lab_encode_as(const char *text, size_t n, unsigned flags);
LAB_API(lab_tokens) const int32_t *lab_tokens(void);

/* What lane 0 does differently from the next lab_run on; lab_edits_clear ends all of it. Head -1 is the layer's MLP; the part's
 * output is multiplied by `factor`, or with `mean` replaced by its mean over the unedited run. */
LAB_API(lab_edits_clear) void lab_edits_clear(void);
LAB_API(lab_edit) int lab_edit(int layer, int head, float factor, int mean);

/* Steering vectors from the bytes of a file (engine/steer.h; layer: of an .npy of one row, else -1),
 * which stay until others are read; and adding them times a scale. */
LAB_API(lab_steer_read) int lab_steer_read(const uint8_t *bytes, size_t n, int layer);
LAB_API(lab_steer) int lab_steer(float scale);

/* Makes the lane hold these tokens, computing only what is new. After a failure it holds
 * nothing. */
LAB_API(lab_run) int lab_run(int lane, const int32_t *tokens, size_t n);
LAB_API(lab_n_tokens) int lab_n_tokens(int lane);

/* A copy of the first n tokens of the lane's run, with its changes, that goes on by itself: logits after
 * one token more. Nothing else is kept of it. */
LAB_API(lab_draft) int lab_draft(int lane, size_t n);
LAB_API(lab_draft_step) const float *lab_draft_step(int lane, int token);

/* Texts that go on after the first n_prompt tokens of lane 0, as `mgpt generate --samples n` writes
 * them: at most `longest` tokens of those below n_choices. Returns how many texts have not ended;
 * lab_many_step runs most_passes passes and returns the same. lab_many_texts are the texts that have:
 * for each how many samples, how many tokens, then the tokens, without the one that ends a text; in
 * all lab_many_size numbers. */
LAB_API(lab_many)
int lab_many(size_t n_prompt, size_t n, size_t longest, size_t n_choices, float temperature,
             int top_k, float top_p, float min_p, uint64_t seed);
LAB_API(lab_many_step) int lab_many_step(size_t most_passes);
LAB_API(lab_many_texts) const int32_t *lab_many_texts(void);
LAB_API(lab_many_size) size_t lab_many_size(void);

/* A sweep of `mgpt patch` over all sites of one point, with the words of its options: `corrupt` is
 * changed, or without it (n_corrupt 0) `clean`. Returns how many runs it takes; lab_patch_step runs
 * some, of about most_rows tokens, and returns how many are left. */
LAB_API(lab_patch)
int lab_patch(const int32_t *clean, size_t n_clean, const int32_t *corrupt, size_t n_corrupt,
              const char *over, const char *mode, const char *metric);
LAB_API(lab_patch_step) int lab_patch_step(size_t most_rows);

/* The sweep that has begun: the number of heads of its point (0: the point has none); the metric of each
 * site, [layers][heads, at least 1][positions], NaN where it is not known; the metric of a prompt (run 0:
 * clean, 1: corrupt). lab_patch_apply: lane 0 makes the change of a site from the next lab_run on. */
LAB_API(lab_patch_heads) int lab_patch_heads(void);
LAB_API(lab_patch_values) const double *lab_patch_values(void);
LAB_API(lab_patch_metric) double lab_patch_metric(int run);
LAB_API(lab_patch_apply) int lab_patch_apply(size_t index);

/* All rows of a point (mgpt_point): [tokens][columns]; scores and pattern have, for each position p
 * in order, [heads][p + 1] values. NULL where the model has no such point. Layer 0 for points
 * outside. */
LAB_API(lab_value) const float *lab_value(int lane, int point, int layer);

/* Elements [first, first + n) of a tensor of the file as floats (mgpt_read_tensor). */
LAB_API(lab_weights) const float *lab_weights(const char *name, size_t first, size_t n);

/* Final norm and head on row `pos` of a residual: the logit lens. */
LAB_API(lab_lens) const float *lab_lens(int lane, int point, int layer, size_t pos);

/* Final norm and head on what a neuron adds to the residual when it fires: its column of the MLP's
 * output matrix. */
LAB_API(lab_neuron) const float *lab_neuron(int layer, int unit);

/* A logit as a sum: doubles [total, token embedding, position embedding, biases, rounding, then per
 * layer its heads and its MLP]. */
LAB_API(lab_dla) const double *lab_dla(int lane, size_t pos, int token);

/* A circuit of the model (engine/circuit.h): kind as there, ids[n] its tokens, n 0: all. Returns the number of cells;
 * lab_circuit_cells: its cells, row after row. lab_circuit_order: of a square one, where its columns, or its rows, are along
 * the table's first singular vector; tokens without text are left out. */
LAB_API(lab_circuit)
int lab_circuit(int kind, int layer, int index, const int32_t *ids, size_t n);
LAB_API(lab_circuit_cells) const float *lab_circuit_cells(void);
LAB_API(lab_circuit_order) const double *lab_circuit_order(int by_cols);

/* Draws from n logits what `mgpt generate --seed` draws as its draw number `counter`. */
LAB_API(lab_sample)
int lab_sample(const float *logits, size_t n, float temperature, int top_k, float top_p,
               float min_p, uint64_t seed, uint32_t counter);

/* XXH64 of the logits of all positions. */
LAB_API(lab_hash) uint64_t lab_hash(int lane);

#endif
