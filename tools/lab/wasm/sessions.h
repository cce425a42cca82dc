/* What the module exports for programs in JavaScript (js/mgpt.js), besides what pages use (module.h): any number of
 * sessions of its model, taps and text.
 *
 * Numbers of sessions and the rules of failures are those of module.h and mgpt.h. The module imports page.tap: it gets
 * what a tap sees (mgpt_value) and returns 0 to go on.
 */
#ifndef MGPT_SESSIONS_H
#define MGPT_SESSIONS_H

#include "lab/module.h"

/* The byte of the last failure: of a file that lab_open refuses. */
LAB_API(lab_error_offset) uint64_t lab_error_offset(void);

/* Field i of mgpt_info, its kind (t text, i int32, f flag, r float, c uint64) before its name: "in_vocab"; NULL past the
 * end. Where it is. */
LAB_API(lab_fact) const char *lab_fact(size_t i);
LAB_API(lab_fact_at) const void *lab_fact_at(size_t i);

/* Hook i that the model fires (struct hook), NULL past the end. */
struct hook;
LAB_API(lab_hook) const struct hook *lab_hook(size_t i);

/* mgpt_piece (what 0), mgpt_token_text (1): where, and its length at *n_bytes. mgpt_is_end. */
LAB_API(lab_piece) const char *lab_piece(int what, int token, size_t *n_bytes);
LAB_API(lab_is_end) int lab_is_end(int token);

/* mgpt_stream_put, or mgpt_stream_end with token -1. Returns bytes. */
LAB_API(lab_stream) size_t lab_stream(mgpt_stream *stream, int token, char *to, size_t cap);

/* n_ctx, kv_type: as in mgpt_session_params. */
LAB_API(lab_session_new) mgpt_session *lab_session_new(int n_ctx, int kv_type);
LAB_API(lab_session_fork) mgpt_session *lab_session_fork(const mgpt_session *session);
LAB_API(lab_session_free) void lab_session_free(mgpt_session *session);
LAB_API(lab_session_ctx) int lab_session_ctx(const mgpt_session *session);

/* Runs n tokens with page.tap at these points; 0: none. */
LAB_API(lab_feed)
int lab_feed(mgpt_session *session, const int32_t *tokens, size_t n, uint64_t points);
LAB_API(lab_rewind) int lab_rewind(mgpt_session *session, size_t pos);
LAB_API(lab_pos) size_t lab_pos(const mgpt_session *session);
LAB_API(lab_held) const int32_t *lab_held(const mgpt_session *session); /* its tokens */
LAB_API(lab_logits) const float *lab_logits(const mgpt_session *session);

/* The seed with which mgpt generate --seed --samples draws this sample. */
LAB_API(lab_sample_seed) uint64_t lab_sample_seed(uint64_t seed, uint64_t sample);

#endif
