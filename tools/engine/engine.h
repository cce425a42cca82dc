/* A model and a session as the command line asks for them: the options that several commands share
 * and the messages when something is wrong with the model.
 *
 * Each function that can fail tells the user and returns an exit code, EXIT_OK on success.
 */
#ifndef MGPT_ENGINE_H
#define MGPT_ENGINE_H

#include "base/file.h"
#include "common/cli.h"
#include "engine/finite.h"
#include "engine/sampling.h"
#include "engine/steer.h"
#include "engine/watch.h"
#include "mgpt.h"

struct engine {
    const char *path, *isa, *kv, *steer_spec; /* options */
    struct cli_many lora;
    int32_t n_ctx, n_threads;
    int vocab_only, check_finite, no_fused;
    /* The model as a GGUF file in memory where path is another format; else NULL. */
    void *converted;
    size_t n_converted;
    int needs_finite; /* logits that are not finite are refused */
    int only_draws;   /* logits are only drawn from (engine_begin) */
    int pack_later;   /* mgpt_model_params.pack_later */
    int32_t top_k;    /* mgpt_model_params.top_k */
    mgpt_model *model;
    mgpt_session *session;
    mgpt_info info;
    struct finite finite;
    struct watcher always; /* --check-finite: watches every session, last in every chain */
    struct steer steer;
    struct watcher steering; /* --steer: changes every session, first in every chain */
};

/* Rows of an option table; e is a struct engine. */
#ifdef MGPT_NO_CONVERT
#define ENGINE_OPT_MODEL(e)                                                                        \
    {                                                                                              \
        "-m, --model", "FILE", CLI_TEXT, &(e).path, 0, 0, "the model: a GGUF file", IN_USED        \
    }
#else
/* Two rows: */
#define ENGINE_OPT_MODEL(e)                                                                        \
    {"-m, --model", "FILE", CLI_TEXT, &(e).path, 0, 0, "the model: GGUF, or what convert reads",   \
     IN_USED},                                                                                     \
    {                                                                                              \
        "--lora", "FILE[:SCALE]", CLI_MANY, &(e).lora, 0, 0,                                       \
            "apply an adapter (PEFT directory, GGUF); may be repeated", IN_MODEL                   \
    }
#endif
#define ENGINE_OPT_CTX(e)                                                                          \
    {                                                                                              \
        "-c, --ctx-size", "N", CLI_INT, &(e).n_ctx, 1, INT32_MAX,                                  \
            "positions to use (default: the model's)", IN_SPEED                                    \
    }
#define ENGINE_OPT_THREADS(e)                                                                      \
    {                                                                                              \
        "-t, --threads", "N", CLI_INT, &(e).n_threads, 1, CLI_MAX_THREADS,                         \
            "threads (default: chosen); never changes the result", IN_USED                         \
    }
#define ENGINE_OPT_KV(e)                                                                           \
    {                                                                                              \
        "--kv", "TYPE", CLI_TEXT, &(e).kv, 0, 0,                                                   \
            "keys and values in f32, f16 or q8_0 (default: chosen)", IN_SPEED                      \
    }
/* Two rows: how the numbers are computed, which never changes the result. */
#define ENGINE_OPT_ISA(e)                                                                          \
    {"--isa",                                                                                      \
     "NAME",                                                                                       \
     CLI_TEXT,                                                                                     \
     &(e).isa,                                                                                     \
     0,                                                                                            \
     0,                                                                                            \
     "instruction set (default: the best; --isa list shows them)",                                 \
     IN_SPEED},                                                                                    \
    {                                                                                              \
        "--no-fused", NULL, CLI_FLAG, &(e).no_fused, 0, 0,                                         \
            "small models on the general path too; the same result, slower", IN_SPEED              \
    }

#define ENGINE_OPT_FINITE(e)                                                                       \
    {                                                                                              \
        "--check-finite", NULL, CLI_FLAG, &(e).check_finite, 0, 0,                                 \
            "stop at the first NaN or infinity inside, say where it is (exit 3); slow", IN_LOOK    \
    }

#define ENGINE_OPT_STEER(e)                                                                        \
    {                                                                                              \
        "--steer", "FILE[:SCALE[:LAYER]]", CLI_TEXT, &(e).steer_spec, 0, 0,                        \
            "add control vectors (GGUF, .npy) to the residual after each layer", IN_MODEL          \
    }

/* Takes the model from -m or, failing that, from the first operand, and stores the n_others
 * operands that are not the model in others. Too few or too many: a usage error. */
int engine_choose(struct engine *e, const struct cli_command *command, const char **operands,
                  int n_operands, const char **others, int n_others);

/* Parses the options of a command whose only operand is the model, and chooses it. Returns 1 to go
 * on; 0 with *code, the exit code, when that was all (--help, or a failure). */
int engine_parse(struct engine *e, const struct cli_command *command, int argc, char **argv,
                 int *code);

/* Opens the model and fills info; reads the vectors of --steer. A checkpoint that is not GGUF is
 * converted in memory. */
int engine_open(struct engine *e);

/* Opens the engine's model a second time, for an instruction set (NULL: the best). The caller closes it
 * before the engine. NULL with *err. */
mgpt_model *engine_reopen(const struct engine *e, const char *isa, mgpt_error *err);

/* The bytes of the model's GGUF file, until the engine is closed. The caller closes *file. A
 * status. */
int engine_bytes(const struct engine *e, struct file *file, const uint8_t **bytes, size_t *n_bytes,
                 mgpt_error *err);

/* EXIT_OK if ids mean the same in both, which are open; else tells the user, EXIT_REFUSED. */
int engine_same_tokens(const struct engine *a, const struct engine *b);

/* XXH64 of those bytes, and their number. Returns a status. */
int engine_hash(const struct engine *e, uint64_t *hash, uint64_t *n_bytes, mgpt_error *err);

/* After engine_parse: opens the model and makes a sampler. Returns an exit code. */
int engine_begin(struct engine *e, struct sampling *sampling, const struct cli_command *command);

/* Both. 1 to go on; 0 with *code. */
int engine_start(struct engine *e, struct sampling *sampling, const struct cli_command *command,
                 int argc, char **argv, int *code);

/* engine_session makes the engine's session: the struct must not move from then on. engine_adopt gives it
 * the caller's. engine_new_session makes one that the caller frees. */
int engine_session(struct engine *e);
void engine_adopt(struct engine *e, mgpt_session *session);
int engine_new_session(struct engine *e, int n_threads, mgpt_session **session);

/* What --kv says (NULL: nothing) as the kv_type of mgpt_session_params, -1 for something else. */
int32_t engine_find_kv(const char *name);

/* Reads the option --kv. Returns EXIT_USAGE, after a message, for an unknown type. */
int engine_read_kv(const struct engine *e, int32_t *type);

/* What sessions keep keys and values as, "f32", "f16" or "q8_0", and the bytes of a position. */
const char *engine_kv_type(const struct engine *e);
uint64_t engine_kv_bytes(const struct engine *e);

/* The functions of mgpt.h on sessions of the engine, with --check-finite; they return what those
 * return and tell the user nothing. With needs_finite they fail with MGPT_EFILE after a pass whose
 * last logits are not finite, unless `own` looks at them itself. Ctrl-C can stop engine_feed in the
 * middle of a pass. There `own`, which may be NULL, is a chain that also watches: before
 * --check-finite, which so sees what others have changed. */
int engine_feed(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n,
                struct watcher *own, mgpt_error *err);
const float *engine_step(struct engine *e, int32_t token, mgpt_error *err);
int engine_step_many(struct engine *e, mgpt_session *const *sessions, const int32_t *tokens,
                     size_t n, mgpt_error *err);
int engine_feed_many(struct engine *e, const mgpt_run *runs, size_t n, mgpt_error *err);
mgpt_session *engine_fork(struct engine *e, const mgpt_session *session, mgpt_error *err);

/* From now on the chain `own` watches the session, before it --steer in a watcher of the caller's,
 * after it --check-finite; both watchers must stay where they are. For engine_feed_many. */
int engine_watch(struct engine *e, mgpt_session *session, struct watcher *own,
                 struct watcher *steering, mgpt_error *err);

/* 1: every session is watched at all times. */
int engine_watches(const struct engine *e);

/* MGPT_EFILE with a line if the engine needs finite logits and these, after position pos, are
 * not. */
int engine_check(struct engine *e, const float *logits, size_t pos, mgpt_error *err);

/* One token more for a session of the engine that is full: it becomes the last n_ctx tokens, run
 * anew from position 0, as nanoGPT crops its input. Costs a pass over all of them. Returns a status; on
 * failure the session may hold fewer tokens. */
int engine_slide(struct engine *e, mgpt_session *session, int32_t token, mgpt_error *err);

/* mgpt_sync that Ctrl-C can stop: a status. engine_sync prints why it failed, and returns an exit code. */
int engine_hold(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n,
                mgpt_error *err);
int engine_sync(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n);

/* The number of tokens that two texts begin with in common. */
size_t engine_n_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b);

enum { ENGINE_FRONT = 32 };

/* What goes before a text that is to begin with `bos` (-1: nothing): bos, or all tokens that the
 * model puts first if bos is the model's. Returns their number. */
size_t engine_front(const struct engine *e, int32_t bos, int32_t front[ENGINE_FRONT]);

/* Encodes into a malloc'ed array of *n tokens with room for one more after them, after bringing the
 * text into normal form C where the model wants that (offsets in messages then count in the
 * result). engine_front goes before it unless the text begins with that; flags as for mgpt_encode;
 * `what` names the text in messages. */
int engine_encode(const struct engine *e, const char *what, const char *text, size_t n_bytes,
                  unsigned flags, int32_t bos, int32_t **tokens, size_t *n);

/* Encodes as engine_encode, but prints nothing: a status. */
int engine_try_encode(const struct engine *e, const char *text, size_t n_bytes, unsigned flags,
                      int32_t bos, int32_t **tokens, size_t *n, mgpt_error *err);

/* The first token of exactly these bytes, or -1. */
int32_t engine_token_of(const struct engine *e, const char *bytes, size_t n);

/* Tells the user and returns EXIT_FULL when n tokens are more than the session can hold. */
int engine_fits(const struct engine *e, const char *what, size_t n);

/* A text of more bytes never fits the context. */
size_t engine_text_bytes(const struct engine *e);

/* How many logits may be drawn from: rows without a token (padding) are never chosen. */
size_t engine_n_choices(const struct engine *e);

/* Frees session, model and what was converted. */
void engine_close(struct engine *e);

#endif
